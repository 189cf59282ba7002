"""Parquet footers: read in parallel, kept by (path, size, modification time)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from crossdock.catalog.sources import FoundFile
from crossdock.catalog.statistics import BoundsReader, bounds_reader, is_float
from crossdock.catalog.tables import ColumnStats, FileMeta, RowGroupMeta
from crossdock.errors import ObjectChanged, ObjectNotFound, TableError
from crossdock.remote_files import RemoteFile, RemoteFiles, is_remote, read_tail

READERS = 8
#: Footers kept; a wide file's may be some hundred KB, so this bounds memory, not correctness.
KEPT_FOOTERS = 20_000


@dataclass(frozen=True, slots=True)
class Footer:
    file: FileMeta
    schema: str  # equal texts mean equal schemas


class FooterCache:
    """Footers of unchanged files are read once a process."""

    def __init__(self, limit: int = KEPT_FOOTERS, *, remote: RemoteFiles | None = None) -> None:
        self._remote = remote
        self._kept: OrderedDict[FoundFile, Footer] = OrderedDict()
        self._limit = limit
        self._lock = Lock()

    def read(self, files: Sequence[FoundFile]) -> tuple[Footer, ...]:
        """Footers in the order of ``files``. Raises ``TableError`` naming a file it cannot read."""
        with self._lock:
            known = {file: self._kept[file] for file in files if file in self._kept}
        missing = [file for file in files if file not in known]
        if len(missing) > 1:
            with ThreadPoolExecutor(READERS, thread_name_prefix="footers") as pool:
                known.update(zip(missing, pool.map(self._read, missing), strict=True))
        else:
            known.update((file, self._read(file)) for file in missing)
        self._keep(known)
        return tuple(known[file] for file in files)

    def _read(self, file: FoundFile) -> Footer:
        return read_footer(file, self._remote)

    def _keep(self, footers: Mapping[FoundFile, Footer]) -> None:
        with self._lock:
            for file, footer in footers.items():
                self._kept[file] = footer
                self._kept.move_to_end(file)
            while len(self._kept) > self._limit:
                self._kept.popitem(last=False)


def read_footer(file: FoundFile, remote: RemoteFiles | None = None) -> Footer:
    """One file's footer. Raises ``TableError`` naming the file."""
    try:
        metadata = pq.read_metadata(_footer_source(file, remote))
    except (FileNotFoundError, ObjectNotFound) as error:
        raise TableError(f"{file.path} does not exist any more") from error
    except ObjectChanged as error:
        raise TableError(f"{file.path} is being written again; name it once it rests") from error
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        if "encrypted" in reason:
            raise TableError(
                f"{file.path} is encrypted; only plain Parquet files are read"
            ) from error
        raise TableError(f"{file.path} is not a readable Parquet file: {reason}") from error
    return Footer(_file_meta(file, metadata), _schema_text(metadata.schema))


def _footer_source(file: FoundFile, remote: RemoteFiles | None) -> str | pa.BufferReader:
    """A path, or the end of a remote file: a footer's reader starts from the end."""
    if remote is None or not is_remote(file.path):
        return file.path
    return pa.BufferReader(read_tail(remote, RemoteFile(file.path, file.size, str(file.version))))


def _schema_text(schema: Any) -> str:
    """Pyarrow's listing without its first line, which holds a memory address."""
    return str(schema).split("\n", 1)[1]


def _file_meta(file: FoundFile, metadata: Any) -> FileMeta:
    leaves = _leaves(metadata.schema)
    groups = []
    first = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        groups.append(_row_group(group, leaves, first))
        first += group.num_rows
    return FileMeta(
        path=file.path,
        size=file.size,
        version=str(file.version),
        rows=metadata.num_rows,
        row_groups=tuple(groups),
        hidden_nan=frozenset() if _keeps_nan(metadata) else _with_hidden_nan(metadata, leaves),
    )


def _keeps_nan(metadata: Any) -> bool:
    """Whether the writer gives no bounds at all where there is a NaN."""
    return str(metadata.created_by).lower().startswith("duckdb")


def _with_hidden_nan(metadata: Any, leaves: Sequence[_Leaf]) -> frozenset[str]:
    """Columns of floats with bounds; by the format's rule a NaN is not counted in those."""
    floats = [index for index, leaf in enumerate(leaves) if leaf.is_float]
    return frozenset(
        leaves[index].top.lower()
        for index in floats
        for number in range(metadata.num_row_groups)
        if _is_bounded(metadata.row_group(number).column(index))
    )


def _is_bounded(chunk: Any) -> bool:
    return bool(chunk.is_stats_set and chunk.statistics.has_min_max)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """One leaf column: its top-level name and how to read its statistics."""

    top: str
    bounds: BoundsReader | None
    is_float: bool


def _leaves(schema: Any) -> list[_Leaf]:
    """Leaf columns in file order. Names alone do not tell: a flat column's may hold dots."""
    leaves: list[_Leaf] = []
    for field in schema.to_arrow_schema():
        flat = field.type.num_fields == 0
        for _ in range(_leaf_count(field.type)):
            column = schema.column(len(leaves))
            bounds = bounds_reader(column) if flat else None
            leaves.append(_Leaf(field.name, bounds, is_float(column)))
    return leaves


def _leaf_count(kind: pa.DataType) -> int:
    if kind.num_fields == 0:
        return 1
    return sum(_leaf_count(kind.field(i).type) for i in range(kind.num_fields))


def _row_group(group: Any, leaves: Sequence[_Leaf], first_row: int) -> RowGroupMeta:
    sizes: dict[str, int] = {}
    stats: dict[str, ColumnStats] = {}
    for index, leaf in enumerate(leaves):
        chunk = group.column(index)
        sizes[leaf.top] = sizes.get(leaf.top, 0) + chunk.total_compressed_size
        if leaf.bounds and chunk.is_stats_set and (found := leaf.bounds(chunk.statistics)):
            stats[leaf.top] = found
    return RowGroupMeta(first_row=first_row, rows=group.num_rows, column_bytes=sizes, stats=stats)
