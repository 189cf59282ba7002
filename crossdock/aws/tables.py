"""Named tables of a deployment: one small object each, in the bucket of the results."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from urllib.parse import quote

import msgspec

from crossdock.errors import ObjectExists, ObjectNotFound, TableError
from crossdock.platform.aws.parallel import in_parallel
from crossdock.platform.ports import Objects
from crossdock.tables import Entry

PREFIX = "tables/"


class ObjectRegistry:
    """Entries as objects ``tables/<name>/<version>.json``; the highest version counts.

    Objects are create-only, so an entry is replaced by a new version, and nobody ever sees none. Of
    two who replace at once one is second, and his stands.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._read: dict[str, Entry] = {}  # by key: what a key says never changes
        self._lock = threading.Lock()

    def entries(self) -> Mapping[str, Entry]:
        newest: dict[str, str] = {}
        for found in self._objects.list(PREFIX):
            newest[found.key.rpartition("/")[0]] = found.key  # keys come in order
        entries = in_parallel(self._current, list(newest.values()))
        return {entry.key: entry for entry in entries if entry is not None}

    def put(self, entry: Entry) -> None:
        data = msgspec.json.encode(entry)
        while True:
            old = self._versions(entry.key)
            version = int(old[-1].rpartition("/")[2].removesuffix(".json")) + 1 if old else 1
            try:
                self._objects.put(f"{_folder(entry.key)}{version:010d}.json", data)
            except ObjectExists:
                continue  # somebody replaced it meanwhile; ours comes after that
            self._objects.delete(old)
            return

    def remove(self, key: str) -> bool:
        old = self._versions(key.lower())
        self._objects.delete(old)
        return bool(old)

    def _versions(self, key: str) -> list[str]:
        return [found.key for found in self._objects.list(_folder(key))]

    def _current(self, key: str) -> Entry | None:
        """The entry under ``key``, or the one that has replaced it since it was listed."""
        while (entry := self._entry(key)) is None:
            later = self._objects.list(key.rpartition("/")[0] + "/")
            if not later:
                return None  # removed
            key = later[-1].key
        return entry

    def _entry(self, key: str) -> Entry | None:
        """None: replaced or removed since it was listed."""
        with self._lock:
            if known := self._read.get(key):
                return known
        try:
            entry = msgspec.json.decode(self._objects.get(key), type=Entry)
        except ObjectNotFound:
            return None
        except msgspec.MsgspecError as error:
            raise TableError(f"the definition {key} is damaged ({error}); put it again") from error
        with self._lock:
            self._read[key] = entry
        return entry


def _folder(key: str) -> str:
    return f"{PREFIX}{quote(key, safe='')}/"
