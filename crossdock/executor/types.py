"""DuckDB's type texts, read into a tree: what carriers recurse over.

The texts are those ``typeof`` and ``DESCRIBE`` print (``STRUCT("a b" INTEGER)``, ``DATE[3]``);
spellings a user may write (``TIMESTAMPTZ``, ``INT``) are folded into DuckDB's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from crossdock.errors import CarrierError

_TOKEN = re.compile(
    r"""\s*(?:("(?:[^"]|"")*")|('(?:[^']|'')*')|([^\W\d][\w.]*)|(\d+)|([(),\[\]]))"""
)

_T = TypeVar("_T")

_SPELLINGS = {
    "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
    "TIMETZ": "TIME WITH TIME ZONE",
    "INT": "INTEGER",
    "INT4": "INTEGER",
    "INT8": "BIGINT",
    "INT2": "SMALLINT",
    "INT1": "TINYINT",
    "STRING": "VARCHAR",
    "TEXT": "VARCHAR",
    "BOOL": "BOOLEAN",
    "REAL": "FLOAT",
    "NUMERIC": "DECIMAL",
    "BYTEA": "BLOB",
    "DATETIME": "TIMESTAMP",
    "BITSTRING": "BIT",
    "VARINT": "BIGNUM",
}


@dataclass(frozen=True, slots=True)
class SqlType:
    """One type. ``members`` are named for STRUCT and UNION, ``""`` for the others.

    ``name`` is LIST, ARRAY, MAP, STRUCT, TUPLE, UNION, ENUM or the scalar's own name; ``arguments``
    are what stands in its parentheses: DECIMAL's width and scale, ARRAY's size, ENUM's values.
    """

    name: str
    arguments: tuple[str, ...] = ()
    members: tuple[tuple[str, SqlType], ...] = ()

    def __str__(self) -> str:
        children = [child for _, child in self.members]
        match self.name:
            case "LIST":
                return f"{children[0]}[]"
            case "ARRAY":
                return f"{children[0]}[{self.arguments[0]}]"
            case "MAP" | "TUPLE":
                return f"{self.name}({', '.join(map(str, children))})"
            case "STRUCT" | "UNION":
                inner = ", ".join(f"{quote(label)} {child}" for label, child in self.members)
                return f"{self.name}({inner})"
        return f"{self.name}({', '.join(self.arguments)})" if self.arguments else self.name


def quote(identifier: str) -> str:
    """An SQL identifier, always quoted."""
    return '"' + identifier.replace('"', '""') + '"'


@lru_cache(maxsize=4096)
def parse_type(text: str) -> SqlType:
    """Read a type text. Raises ``CarrierError`` for text that is none."""
    reader = _Reader(text)
    parsed = reader.type()
    if reader.peek():
        raise CarrierError(f"type text not understood: {text!r}")
    return parsed


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._position = 0

    def peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise CarrierError(f"type text not understood: {self._text!r}")
        self._position += 1
        return token

    def type(self) -> SqlType:
        parsed = self._base()
        while self.peek() == "[":
            self.take("[")
            size = self.take() if self.peek() != "]" else ""
            self.take("]")
            name, arguments = ("ARRAY", (size,)) if size else ("LIST", ())
            parsed = SqlType(name, arguments, (("", parsed),))
        return parsed

    def _base(self) -> SqlType:
        words = [self.take()]
        while self.peek() and self.peek() not in "(),[]":
            words.append(self.take())
        name = " ".join(word if word.startswith('"') else word.upper() for word in words)
        name = _SPELLINGS.get(name, name)
        if self.peek() != "(":
            return SqlType("DECIMAL", ("18", "3")) if name == "DECIMAL" else SqlType(name)
        self.take("(")
        parsed = self._parenthesised(name)
        self.take(")")
        return parsed

    def _parenthesised(self, name: str) -> SqlType:
        if name in ("STRUCT", "UNION"):
            return SqlType(name, members=tuple(self._listed(self._member)))
        if name in ("MAP", "TUPLE"):
            return SqlType(name, members=tuple(("", child) for child in self._listed(self.type)))
        arguments = tuple(self._listed(self.take))
        if name == "DECIMAL" and len(arguments) == 1:
            arguments = (*arguments, "0")
        return SqlType(name, arguments)

    def _member(self) -> tuple[str, SqlType]:
        label = self.take()
        if label.startswith('"'):
            label = label[1:-1].replace('""', '"')
        return label, self.type()

    def _listed(self, item: Callable[[], _T]) -> Iterator[_T]:
        yield item()
        while self.peek() == ",":
            self.take(",")
            yield item()


def _tokens(text: str) -> tuple[str, ...]:
    tokens = []
    position = 0
    stripped = text.rstrip()
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None:
            raise CarrierError(f"type text not understood: {text!r}")
        tokens.append(match.group(match.lastindex or 0))
        position = match.end()
    return tuple(tokens)
