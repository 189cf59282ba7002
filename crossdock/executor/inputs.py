"""A fragment's inputs: slices of tables' files, made readable, and exchanged rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import duckdb
import msgspec

from coordinator_state.records import ErrorRecord
from crossdock.executor.carriers import column_carrier_type, decode_column
from crossdock.executor.engine import text
from crossdock.executor.sources import Sources, Wanted
from crossdock.planner.plan import CarriedColumn, Deletes, FileSlice, ScanInput, StagePlan
from crossdock.remote_files import Check, proceed

#: Of a file of deleted positions: the data file's name, and the row's number in it.
DELETE_COLUMNS = ("file_path", "pos")
#: Stands for the rows of an input or output that has no column; DuckDB has no empty column list.
PLACEHOLDER = "row"
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
    deletes: tuple[Path, ...] = ()  # of the slice's

    @property
    def whole(self) -> bool:
        return self.slice.last < 0 and self.slice.first == 0

    @property
    def paths(self) -> tuple[Path, ...]:
        """All that is read for it."""
        return (self.path, *self.deletes)


def open_slices(
    sources: Sources,
    scans: Sequence[tuple[ScanInput, Sequence[FileSlice]]],
    folder: Path,
    check: Check = proceed,
) -> list[list[OpenSlice]]:
    """Make the slices of each scan readable, for as long as ``check`` does not raise."""
    wanted = [
        part
        for scan, slices in scans
        for each in slices
        for part in (Wanted(each, _stored_names(scan)), *map(_wanted_deletes, each.deletes))
    ]
    paths = iter(sources.open_all(wanted, folder, check))
    return [
        [OpenSlice(each, next(paths), tuple(next(paths) for _ in each.deletes)) for each in slices]
        for _, slices in scans
    ]


def _stored_names(scan: ScanInput) -> Sequence[str]:
    """What files may call the scan's columns."""
    if not scan.fields:
        return scan.columns
    return [name for field in scan.fields for name in field.names]


def _wanted_deletes(deletes: Deletes) -> Wanted:
    return Wanted(_slice_of(deletes), DELETE_COLUMNS)


def _slice_of(deletes: Deletes) -> FileSlice:
    return FileSlice(path=deletes.path, size=deletes.size, version=deletes.version)


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
                for each in split:
                    yield each
                    yield from map(_slice_of, each.deletes)


def file_text(path: Path) -> str:
    """A path as an SQL literal."""
    return text(str(path))


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
        listed = ", ".join(map(file_text, files))
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
