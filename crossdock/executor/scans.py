"""Table scans as SQL: the columns of a table's files, by name and of the plan's types."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import duckdb

from crossdock.executor.carriers import decode
from crossdock.executor.engine import text
from crossdock.executor.failures import SourceChanged
from crossdock.executor.inputs import PLACEHOLDER, OpenSlice, file_text
from crossdock.executor.types import parse_type, quote
from crossdock.formats import Format
from crossdock.partition_folders import partition_value
from crossdock.planner.plan import ScanInput, TextReader


def scan_query(
    connection: duckdb.DuckDBPyConnection, scan: ScanInput, opened: Sequence[OpenSlice]
) -> str:
    """SELECT with the scan's columns, by name and of the declared types.

    Whole files share one arm (one reader, in parallel); each row range is an arm of its own,
    because only then DuckDB prunes its row groups.
    """
    if scan.readers:
        return _text_query(scan, opened)
    together = [each for each in opened if each.whole and not each.deletes]
    arms = [together] if together else []
    arms += [[each] for each in opened if not each.whole or each.deletes]
    if not arms:
        return _no_rows(scan)
    return " UNION ALL ".join(_arm(connection, scan, arm) for arm in arms)


def _no_rows(scan: ScanInput) -> str:
    items = [
        f"CAST(NULL AS {parse_type(type)}) AS {quote(name)}"
        for name, type in zip(scan.columns, scan.types, strict=True)
    ]
    return f"SELECT {', '.join(items) or f'TRUE AS {PLACEHOLDER}'} WHERE FALSE"


def _arm(
    connection: duckdb.DuckDBPyConnection, scan: ScanInput, opened: Sequence[OpenSlice]
) -> str:
    if scan.fields or opened[0].deletes:
        return _numbered_arm(connection, scan, opened)
    options = ["hive_partitioning = false"]
    if scan.union_by_name and len(opened) > 1:
        options.append("union_by_name = true")
    listed = ", ".join(file_text(each.path) for each in opened)
    ranged = not opened[0].whole
    reader = f"read_parquet([{listed}], {', '.join(options)})"
    present = _columns(connection, reader) if scan.union_by_name else None
    items = ", ".join(_items(scan, opened, present)) or f"TRUE AS {PLACEHOLDER}"
    if not ranged:
        return f"SELECT {items} FROM {reader}"
    options.append("file_row_number = true")
    reader = f"read_parquet([{listed}], {', '.join(options)})"
    return f"SELECT {items} FROM {reader} WHERE {_range(opened[0])}"


def _range(opened: OpenSlice) -> str:
    first, last = opened.slice.first, opened.slice.last
    if last < 0:
        return f"file_row_number >= {first}"
    return f"file_row_number BETWEEN {first} AND {last}"


def _numbered_arm(
    connection: duckdb.DuckDBPyConnection, scan: ScanInput, opened: Sequence[OpenSlice]
) -> str:
    """Columns by the files' own field numbers; rows without those that were deleted."""
    if scan.fields:
        _require_numbers(connection, opened)
    types = {
        name: text(str(parse_type(kind)))
        for name, kind in zip(scan.columns, scan.types, strict=True)
    }
    fields = ", ".join(
        f"{each.number}: {{name: {text(each.name)}, type: {types[each.name]}, "
        f"default_value: {each.default}}}"
        for each in scan.fields
    )
    listed = ", ".join(file_text(each.path) for each in opened)
    options = ["hive_partitioning = false", "file_row_number = true"]
    options += [f"schema = MAP {{{fields}}}"] if fields else []
    reader = f"read_parquet([{listed}], {', '.join(options)})"
    items = ", ".join(_items(scan, opened, None)) or f"TRUE AS {PLACEHOLDER}"
    wanted = [] if opened[0].whole else [_range(opened[0])]
    wanted += [
        f"file_row_number NOT IN (SELECT pos FROM read_parquet([{file_text(path)}]) "
        f"WHERE file_path = {text(deletes.target)} AND pos IS NOT NULL)"
        for path, deletes in zip(opened[0].deletes, opened[0].slice.deletes, strict=True)
    ]
    return f"SELECT {items} FROM {reader}" + (f" WHERE {' AND '.join(wanted)}" if wanted else "")


