"""A fragment's rows as files of the user's: names, types and formats as DuckDB writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from crossdock.executor.carriers import encode
from crossdock.executor.engine import text
from crossdock.executor.stored_types import in_parquet
from crossdock.executor.types import quote
from crossdock.planner.plan import Write, WriteKind

#: Tables are read by column and range: zstd is half of lz4's size for little more time.
_TABLE_OPTIONS = "COMPRESSION zstd"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """A file that a fragment wrote, in its scratch folder."""

    path: Path
    folder: str  # partition folders, "a=1/b=2", as DuckDB names them; "" without partitions
    size: int  # bytes


def write_files(
    connection: duckdb.DuckDBPyConnection, source: str, write: Write, folder: Path
) -> tuple[Sequence[OutputFile], int]:
    """The files, and how many rows they have together."""
    items = ", ".join(
        f"{_stored(f'c{index}', column.type, write)} AS {quote(column.name)}"
        for index, column in enumerate(write.columns)
    )
    target = folder / "write"
    if not write.partition_by:
        target = target.with_suffix(f".{write.ending}")
    (rows,) = connection.execute(
        f"COPY (SELECT {items} FROM {source}) TO {text(str(target))} ({_options(write)})"
    ).fetchall()[0]
    if not write.partition_by:
        return [_output(target, "")], int(rows)
    found = [
        _output(path, path.parent.relative_to(target).as_posix())
        for path in sorted(target.rglob("*"))
        if path.is_file()
    ]
    return found, int(rows)


def _stored(column: str, type: str, write: Write) -> str:
    if write.kind is WriteKind.TABLE:
        return encode(column, type)
    return in_parquet(column, type) if write.format == "parquet" else column


def _options(write: Write) -> str:
    options = [f"FORMAT {write.format}"]
    if write.kind is WriteKind.TABLE:
        options.append(_TABLE_OPTIONS)
    if write.options:
        options.append(write.options)
    if write.partition_by:
        options.append(f"PARTITION_BY ({', '.join(map(quote, write.partition_by))})")
    return ", ".join(options)


def _output(path: Path, folder: str) -> OutputFile:
    return OutputFile(path=path, folder=folder, size=path.stat().st_size)
