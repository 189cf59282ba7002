"""CREATE and DROP of views and macros, read by DuckDB's own tokens.

DuckDB gives no tree of these statements; it is asked elsewhere whether it takes them. What is kept
of a definition is the text after its name: ``(columns) AS query``, ``(parameters) AS expression``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crossdock.errors import SqlError
from crossdock.planner.tokens import Reader, without_empty_statements
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


def read_change(sql: str) -> Create | Drop | None:
    """The change of the catalog that ``sql`` is; None if it is none of these.

    Raises:
        SqlError: the name has a schema that is not there, or another statement follows.
    """
    lower = sql.lower()
    if "create" not in lower and "drop" not in lower:
        return None
    reader = Reader(without_empty_statements(sql))
    if reader.skip("CREATE"):
        return _create(reader)
    return _drop(reader) if reader.skip("DROP") else None


def _create(reader: Reader) -> Create | None:
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


def _drop(reader: Reader) -> Drop | None:
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


def _name(reader: Reader) -> str:
    path = [reader.take().name]
    while reader.skip("."):
        path.append(reader.take().name)
    unknown = [part for part in path[:-1] if part.lower() not in _SCHEMAS]
    if unknown:
        raise SqlError(f"there is no schema {'.'.join(unknown)}: every name is in the schema main")
    return path[-1]


def _end(reader: Reader) -> None:
    while reader.skip(";"):
        pass
    if reader.word:
        raise SqlError(
            f'one statement at a time: "{reader.take().text}" comes after the end of this one'
        )


# -- what a definition says ------------------------------------------------------------------------


def view_of(entry: Entry) -> View:
    """A view's columns and query."""
    reader = Reader(entry.sql)
    columns = _column_list(reader)
    reader.until("AS")
    reader.take()
    return View(tuple(columns), reader.until(";"))


def _column_list(reader: Reader) -> Sequence[str]:
    columns: list[str] = []
    if reader.skip("("):
        while not reader.skip(")"):
            columns.append(reader.take().name)
            reader.skip(",")
    return columns


def overloads_of(entry: Entry) -> tuple[Overload, ...]:
    """A macro's forms, in the order DuckDB tries them."""
    reader = Reader(entry.sql)
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


def _parameters(reader: Reader) -> Iterator[Parameter]:
    while not reader.skip(")"):
        name = reader.take().name
        kind = reader.until(",", ")", ":=", "=>")
        default = ""
        if reader.skip(":=") or reader.skip("=>"):
            default = reader.until(",", ")")
        reader.skip(",")
        yield Parameter(name, kind, default)


def _body(reader: Reader) -> str:
    """Until the next form, which starts ``, (...) AS``; a query may have commas of its own."""
    text = reader.until(",", ";")
    while reader.skip(","):
        if reader.starts_form():
            break
        text += ", " + reader.until(",", ";")
    return text
