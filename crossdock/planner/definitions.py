"""CREATE and DROP of views and macros, read by DuckDB's own tokens.

DuckDB gives no tree of these statements; it is asked elsewhere whether it takes them. What is kept
of a definition is the text after its name: ``(columns) AS query``, ``(parameters) AS expression``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import duckdb

from crossdock.errors import SqlError
from crossdock.tables import Entry, Kind

_KINDS = {
    "VIEW": Kind.VIEW,
    "MACRO": Kind.MACRO,
    "FUNCTION": Kind.MACRO,
    "TABLE": Kind.TABLE,
}
#: Schemas a name may be qualified with: there is one.
_SCHEMAS = frozenset({"main", "memory"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    entry: Entry
    temporary: bool
    replace: bool  # OR REPLACE
    tolerant: bool  # IF NOT EXISTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    kind: Kind
    name: str
    tolerant: bool  # IF EXISTS


@dataclass(frozen=True, slots=True)
class View:
    columns: tuple[str, ...]  # names given to the query's columns, perhaps to the first ones only
    query: str


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: str  # "" if any will do
    default: str  # SQL text, "" if there is none


@dataclass(frozen=True, slots=True)
class Overload:
    parameters: tuple[Parameter, ...]
    is_table: bool
    body: str  # an expression, or a query


class _Token(NamedTuple):
    start: int  # bytes
    text: str

    @property
    def word(self) -> str:
        """Upper-case keyword or bare name; quoted names and strings are none."""
        return self.text.upper()

    @property
    def name(self) -> str:
        if self.text.startswith('"'):
            return self.text[1:-1].replace('""', '"')
        return self.text


class _Reader:
    """Tokens one after the other."""

    def __init__(self, sql: str) -> None:
        self._data = sql.encode()
        self._tokens = list(_tokens(self._data))
        self._at = 0

    @property
    def word(self) -> str:
        return self._tokens[self._at].word if self._at < len(self._tokens) else ""

    @property
    def start(self) -> int:
        """Where the next token starts, in bytes."""
        if self._at < len(self._tokens):
            return self._tokens[self._at].start
        return len(self._data)

    def take(self) -> _Token:
        if self._at >= len(self._tokens):
            raise SqlError("syntax error at end of input")
        self._at += 1
        return self._tokens[self._at - 1]

    def skip(self, *words: str) -> bool:
        """Take ``words`` if they come next."""
        found = [token.word for token in self._tokens[self._at : self._at + len(words)]]
        if found != list(words):
            return False
        self._at += len(words)
        return True

    def starts_form(self) -> bool:
        """Whether ``(...) AS`` comes next."""
        here = self._at
        found = self.skip("(")
        self.until(")")
        found = found and self.skip(")", "AS")
        self._at = here
        return found

    def until(self, *words: str) -> str:
        """The text before the next of ``words`` outside parentheses, or before the end."""
        first, depth = self.start, 0
        while self.word and not (depth == 0 and self.word in words):
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(self.word, 0)
            self._at += 1
        return self._data[first : self.start].decode().strip()


def _tokens(data: bytes) -> Iterator[_Token]:
    found = duckdb.tokenize(data.decode())
    ends = [start for start, _ in found[1:]] + [len(data)]
    for (start, kind), end in zip(found, ends, strict=True):
        if kind != duckdb.token_type.comment:
            text = data[start:end].decode().strip()
            # DuckDB's tokens hold neither spaces nor comments, but for what follows the last.
            yield _Token(start, text)


def read_change(sql: str) -> Create | Drop | None:
    """The change of the catalog that ``sql`` is; None if it is none of these.

    Raises:
        SqlError: the name has a schema that is not there, or another statement follows.
    """
    lower = sql.lower()
    if "create" not in lower and "drop" not in lower:
        return None
    reader = _Reader(sql)
    if reader.skip("CREATE"):
        return _create(reader)
    return _drop(reader) if reader.skip("DROP") else None


def _create(reader: _Reader) -> Create | None:
    replace = reader.skip("OR", "REPLACE")
    temporary = reader.skip("TEMP") or reader.skip("TEMPORARY")
    kind = _KINDS.get(reader.word)
    if kind is None or kind is Kind.TABLE:
        return None
    reader.take()
    tolerant = reader.skip("IF", "NOT", "EXISTS")
    name = _name(reader)
    text = reader.until(";")
    _end(reader)
    entry = Entry(name=name, kind=kind, sql=text)
    return Create(entry=entry, temporary=temporary, replace=replace, tolerant=tolerant)


def _drop(reader: _Reader) -> Drop | None:
    kind = _KINDS.get(reader.word)
    if kind is None:
        return None
    reader.take()
    if kind is Kind.MACRO:
        reader.skip("TABLE")
    tolerant = reader.skip("IF", "EXISTS")
    name = _name(reader)
    if not reader.skip("CASCADE"):
        reader.skip("RESTRICT")
    _end(reader)
    return Drop(kind=kind, name=name, tolerant=tolerant)


def _name(reader: _Reader) -> str:
    path = [reader.take().name]
    while reader.skip("."):
        path.append(reader.take().name)
    unknown = [part for part in path[:-1] if part.lower() not in _SCHEMAS]
    if unknown:
        raise SqlError(f"there is no schema {'.'.join(unknown)}: every name is in the schema main")
    return path[-1]


def _end(reader: _Reader) -> None:
    while reader.skip(";"):
        pass
    if reader.word:
        raise SqlError(
            f'one statement at a time: "{reader.take().text}" comes after the end of this one'
        )


# -- what a definition says ------------------------------------------------------------------------


def view_of(entry: Entry) -> View:
    """A view's columns and query."""
    reader = _Reader(entry.sql)
    columns = _column_list(reader)
    reader.until("AS")
    reader.take()
    return View(tuple(columns), reader.until(";"))


def _column_list(reader: _Reader) -> Sequence[str]:
    columns: list[str] = []
    if reader.skip("("):
        while not reader.skip(")"):
            columns.append(reader.take().name)
            reader.skip(",")
    return columns


def overloads_of(entry: Entry) -> tuple[Overload, ...]:
    """A macro's forms, in the order DuckDB tries them."""
    reader = _Reader(entry.sql)
    found: list[Overload] = []
    while reader.word:
        reader.until("(")
        reader.take()
        parameters = tuple(_parameters(reader))
        reader.until("AS")
        reader.take()
        is_table = reader.skip("TABLE")
        found.append(Overload(parameters, is_table, _body(reader)))
    return tuple(found)


def _parameters(reader: _Reader) -> Iterator[Parameter]:
    while not reader.skip(")"):
        name = reader.take().name
        kind = reader.until(",", ")", ":=", "=>")
        default = ""
        if reader.skip(":=") or reader.skip("=>"):
            default = reader.until(",", ")")
        reader.skip(",")
        yield Parameter(name, kind, default)


def _body(reader: _Reader) -> str:
    """Until the next form, which starts ``, (...) AS``; a query may have commas of its own."""
    text = reader.until(",", ";")
    while reader.skip(","):
        if reader.starts_form():
            break
        text += ", " + reader.until(",", ";")
    return text
