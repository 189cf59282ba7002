"""A fragment's rows on their way out: one Parquet file per edge and partition, or the result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from crossdock.errors import CarrierError
from crossdock.executor.carriers import encode_column
from crossdock.executor.engine import text
from crossdock.executor.inputs import PLACEHOLDER
from crossdock.executor.types import parse_type
from crossdock.planner.plan import CarriedColumn, Edge, ShuffleMode
from crossdock.shuffle.spec import RESULT_EDGE, SectionFile

#: Sections live for seconds: cheap to pack. Version 2 packs numbers as differences: smaller, and
#: less work, than dictionaries, which pay only where values are few.
#: Row groups end by their bytes too: a hot partition of wide rows has them all in one file, whose
#: open row group would not fit the memory of a small worker.
SECTION_OPTIONS = (
    "COMPRESSION lz4_raw, PARQUET_VERSION v2, DICTIONARY_SIZE_LIMIT 1000, "
    f"ROW_GROUP_SIZE_BYTES {8 << 20}"
)
#: Results may be kept, and read by others: small and plain.
RESULT_OPTIONS = f"COMPRESSION zstd, ROW_GROUP_SIZE_BYTES {16 << 20}"
_PARTITION = "crossdock_partition"


def source_of(fragment: str, columns: Sequence[CarriedColumn]) -> str:
    """The fragment as a FROM item with columns c0, c1, ..., whatever its own text calls them."""
    statement = fragment.strip().rstrip(";")
    names = ", ".join(f"c{index}" for index in range(len(columns)))
    # A line of its own for the parenthesis: the text may end in a comment.
    return f"({statement}\n) AS crossdock_output" + (f"({names})" if names else "")


def check_types(
    connection: duckdb.DuckDBPyConnection, source: str, columns: Sequence[CarriedColumn]
) -> None:
    """Compare what the fragment makes with what the plan says. Raises ``CarrierError``."""
    if not columns:
        return
    found = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    for index, (column, row) in enumerate(zip(columns, found, strict=True)):
        if column.aggregate:
            continue
        planned, made = parse_type(column.type), parse_type(str(row[1]))
        if planned != made and not _interchangeable(str(planned), str(made)):
            raise CarrierError(f"column c{index} is {made} where the plan says {planned}")


def _interchangeable(planned: str, made: str) -> bool:
    """NULLs without a type are INTEGER wherever the engine stores them."""
    return '"NULL"' in (planned, made) and "INTEGER" in (planned, made)


def write_result(
    connection: duckdb.DuckDBPyConnection,
    source: str,
    columns: Sequence[CarriedColumn],
    folder: Path,
) -> tuple[SectionFile, ...]:
    """One plain Parquet file; there is one even without rows, for its columns."""
    path = folder / "result.parquet"
    query = f"SELECT {_carried(columns)} FROM {source}"
    rows = _copy(connection, query, path, RESULT_OPTIONS)
    size = path.stat().st_size
    return (SectionFile(edge=RESULT_EDGE, partition=0, path=path, rows=rows, size=size),)


def write_edge(
    connection: duckdb.DuckDBPyConnection, source: str, edge: Edge, folder: Path
) -> tuple[SectionFile, ...]:
    """Section files of one edge, at least one entry per partition, ascending by partition."""
    if edge.mode is ShuffleMode.HASH and edge.partitions > 1:
        return _write_partitioned(connection, source, edge, folder)
    path = folder / f"edge-{edge.edge}.parquet"
    query = f"SELECT {_carried(edge.columns)} FROM {source}"
    rows = _copy(connection, query, path, SECTION_OPTIONS)
    return (_section(edge.edge, 0, path, rows),)


def _write_partitioned(
    connection: duckdb.DuckDBPyConnection, source: str, edge: Edge, folder: Path
) -> tuple[SectionFile, ...]:
    # The high half of the hash: its low bits choose the slots of the consumer's own hash tables.
    part = f"CAST((hash({', '.join(edge.keys)}) >> 32) % {edge.partitions} AS INTEGER)"
    query = f"SELECT {_carried(edge.columns)}, {part} AS {_PARTITION} FROM {source}"
    target = folder / f"edge-{edge.edge}"
    written = connection.execute(
        f"COPY ({query}) TO {text(str(target))} (FORMAT parquet, {SECTION_OPTIONS}, "
        f"PARTITION_BY ({_PARTITION}), WRITE_BLOOM_FILTER false, RETURN_STATS)"
    )
    sections = []
    for name, rows, size, _, _, keys, _ in written.fetchall():
        partition = int(keys[_PARTITION])
        sections.append(
            SectionFile(edge=edge.edge, partition=partition, path=Path(name), rows=rows, size=size)
        )
    filled = {section.partition for section in sections}
    sections += [
        SectionFile(edge=edge.edge, partition=partition, path=None, rows=0, size=0)
        for partition in range(edge.partitions)
        if partition not in filled
    ]
    return tuple(sorted(sections, key=lambda section: section.partition))


def _section(edge: int, partition: int, path: Path, rows: int) -> SectionFile:
    if rows == 0:
        return SectionFile(edge=edge, partition=partition, path=None, rows=0, size=0)
    size = path.stat().st_size
    return SectionFile(edge=edge, partition=partition, path=path, rows=rows, size=size)


def _carried(columns: Sequence[CarriedColumn]) -> str:
    items = [
        f"{encode_column(f'c{index}', column)} AS c{index}" for index, column in enumerate(columns)
    ]
    return ", ".join(items) or f"TRUE AS {PLACEHOLDER}"


def _copy(connection: duckdb.DuckDBPyConnection, query: str, path: Path, options: str) -> int:
    """Rows written."""
    connection.execute(
        f"COPY ({query}) TO {text(str(path))} (FORMAT parquet, {options}, WRITE_BLOOM_FILTER false)"
    )
    (rows,) = connection.fetchone() or (0,)
    return int(rows)
