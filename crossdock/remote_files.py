"""Users' files behind URLs, as the catalog and the executor read them: whole names, byte ranges.

The one implementation is S3's (``crossdock.platform.aws.table_files``); nothing here imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import NamedTuple, Protocol

from crossdock.errors import TableError

SCHEME = "s3://"
#: Read at first from a file's end: most footers are shorter.
_TAIL_BYTES = 64 * 1024
_MAGIC = b"PAR1"
#: At the end of a Parquet file whose footer is encrypted.
ENCRYPTED_MAGIC = b"PARE"
#: Length of the footer (4 bytes) and the magic after it.
_END_BYTES = 8


#: Raises when what is being done is not wanted any more.
Check = Callable[[], None]


def proceed() -> None:
    """Nothing stands in the way (``Check``)."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file as it was seen; its reads fail once it is another one."""

    url: str
    size: int  # bytes
    version: str  # ETag


class Range(NamedTuple):
    """Bytes ``start`` to ``end``, the end excluded."""

    start: int
    end: int


class RemoteFiles(Protocol):
    """Reads only. Raises ``PlatformDenied``, ``PlatformUnavailable`` and what is named below."""

    def look(self, url: str) -> RemoteFile:
        """Raises ``ObjectNotFound``."""
        ...

    def list(self, prefix: str) -> Sequence[RemoteFile]:
        """Every file whose URL begins with ``prefix``, by URL."""
        ...

    def read(self, file: RemoteFile, wanted: Range) -> bytes:
        """One range. Raises ``ObjectNotFound``, or ``ObjectChanged`` if it is another file now."""
        ...

    def fetch(
        self, file: RemoteFile, wanted: Sequence[Range], target: Path, check: Check = proceed
    ) -> None:
        """Lay ranges into ``target`` at their own places; in parallel. Raises as ``read``.

        ``check`` is called before each request, and what it raises ends the rest.
        """
        ...


def is_remote(path: str) -> bool:
    return path.startswith(SCHEME)


def read_tail(files: RemoteFiles, file: RemoteFile) -> bytes:
    """The end of a Parquet file from its footer on, at least.

    Raises ``TableError`` for anything but a Parquet file, and as ``RemoteFiles.read``.
    """
    tail = files.read(file, Range(max(0, file.size - _TAIL_BYTES), file.size))
    if tail.endswith(ENCRYPTED_MAGIC):
        raise TableError(f"{file.url} is encrypted; only plain Parquet files are read")
    if len(tail) < _END_BYTES or not tail.endswith(_MAGIC):
        raise TableError(f"{file.url} is not a readable Parquet file: no magic bytes at its end")
    length = int.from_bytes(tail[-_END_BYTES:-4], "little") + _END_BYTES
    if length > file.size:
        raise TableError(f"{file.url} is not a readable Parquet file: its footer is cut off")
    if length > len(tail):
        tail = files.read(file, Range(file.size - length, file.size - len(tail))) + tail
    return tail


def lay_tail(tail: bytes, size: int, target: Path) -> None:
    """A file of ``size`` bytes in which only the start's magic and the end are there."""
    with target.open("wb") as file:
        file.write(_MAGIC)
        file.truncate(size)
        file.seek(size - len(tail))
        file.write(tail)


class Lazily:
    """Remote files whose maker is asked when the first one is read (``RemoteFiles``)."""

    def __init__(self, make: Callable[[], RemoteFiles]) -> None:
        self._make = make
        self._made: RemoteFiles | None = None
        self._lock = Lock()

    def look(self, url: str) -> RemoteFile:
        return self._files().look(url)

    def list(self, prefix: str) -> Sequence[RemoteFile]:
        return self._files().list(prefix)

    def read(self, file: RemoteFile, wanted: Range) -> bytes:
        return self._files().read(file, wanted)

    def fetch(
        self, file: RemoteFile, wanted: Sequence[Range], target: Path, check: Check = proceed
    ) -> None:
        self._files().fetch(file, wanted, target, check)

    def _files(self) -> RemoteFiles:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made
