"""Rows in the formats of the command line.

====== =========================================================================================
table  aligned columns for people; ``NULL`` for NULL
json   ``{"columns": [{"name", "type"}], "rows": [[...]]}``, strict JSON
csv    RFC 4180 with a header line; NULL is an empty field, an empty string is ``""``
arrow  Arrow IPC stream
parquet one file, zstd; types Parquet has not are written as Arrow maps them
====== =========================================================================================

JSON values: NULL is ``null``; whole numbers up to 2^53 in size are numbers, larger ones strings of
exact digits, and so is every HUGEINT, UHUGEINT and BIGNUM; decimals are strings with their scale;
NaN and infinities are the strings ``NaN``, ``Infinity``, ``-Infinity``; dates, times and intervals
are the engine's own text (ISO 8601, a space before the time); blobs lower-case hex; lists, arrays
and tuples arrays; structs objects; maps arrays of [key, value]. CSV and table hold the same texts,
and JSON for what is nested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from io import IOBase
from itertools import chain
from typing import BinaryIO, cast

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from crossdock.client.cursor import Cursor
from crossdock.client.rows import Row
from crossdock.errors import CrossdockError
from crossdock.results.text import write_csv
from crossdock.results.values import column_type, is_numeric, row_encoder, text_converter

#: Rows handled at a time by the formats that go row by row; a table's widths fit the first block.
_BLOCK = 10_000


class Format(StrEnum):
    """Output formats."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"
    PARQUET = "parquet"


def write(cursor: Cursor, format: Format, stream: BinaryIO) -> None:
    """Write every row of an executed cursor."""
    _WRITERS[format](cursor, stream)


def _blocks(cursor: Cursor) -> Iterable[Sequence[Row]]:
    while rows := cursor.fetchmany(_BLOCK):
        yield rows


def _write_json(cursor: Cursor, stream: BinaryIO) -> None:
    description = cursor.description or []
    columns = [{"name": column[0], "type": column[1]} for column in description]
    lines = row_encoder([column[1] for column in description])
    encode = msgspec.json.Encoder().encode
    stream.write(b'{"columns":' + encode(columns) + b',"rows":[')
    separator = b"\n"
    for rows in _blocks(cursor):
        stream.write(separator + b",\n".join(map(lines, rows)))
        separator = b",\n"
    stream.write(b"\n]}\n")


def _texts(cursor: Cursor) -> Iterator[list[list[str | None]]]:
    """Blocks of rows as texts, None for NULL."""
    convert = [text_converter(column_type(column[1])) for column in cursor.description or []]
    for rows in _blocks(cursor):
        yield [
            [None if v is None else f(v) for f, v in zip(convert, row, strict=True)] for row in rows
        ]


def _write_csv(cursor: Cursor, stream: BinaryIO) -> None:
    write_csv(
        [(column[0], column[1]) for column in cursor.description or []], _blocks(cursor), stream
    )


def _write_table(cursor: Cursor, stream: BinaryIO) -> None:
    description = cursor.description or []
    names = [_one_line(column[0]) for column in description]
    blocks = (
        [["NULL" if text is None else _one_line(text) for text in row] for row in rows]
        for rows in _texts(cursor)
    )
    first = next(blocks, [])
    widths = [
        max(len(name), *(len(row[index]) for row in first), 0) for index, name in enumerate(names)
    ]
    line = _aligner(widths, [is_numeric(column_type(column[1])) for column in description])
    rule = "  ".join("-" * width for width in widths)
    stream.write(f"{line(names)}\n{rule}\n".encode())
    for rows in chain([first], blocks):
        stream.write("".join(line(row) + "\n" for row in rows).encode())


def _one_line(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _aligner(widths: Sequence[int], right: Sequence[bool]) -> Callable[[Sequence[str]], str]:
    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(cells, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    return line


def _write_arrow(cursor: Cursor, stream: BinaryIO) -> None:
    reader = cursor.arrow_batches()
    with pa.ipc.new_stream(cast(IOBase, stream), reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


def _write_parquet(cursor: Cursor, stream: BinaryIO) -> None:
    reader = cursor.arrow_batches()
    try:
        with pq.ParquetWriter(stream, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise CrossdockError(f"this result cannot be written as Parquet: {error}") from error


_WRITERS: dict[Format, Callable[[Cursor, BinaryIO], None]] = {
    Format.TABLE: _write_table,
    Format.JSON: _write_json,
    Format.CSV: _write_csv,
    Format.ARROW: _write_arrow,
    Format.PARQUET: _write_parquet,
}
