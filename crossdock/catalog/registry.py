"""Named tables that outlive a process: ``<home>/tables.json``."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from crossdock.errors import TableError
from crossdock.tables import Entry

REGISTRY_VERSION = 1


class Document(msgspec.Struct, frozen=True, kw_only=True):
    version: int = REGISTRY_VERSION
    tables: tuple[Entry, ...] = ()  # by key


class FileRegistry:
    """The file, read on every look and replaced whole on every change.

    Changes hold a lock beside the file, so two processes cannot lose each other's entry; readers
    need none, as the replacement is atomic.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / "tables.json"
        self._lock = home / "tables.lock"

    def entries(self) -> Mapping[str, Entry]:
        """Entries by key. Raises ``TableError`` for a damaged file."""
        return {entry.key: entry for entry in self._read().tables}

    def put(self, entry: Entry) -> None:
        """Add or replace."""
        with self._locked():
            entries = {**self.entries(), entry.key: entry}
            self._write(entries)

    def remove(self, key: str) -> bool:
        """Whether there was such an entry."""
        with self._locked():
            entries = dict(self.entries())
            if entries.pop(key.lower(), None) is None:
                return False
            self._write(entries)
            return True

    def _read(self) -> Document:
        try:
            document = msgspec.json.decode(self._path.read_bytes(), type=Document)
        except FileNotFoundError:
            return Document()
        except msgspec.MsgspecError as error:
            raise TableError(f"{self._path} is damaged ({error}); mend or remove it") from error
        if document.version != REGISTRY_VERSION:
            raise TableError(f"{self._path} was written by another version ({document.version})")
        return document

    def _write(self, entries: Mapping[str, Entry]) -> None:
        document = Document(tables=tuple(entries[name] for name in sorted(entries)))
        fresh = self._path.with_suffix(f".{os.getpid()}.new")
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(document)) + b"\n")
        fresh.replace(self._path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        with self._lock.open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield  # the lock ends with the handle