def _require_numbers(connection: duckdb.DuckDBPyConnection, opened: Sequence[OpenSlice]) -> None:
    """Raise ``SourceChanged`` for a file without field numbers: its columns would all be NULL."""
    rows = connection.execute(
        "SELECT file_name FROM parquet_schema($1) GROUP BY file_name HAVING count(field_id) = 0",
        [[str(each.path) for each in opened]],
    ).fetchall()
    bare = {name for (name,) in rows}
    for each in opened:
        if str(each.path) in bare:
            raise SourceChanged(
                f"{each.slice.path} has no field ids: it was added to the Iceberg table as it was; "
                "write it again through Iceberg",
                path=each.slice.path,
                kind="InvalidParquet",
            )


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
            source = _hive_value(scan, name, opened)
        elif present is not None and name.lower() not in present:
            source = "NULL"
        elif scan.carried:
            source = decode(quote(name), declared)
        else:
            source = quote(name)
        if name in scan.hidden_nan:
            # No filter and no min() passes through TRY to statistics that know of no NaN.
            source = f"TRY({source})"
        items.append(f"CAST({source} AS {type}) AS {quote(name)}")
    return items


def _hive_value(scan: ScanInput, key: str, opened: Sequence[OpenSlice]) -> str:
    """The partition value of ``key``: a constant, or looked up by the file's position."""
    number = [name.lower() for name, _ in scan.hive_types].index(key.lower())
    values = [
        each.slice.values[number] if each.slice.values else partition_value(key, each.slice.path)
        for each in opened
    ]
    literals = ["NULL" if value is None else text(value) for value in values]
    if len(set(literals)) == 1:
        return literals[0]
    return f"([{', '.join(literals)}]::VARCHAR[])[file_index::BIGINT + 1]"


# -- CSV and JSON ----------------------------------------------------------------------------------


def _text_query(scan: ScanInput, opened: Sequence[OpenSlice]) -> str:
    """Files in their order, those that are read alike by one reader."""
    arms = [
        _text_arm(scan, scan.readers[number], list(files))
        for number, files in groupby(opened, lambda each: each.slice.reader)
    ]
    return " UNION ALL ".join(arms) or _no_rows(scan)


def _text_arm(scan: ScanInput, reader: TextReader, opened: Sequence[OpenSlice]) -> str:
    columns = _text_columns(scan, reader)
    options = {
        **dict(reader.options),
        # JSON is still told apart by itself: lines, an array, or one value after another.
        **({"auto_detect": "false"} if scan.format is Format.CSV else {}),
        "hive_partitioning": "false",
        "columns": f"{{{', '.join(f'{text(name)}: {text(type)}' for name, type in columns)}}}",
    }
    listed = ", ".join(file_text(each.path) for each in opened)
    arguments = ", ".join(f"{name} = {value}" for name, value in options.items())
    present = frozenset(name.lower() for name, _ in columns)
    items = ", ".join(_items(scan, opened, present)) or f"TRUE AS {PLACEHOLDER}"
    return f"SELECT {items} FROM read_{scan.format}([{listed}], {arguments})"


def _text_columns(scan: ScanInput, reader: TextReader) -> list[tuple[str, str]]:
    """What the reader is told to find: all of a CSV file's columns, those wanted of JSON's."""
    kinds = {name: str(parse_type(type)) for name, type in scan.file_types}
    if scan.format is Format.CSV:
        return [(name, kinds.get(name, "VARCHAR")) for name in reader.names]
    wanted = {name: kinds[name] for name in scan.columns if name in kinds}
    return list((wanted or dict(list(kinds.items())[:1])).items())
