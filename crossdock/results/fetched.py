"""Result objects as local files, as far as they are needed, kept for the next page of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from crossdock.executor.remote import Rows, SparseFiles
from crossdock.platform.ports import Objects
from crossdock.remote_files import Check, Range, RemoteFile, proceed

#: Bytes kept on disk for the next page.
CACHE_BYTES = 256 * 1024 * 1024
#: Bytes of one request, and requests at once.
_PIECE = 8 * 1024 * 1024
_AT_ONCE = 8
_WHOLE = Rows()


class Fetched:
    """Threads may share it; they wait for each other, so that nobody evicts what is being read."""

    def __init__(self, objects: Objects, scratch: Path) -> None:
        self._objects = objects
        self._scratch = scratch
        self._files = _ObjectFiles(objects)
        self._sparse = SparseFiles(self._files)
        self._kept: OrderedDict[tuple[str, Rows], Path] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def whole(self, key: str) -> Iterator[Path]:
        """The object as a file. Raises ``ObjectNotFound``."""
        with self._lock:
            path = self._find(key, _WHOLE)
            if path is None:
                path = self._new()
                self._objects.fetch(key, path)
                self._keep(key, _WHOLE, path)
            yield path

    @contextmanager
    def rows(self, key: str, wanted: Rows) -> Iterator[Path]:
        """A file that reads like the object for these rows: their row groups, fetched by ranges.

        Raises ``ObjectNotFound``.
        """
        with self._lock:
            path = self._find(key, wanted)
            if path is None:
                path = self._new()
                file = self._files.look(key)
                whole_groups = self._sparse.groups_of(file, wanted, path)
                self._sparse.lay(file, whole_groups, None, path)
                self._keep(key, whole_groups, path)
            yield path

    def _find(self, key: str, wanted: Rows) -> Path | None:
        for (kept, rows), path in self._kept.items():
            if kept == key and _covers(rows, wanted) and path.exists():
                self._kept.move_to_end((kept, rows))
                return path
        return None

    def _new(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="part-", dir=self._scratch)) / "part.parquet"

    def _keep(self, key: str, rows: Rows, path: Path) -> None:
        self._kept[key, rows] = path
        # Holes take no room: blocks of 512 bytes count, not the size.
        room = {name: kept.stat().st_blocks * 512 for name, kept in self._kept.items()}
        while len(room) > 1 and sum(room.values()) > CACHE_BYTES:
            name, oldest = self._kept.popitem(last=False)
            del room[name]
            shutil.rmtree(oldest.parent, ignore_errors=True)


def _covers(rows: Rows, wanted: Rows) -> bool:
    if wanted.first < rows.first:
        return False
    return rows.last < 0 or 0 <= wanted.last <= rows.last


class _ObjectFiles:
    """Objects of ours as ``RemoteFiles``: create-only, so a key needs no version."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def look(self, url: str) -> RemoteFile:
        return RemoteFile(url, self._objects.head(url).size, "")

    def list(self, prefix: str) -> Sequence[RemoteFile]:
        return [RemoteFile(found.key, found.size, "") for found in self._objects.list(prefix)]

    def read(self, file: RemoteFile, wanted: Range) -> bytes:
        length = wanted.end - wanted.start
        return self._objects.get(file.url, offset=wanted.start, length=length)

    def fetch(
        self, file: RemoteFile, wanted: Sequence[Range], target: Path, check: Check = proceed
    ) -> None:
        pieces = [
            Range(start, min(start + _PIECE, each.end))
            for each in wanted
            for start in range(each.start, each.end, _PIECE)
        ]
        target.touch()
        with target.open("r+b") as handle, ThreadPoolExecutor(_AT_ONCE) as threads:

            def lay(piece: Range) -> None:
                check()
                os.pwrite(handle.fileno(), self.read(file, piece), piece.start)

            for _ in threads.map(lay, pieces):
                pass
