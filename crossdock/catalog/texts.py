"""CSV and JSON tables: columns as DuckDB tells them, and options that pin how every task reads.

DuckDB looks at a text's beginning and guesses: separators, header, types, forms of dates. It does
so here, once, over all files of a table; tasks are told what it found and guess nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from crossdock.catalog.heads import Head
from crossdock.catalog.options import READING
from crossdock.catalog.schemas import Schema, describe, hive_types_of, sql_list, sql_text
from crossdock.catalog.tables import ColumnMeta, TextReader
from crossdock.errors import TableError
from crossdock.formats import Format

Options = Mapping[str, str]  # of DuckDB's reader, values as SQL text

_DATES = (
    *("%Y-%m-%d", "%y-%m-%d", "%d-%m-%Y", "%d-%m-%y", "%m-%d-%Y", "%m-%d-%y"),
    *("%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y"),
)
_TIMES = (
    *("%Y-%m-%d %H:%M:%S.%f", "%m-%d-%Y %I:%M:%S %p", "%m-%d-%y %I:%M:%S %p"),
    *("%d-%m-%Y %H:%M:%S", "%d-%m-%y %H:%M:%S", "%Y-%m-%d %H:%M:%S", "%y-%m-%d %H:%M:%S"),
    *("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ"),
)
_SNIFF = (
    "SELECT Delimiter, Quote, Escape, Comment, SkipRows, HasHeader, DateFormat, TimestampFormat, "
    "Columns FROM sniff_csv({arguments})"
)


@dataclass(frozen=True, slots=True)
class TextSchema:
    schema: Schema
    readers: tuple[TextReader, ...]
    reader_of: tuple[int, ...]  # one a file


def read_text_schema(
    kind: Format,
    heads: Sequence[Head],
    compressions: Sequence[str],
    options: Options,
    *,
    hive: bool | None,
    union: bool | None,
) -> TextSchema:
    """Columns, and how each file, compressed as told, is read.

    Raises ``TableError`` with DuckDB's reason.
    """
    reader = f"read_{kind}"
    given = {name: text for name, text in options.items() if name != "compression"}
    full = [head for head in heads if head.rows] or list(heads[:1])
    with duckdb.connect(config={"threads": 1, "python_enable_replacements": "false"}) as connection:
        one = {each.compression for each in full}
        if len(one) == 1:
            given["compression"] = sql_text(next(iter(one)))
        found = _sniffed(connection, heads, given) if kind is Format.CSV else None
        names = {read.names for head, read in zip(heads, found or (), strict=False) if head.rows}
        united = len(names) > 1 if union is None else union
        paths = [head.path for head in full]
        hive_types = hive_types_of(connection, reader, paths, hive, given)
        asked = {**given, "union_by_name": str(united).lower()}
        columns = describe(connection, reader, paths, asked, hive_types)
        own = [each for each in columns if each[0] not in dict(hive_types)]
        if found is None:
            found = [_json_reader(connection, paths, given, own)] * len(heads)
    schema = Schema(
        columns=tuple(ColumnMeta(name=name, type=type_) for name, type_ in columns),
        union_by_name=True,
        hive_types=hive_types,
    )
    readers = [_compressed(*each) for each in zip(found, compressions, strict=True)]
    return _numbered(schema, readers)


def _numbered(schema: Schema, found: Sequence[TextReader]) -> TextSchema:
    numbers = {reader: number for number, reader in enumerate(dict.fromkeys(found))}
    return TextSchema(schema, tuple(numbers), tuple(numbers[reader] for reader in found))


def _compressed(reader: TextReader, compression: str) -> TextReader:
    options = {**dict(reader.options), "compression": sql_text(compression)}
    return replace(reader, options=tuple(sorted(options.items())))


# -- CSV -------------------------------------------------------------------------------------------


def _sniffed(
    connection: duckdb.DuckDBPyConnection, heads: Sequence[Head], given: Options
) -> list[TextReader]:
    if given.get("auto_detect", "true").lower() == "false":
        names = _named_columns(connection, heads, given)
        return [TextReader(names=names, options=_reading(Format.CSV, given))] * len(heads)
    return [_sniff(connection, head, given) for head in heads]


def _named_columns(
    connection: duckdb.DuckDBPyConnection, heads: Sequence[Head], given: Options
) -> tuple[str, ...]:
    columns = describe(connection, "read_csv", [heads[0].path], {**given}, ())
    return tuple(name for name, _ in columns)


def _sniff(connection: duckdb.DuckDBPyConnection, head: Head, given: Options) -> TextReader:
    # With columns given, the guess is only of the rest: types that differ would be an error.
    asked = {name: value for name, value in given.items() if name != "columns"}
    row = _sniffed_row(connection, head, asked)
    delim, quote, escape, comment, skip, header, dates, times, columns = row
    names = tuple(column["name"] for column in columns)
    if "columns" in given:
        names = _named_columns(connection, [head], given)
        if "header" not in given and not header:
            first = _sniffed_row(connection, head, {**asked, "header": "true"})[-1]
            header = tuple(column["name"] for column in first) == names
    found = {
        "delim": _mark(delim),
        "quote": _mark(quote),
        "escape": _mark(escape),
        "comment": _mark(comment),
        "skip": str(skip),
        "header": str(header).lower(),
        **({"dateformat": sql_text(dates)} if dates else {}),
        **({"timestampformat": sql_text(times)} if times else {}),
    }
    options = {**found, **dict(_reading(Format.CSV, given))}
    return TextReader(names=names, options=tuple(options.items()))


def _sniffed_row(
    connection: duckdb.DuckDBPyConnection, head: Head, given: Options
) -> tuple[Any, ...]:
    asked = {**given, "compression": sql_text(head.compression)}
    options = [f"{name} = {value}" for name, value in asked.items()]
    arguments = ", ".join([sql_text(head.path), *options])
    try:
        rows = connection.execute(_SNIFF.format(arguments=arguments)).fetchall()
    except duckdb.Error as error:
        raise TableError(f"cannot read {head.path} as CSV: {_first_lines(error)}") from error
    return tuple(rows[0])


def _mark(text: str) -> str:
    return sql_text("" if text == "(empty)" else text)


def _first_lines(error: duckdb.Error) -> str:
    return str(error).split("\n\nLINE ")[0].strip()


def _reading(kind: Format, given: Options) -> tuple[tuple[str, str], ...]:
    """The given options that tasks need; each file's compression is its own."""
    wanted = [name for name in READING[kind] if name != "compression"]
    return tuple((name, given[name]) for name in wanted if name in given)


