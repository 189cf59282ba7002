"""A fragment's inputs as views: table scans and exchanged rows, typed as the plan says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import duckdb
import msgspec

from coordinator_state.records import ErrorRecord
from crossdock.errors import TableError
from crossdock.executor.carriers import column_carrier_type, decode_column
from crossdock.executor.engine import text
from crossdock.executor.sources import Sources, Wanted
from crossdock.executor.types import parse_type, quote
from crossdock.planner.plan import CarriedColumn, FileSlice, ScanInput, StagePlan

#: Stands for the rows of an input or output that has no column; DuckDB has no empty column list.
PLACEHOLDER = "row"
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_COUNT_READ = """
WITH slices AS (
  SELECT unnest($paths) AS file, unnest($firsts) AS first_row, unnest($lasts) AS last_row
), row_groups AS (
  SELECT file_name, row_group_id, any_value(row_group_num_rows) AS num_rows,
    sum(total_compressed_size) FILTER (
      list_contains($columns, lower(split_part(path_in_schema, ', ', 1)))) AS size
  FROM parquet_metadata($paths) GROUP BY ALL
), placed AS (
  SELECT *, coalesce(sum(num_rows) OVER (PARTITION BY file_name ORDER BY row_group_id
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS start FROM row_groups
)
SELECT sum(least(start + num_rows - 1, last_row) - greatest(start, first_row) + 1), sum(size)
FROM slices JOIN placed ON file = file_name
  AND start <= last_row AND start + num_rows > first_row
"""
_NO_END = 2**62


@dataclass(frozen=True, slots=True)
class OpenSlice:
    """A slice and the local path it is read from."""

    slice: FileSlice
    path: Path

    @property
    def whole(self) -> bool:
        return self.slice.last < 0 and self.slice.first == 0


def open_slices(
    sources: Sources,
    scans: Sequence[tuple[ScanInput, Sequence[FileSlice]]],
    folder: Path,
) -> list[list[OpenSlice]]:
    """Make the slices of each scan readable."""
    wanted = [Wanted(each, scan.columns) for scan, slices in scans for each in slices]
    paths = iter(sources.open_all(wanted, folder))
    return [[OpenSlice(each, next(paths)) for each in slices] for _, slices in scans]


class Reading(NamedTuple):
    """A slice that is open, and the columns read of it."""

    opened: OpenSlice
    columns: Sequence[str]

    @property
    def name(self) -> str:
        """Of the file, as the user knows it."""
        return self.opened.slice.path

    @property
    def rows(self) -> str:
        """SQL over ``file_row_number`` that is true of the slice's rows."""
        first, last = self.opened.slice.first, self.opened.slice.last
        return f"file_row_number BETWEEN {first} AND {last if last >= 0 else _NO_END}"


def in_users_words(record: ErrorRecord, readings: Sequence[Reading]) -> ErrorRecord:
    """``record`` with names of the user's files for those of copies that were read instead."""
    message, subject = record.message, record.subject
    for reading in readings:
        copy = str(reading.opened.path)
        if copy != reading.name and copy in message:
            message = message.replace(copy, reading.name)
            subject = subject or reading.name
    if message == record.message:
        return record
    return msgspec.structs.replace(record, message=message, scope="input", subject=subject)


def slices_of(scan: ScanInput, task_index: int) -> tuple[FileSlice, ...]:
    """What this task reads of ``scan``; a task beyond the last split reads nothing."""
    if scan.whole:
        return scan.splits[0] if scan.splits else ()
    return scan.splits[task_index] if task_index < len(scan.splits) else ()


def slices_of_plan(plan: StagePlan) -> Iterator[FileSlice]:
    """What all tasks of all stages read."""
    for stage in plan.stages:
        for scan in stage.scans:
            for split in scan.splits:
                yield from split


def scan_query(
    connection: duckdb.DuckDBPyConnection, scan: ScanInput, opened: Sequence[OpenSlice]
) -> str:
    """SELECT with the scan's columns, by name and of the declared types.

    Whole files share one arm (one reader, in parallel); each row range is an arm of its own,
    because only then DuckDB prunes its row groups.
    """
    whole = [each for each in opened if each.whole]
    arms = [whole] if whole else []
    arms += [[each] for each in opened if not each.whole]
    if not arms:
        return _no_rows(scan)
    return " UNION ALL ".join(_arm(connection, scan, arm) for arm in arms)


def exchange_query(columns: Sequence[CarriedColumn], files: Sequence[Path]) -> str:
    """SELECT c0, c1, ... decoded from section files; typed and empty without files."""
    if not columns:
        items = f"TRUE AS {PLACEHOLDER}"
    else:
        items = ", ".join(
            f"{decode_column(f'c{index}', column)} AS c{index}"
            for index, column in enumerate(columns)
        )
    if files:
        listed = ", ".join(map(_file, files))
        return f"SELECT {items} FROM read_parquet([{listed}], hive_partitioning = false)"
    empty = ", ".join(
        f"CAST(NULL AS {column_carrier_type(column)}) AS c{index}"
        for index, column in enumerate(columns)
    )
    return f"SELECT {items} FROM (SELECT {empty or 'NULL AS none'}) WHERE FALSE"


def count_read(
    connection: duckdb.DuckDBPyConnection, scan: ScanInput, opened: Sequence[OpenSlice]
) -> tuple[int, int]:
    """Rows of the slices, and compressed bytes of the column chunks read.

    As planned; from the footers where a plan does not say.
    """
    if all(each.slice.rows >= 0 for each in opened):
        return sum(each.slice.rows for each in opened), sum(each.slice.bytes for each in opened)
    lasts = [each.slice.last if each.slice.last >= 0 else _NO_END for each in opened]
    counted = connection.execute(
        _COUNT_READ,
        {
            "paths": [str(each.path) for each in opened],
            "firsts": [each.slice.first for each in opened],
            "lasts": lasts,
            "columns": [name.lower() for name in scan.columns],
        },
    ).fetchone()
    rows, size = counted or (None, None)
    return int(rows or 0), int(size or 0)


def _file(path: Path) -> str:
    return text(str(path))


def _no_rows(scan: ScanInput) -> str:
    items = [
        f"CAST(NULL AS {parse_type(type)}) AS {quote(name)}"
        for name, type in zip(scan.columns, scan.types, strict=True)
    ]
    return f"SELECT {', '.join(items) or f'TRUE AS {PLACEHOLDER}'} WHERE FALSE"


def _arm(
    connection: duckdb.DuckDBPyConnection, scan: ScanInput, opened: Sequence[OpenSlice]
) -> str:
    options = ["hive_partitioning = false"]
    if scan.union_by_name and len(opened) > 1:
        options.append("union_by_name = true")
    listed = ", ".join(_file(each.path) for each in opened)
    ranged = not opened[0].whole
    reader = f"read_parquet([{listed}], {', '.join(options)})"
    present = _columns(connection, reader) if scan.union_by_name else None
    items = ", ".join(_items(scan, opened, present)) or f"TRUE AS {PLACEHOLDER}"
    if not ranged:
        return f"SELECT {items} FROM {reader}"
    options.append("file_row_number = true")
    reader = f"read_parquet([{listed}], {', '.join(options)})"
    slice = opened[0].slice
    where = f"file_row_number >= {slice.first}"
    if slice.last >= 0:
        where = f"file_row_number BETWEEN {slice.first} AND {slice.last}"
    return f"SELECT {items} FROM {reader} WHERE {where}"


def _columns(connection: duckdb.DuckDBPyConnection, reader: str) -> frozenset[str]:
    rows = connection.execute(f"DESCRIBE SELECT * FROM {reader}").fetchall()
    return frozenset(str(row[0]).lower() for row in rows)


def _items(
    scan: ScanInput, opened: Sequence[OpenSlice], present: frozenset[str] | None
) -> list[str]:
    hive = {key.lower() for key, _ in scan.hive_types}
    items = []
    for name, declared in zip(scan.columns, scan.types, strict=True):
        type = parse_type(declared)
        if name.lower() in hive:
            source = _hive_value(name, opened)
        elif present is not None and name.lower() not in present:
            source = "NULL"
        else:
            source = quote(name)
        if name in scan.hidden_nan:
            # No filter and no min() passes through TRY to statistics that know of no NaN.
            source = f"TRY({source})"
        items.append(f"CAST({source} AS {type}) AS {quote(name)}")
    return items


def _hive_value(key: str, opened: Sequence[OpenSlice]) -> str:
    """The partition value of ``key``: a constant, or looked up by the file's position."""
    values = [_path_value(key, each.slice.path) for each in opened]
    literals = ["NULL" if value is None else text(value) for value in values]
    if len(set(literals)) == 1:
        return literals[0]
    return f"([{', '.join(literals)}]::VARCHAR[])[file_index::BIGINT + 1]"


def _path_value(key: str, path: str) -> str | None:
    """The value of ``key=value`` in a file's folders, percent-decoded once."""
    for folder in reversed(path.split("/")[:-1]):
        name, separator, value = folder.partition("=")
        if separator and unquote(name).lower() == key.lower():
            decoded = unquote(value)
            return None if decoded == _HIVE_NULL else decoded
    raise TableError(f"{path}: no folder gives a value for partition column {key}")
