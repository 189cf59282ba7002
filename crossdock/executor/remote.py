"""Table files behind URLs: the bytes a fragment needs, at their own places in a local file.

DuckDB reads that file as it would the whole one. The rest of it is a hole, which takes no space
and is never looked at: only column chunks that the fragment does not read are left out. Footer,
page indexes and bloom filters, which the engine may look at for any column, are all there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import duckdb

from crossdock.errors import ObjectChanged, ObjectNotFound
from crossdock.executor.failures import SourceChanged
from crossdock.executor.sources import LocalSources, Wanted, all_at_once
from crossdock.planner.plan import FileSlice
from crossdock.remote_files import (
    Check,
    Range,
    RemoteFile,
    RemoteFiles,
    is_remote,
    lay_tail,
    proceed,
    read_tail,
)

#: A file up to this is fetched whole, in one request, without a look at its footer first.
WHOLE_BYTES = 1024 * 1024
#: Files whose footers are kept: other slices of them often come to the same worker.
_KEPT = 256
_CHUNKS = """
SELECT path_in_schema, row_group_id, row_group_num_rows,
  least(coalesce(nullif(dictionary_page_offset, 0), data_page_offset), data_page_offset) AS start,
  start + total_compressed_size AS past
FROM parquet_metadata($path) ORDER BY row_group_id
"""


class Rows(NamedTuple):
    """Rows ``first`` to ``last`` of a file, the last included; ``last`` < 0: to the end."""

    first: int = 0
    last: int = -1


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A column chunk: where it is, and which rows of the file it holds values of."""

    column: str  # path in the schema, in lower case, names joined by ", "
    first: int
    last: int
    place: Range

    def serves(self, columns: Sequence[str] | None, rows: Rows) -> bool:
        """Whether it may be read for these columns (in lower case; None: all) and rows."""
        if self.last < rows.first or (0 <= rows.last < self.first):
            return False
        if columns is None:
            return True
        return any(self.column == name or self.column.startswith(f"{name}, ") for name in columns)


@dataclass(frozen=True, slots=True)
class _Known:
    """What a file's footer says, and the footer itself with all that follows it."""

    tail: bytes
    chunks: tuple[_Chunk, ...]


class SparseFiles:
    """Lays parts of remote Parquet files into local ones; threads may share it."""

    def __init__(self, files: RemoteFiles) -> None:
        self._files = files
        self._known: OrderedDict[RemoteFile, _Known] = OrderedDict()
        self._lock = Lock()

    def lay(
        self,
        file: RemoteFile,
        rows: Rows,
        columns: Sequence[str] | None,
        target: Path,
        check: Check = proceed,
    ) -> None:
        """What reading ``columns`` (None: all) of ``rows`` may look at. Raises as ``RemoteFiles``.

        A small file is laid whole.
        """
        if file.size <= WHOLE_BYTES:
            self.lay_whole(file, target, check)
            return
        known = self._footer(file, target)
        lay_tail(known.tail, file.size, target)
        names = None if columns is None else [name.lower() for name in columns]
        holes = [chunk.place for chunk in known.chunks if not chunk.serves(names, rows)]
        end = file.size - len(known.tail)
        self._files.fetch(file, between(holes, end), target, check)

    def lay_whole(self, file: RemoteFile, target: Path, check: Check = proceed) -> None:
        """All of a file. Raises as ``RemoteFiles``."""
        self._files.fetch(file, [Range(0, file.size)], target, check)

    def groups_of(self, file: RemoteFile, rows: Rows, scratch: Path) -> Rows:
        """Rows of the row groups that ``rows`` lie in: what ``lay`` brings along anyway.

        ``scratch`` is a file that may be written to.
        """
        if file.size <= WHOLE_BYTES:
            return Rows()
        chunks = self._footer(file, scratch).chunks
        within = [chunk for chunk in chunks if chunk.serves(None, rows)]
        if not within:
            return rows
        last = max(chunk.last for chunk in within)
        return Rows(min(chunk.first for chunk in within), -1 if last == chunks[-1].last else last)

    def _footer(self, file: RemoteFile, scratch: Path) -> _Known:
        with self._lock:
            known = self._known.get(file)
        if known is None:
            tail = read_tail(self._files, file)
            lay_tail(tail, file.size, scratch)
            known = _Known(tail, _chunks(scratch))
        with self._lock:
            self._known[file] = known
            self._known.move_to_end(file)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return known


class RemoteSources:
    """Gives slices of remote files as sparse local files, and local ones as they are."""

    def __init__(self, files: RemoteFiles) -> None:
        self._sparse = SparseFiles(files)
        self._local = LocalSources()
        self._numbers = count()

    def open_all(
        self, wanted: Sequence[Wanted], folder: Path, check: Check = proceed
    ) -> Sequence[Path]:
        def open_one(slice: FileSlice, columns: Sequence[str], folder: Path) -> Path:
            return self.open(slice, columns, folder, check)

        return all_at_once(open_one, wanted, folder)

    def open(
        self, slice: FileSlice, columns: Sequence[str], folder: Path, check: Check = proceed
    ) -> Path:
        check()
        if not is_remote(slice.path):
            return self._local.open(slice, columns, folder)
        file = RemoteFile(slice.path, slice.size, slice.version)
        target = folder / f"remote-{next(self._numbers)}.parquet"
        try:
            if slice.reader >= 0:
                self._sparse.lay_whole(file, target, check)
            else:
                self._sparse.lay(file, Rows(slice.first, slice.last), columns, target, check)
        except ObjectNotFound:
            raise SourceChanged(
                f"{slice.path} does not exist any more; it did when the query was planned",
                path=slice.path,
                kind="TableMissing",
            ) from None
        except ObjectChanged:
            raise SourceChanged(
                f"{slice.path} changed while the query ran; run the query again",
                path=slice.path,
                kind="TableChanged",
            ) from None
        return target

    def resident(self, slice: FileSlice) -> Path | None:
        return None if is_remote(slice.path) else self._local.resident(slice)

    def confirm(self, slice: FileSlice) -> None:
        """Nothing is left to do for a remote file: each of its bytes came from the planned one."""
        if not is_remote(slice.path):
            self._local.confirm(slice)


def between(holes: Iterable[Range], end: int) -> list[Range]:
    """What is left of the bytes up to ``end`` when the holes are taken out, in order."""
    left: list[Range] = []
    at = 0
    for hole in sorted(holes):
        if hole.start > at:
            left.append(Range(at, min(hole.start, end)))
        at = max(at, hole.end)
    if at < end:
        left.append(Range(at, end))
    return [each for each in left if each.start < each.end]


def _chunks(path: Path) -> tuple[_Chunk, ...]:
    """Column chunks as the engine's own reader of footers finds them."""
    with duckdb.connect(config={"threads": 1}) as connection:
        rows = connection.execute(_CHUNKS, {"path": str(path)}).fetchall()
    found: list[_Chunk] = []
    group, first, following = -1, 0, 0
    for column, row_group, row_count, start, past in rows:
        if row_group != group:
            group, first, following = row_group, following, following + row_count
        found.append(_Chunk(column.lower(), first, following - 1, Range(start, past)))
    return tuple(found)