# -- JSON ------------------------------------------------------------------------------------------


def _json_reader(
    connection: duckdb.DuckDBPyConnection,
    paths: Sequence[str],
    given: Options,
    columns: Sequence[tuple[str, str]],
) -> TextReader:
    options = dict(_reading(Format.JSON, given))
    if given.get("auto_detect", "true").lower() != "false" and "columns" not in given:
        options.update(_forms_of_dates(connection, paths, given, columns))
    return TextReader(names=(), options=tuple(options.items()))


def _forms_of_dates(
    connection: duckdb.DuckDBPyConnection,
    paths: Sequence[str],
    given: Options,
    columns: Sequence[tuple[str, str]],
) -> dict[str, str]:
    """The forms in which DuckDB found dates, which it does not tell: one that finds the same.

    Raises ``TableError`` if no known form does.
    """
    kinds = " ".join(kind for _, kind in columns)
    open_: dict[str, Iterable[str]] = {}
    if "DATE" in kinds and "dateformat" not in given:
        open_["dateformat"] = ("iso", *_DATES)
    if "TIMESTAMP" in kinds and "timestampformat" not in given:
        open_["timestampformat"] = ("iso", *_TIMES)
    if not open_:
        return {}
    for date in open_.get("dateformat", ("",)):
        for time in open_.get("timestampformat", ("",)):
            tried = {
                **({"dateformat": sql_text(date)} if date else {}),
                **({"timestampformat": sql_text(time)} if time else {}),
            }
            asked = {**given, **tried, "union_by_name": "true"}
            if (
                dict(describe(connection, "read_json", paths, asked, ())).items()
                >= dict(columns).items()
            ):
                return tried
    options = " and ".join(open_)
    raise TableError(
        f"{sql_list(paths[:1])}: cannot tell how its dates are written; give {options}"
    )
