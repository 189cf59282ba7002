"""Table scans as SQL: the columns of a table's files, by name and of the plan's types."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import duckdb

from crossdock.executor.carriers import decode
from crossdock.executor.engine import text
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
    whole = [each for each in opened if each.whole]
    arms = [whole] if whole else []
    arms += [[each] for each in opened if not each.whole]
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
