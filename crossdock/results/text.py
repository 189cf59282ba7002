"""Rows as CSV."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

from crossdock.results.values import column_type, text_converter

#: Fields that must be quoted hold one of these.
_SPECIAL = re.compile(r'[,"\r\n]')


def write_csv(
    columns: Sequence[tuple[str, str]],
    blocks: Iterable[Sequence[Sequence[Any]]],
    stream: BinaryIO,
) -> None:
    """RFC 4180 with a header line; ``columns`` are names and types, ``blocks`` rows.

    NULL is an empty field and an empty string is quoted, which ``csv`` cannot tell apart.
    """
    convert = [text_converter(column_type(type)) for _, type in columns]
    stream.write((",".join(_field(name) for name, _ in columns) + "\n").encode())
    for rows in blocks:
        texts = (
            [None if v is None else f(v) for f, v in zip(convert, row, strict=True)] for row in rows
        )
        stream.write("".join(",".join(map(_field, row)) + "\n" for row in texts).encode())


def _field(field: str | None) -> str:
    if field is None:
        return ""
    if field == "" or _SPECIAL.search(field):
        return '"' + field.replace('"', '""') + '"'
    return field
