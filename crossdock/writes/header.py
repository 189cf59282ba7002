"""What stands around the query of CREATE TABLE AS, INSERT and COPY: target, columns, options."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import duckdb

from crossdock.errors import SqlError
from crossdock.planner.plan import Existing
from crossdock.planner.sql_text import quote_identifier
from crossdock.planner.tokens import without_empty_statements
from crossdock.writes.tokens import TokenReader, end_of, string_of

_KINDS = frozenset({"CREATE", "INSERT", "COPY"})
#: What a query may begin with.
_QUERY_WORDS = frozenset(
    {"SELECT", "FROM", "WITH", "VALUES", "TABLE", "PIVOT", "UNPIVOT", "SUMMARIZE", "DESCRIBE", "("}
)
#: Schemas a name may be qualified with: there is one.
_SCHEMAS = frozenset({"main", "memory"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    name: str
    columns: tuple[str, ...]  # names given to the query's columns, perhaps to the first ones only
    existing: Existing
    query: str
    with_data: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareTable:
    """CREATE TABLE with a list of columns and no query."""

    name: str
    existing: Existing
    definition: str  # in parentheses


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    name: str
    columns: tuple[str, ...]  # () for all, in their order
    by_name: bool
    query: str  # "" for DEFAULT VALUES
    around: str  # the statement up to its query, as DuckDB is to check it


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    query: str
    target: str
    options: tuple[tuple[str, str], ...]  # upper-case name, text of the value ("" if none)


Header = CreateTable | DeclareTable | Insert | Copy


def read_header(connection: duckdb.DuckDBPyConnection, sql: str) -> Header | None:
    """The statement that writes; None for any other.

    Raises ``SqlError`` with DuckDB's reason, or naming a form that is not supported.
    """
    if not _may_write(sql):
        return None
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error:
        return None  # whoever reads it as a query gives the reason
    if len(statements) != 1 or statements[0].type.name not in _KINDS:
        return None
    reader = TokenReader(without_empty_statements(sql))
    match statements[0].type.name:
        case "CREATE":
            return _create(reader)
        case "INSERT":
            return _insert(reader)
    return _copy(reader)


def _may_write(sql: str) -> bool:
    lower = sql.lower()
    return any(word in lower for word in ("create", "insert", "copy"))


# -- CREATE TABLE ----------------------------------------------------------------------------------


def _create(reader: TokenReader) -> CreateTable | DeclareTable | None:
    reader.take()
    existing = Existing.REPLACE if reader.skip("OR", "REPLACE") else Existing.REFUSE
    temporary = reader.skip("TEMP") or reader.skip("TEMPORARY")
    if not reader.skip("TABLE"):
        return None
    if temporary:
        raise SqlError(
            "CREATE TEMP TABLE is not supported: use WITH for a named subquery, or a table "
            "and DROP TABLE"
        )
    if reader.skip("IF", "NOT", "EXISTS"):
        existing = Existing.SKIP
    name = _name(reader)
    listed = _parenthesised(reader) if reader.word == "(" else ""
    if not reader.word or reader.word == ";":
        return DeclareTable(name=name, existing=existing, definition=listed)
    if not reader.skip("AS"):
        raise SqlError(f"CREATE TABLE ... {reader.take().text} is not supported")
    query = _Query(reader)
    with_data = query.without_data()
    columns = _names(TokenReader(listed)) if listed else ()
    return CreateTable(
        name=name, columns=columns, existing=existing, query=query.text(), with_data=with_data
    )


class _Query:
    """The rest of a statement, from its query on."""

    def __init__(self, reader: TokenReader) -> None:
        self._reader = reader
        self._first = reader.start
        self.outside = list(reader.outside(";"))
        self._last = end_of(self.outside[-1]) if self.outside else self._first
        self._before: tuple[tuple[int, int], ...] = ()

    def after(self, first: int, last: int) -> None:
        """WITH entries stand before the statement's own words."""
        self._before = ((first, last),)

    def without_data(self) -> bool:
        """Cut WITH [NO] DATA off; False if there is a NO."""
        words = [token.word for token in self.outside]
        for tail, data in ((["WITH", "NO", "DATA"], False), (["WITH", "DATA"], True)):
            if words[-len(tail) :] == tail:
                self._last = self.outside[-len(tail)].start
                return data
        return True

    def text(self) -> str:
        """In its place: what stands before it is blank."""
        return self._reader.blanked((*self._before, (self._first, self._last)))


# -- INSERT ----------------------------------------------------------------------------------------


def _insert(reader: TokenReader) -> Insert:
    first = reader.start
    entries = list(reader.outside("INSERT"))
    last = reader.start
    reader.take()
    if reader.skip("OR"):
        raise SqlError(f"INSERT OR {reader.take().word} is not supported: tables have no keys")
    if not reader.skip("INTO"):
        raise SqlError("INSERT: INTO and a table must follow")
    name = _name(reader)
    if reader.skip("AS"):
        reader.take()
    listed = ""
    if reader.word == "(" and reader.peek(1) not in _QUERY_WORDS:
        listed = _parenthesised(reader)
    by_name = _by_name(reader)
    if reader.skip("DEFAULT", "VALUES"):
        query_text = ""
    else:
        query = _Query(reader)
        _refuse_clauses(query)
        if entries:
            query.after(first, last)
        query_text = query.text()
    around = f"INSERT INTO {quote_identifier(name)} {listed} {'BY NAME' if by_name else ''}"
    columns = _names(TokenReader(listed)) if listed else ()
    return Insert(name=name, columns=columns, by_name=by_name, query=query_text, around=around)


def _by_name(reader: TokenReader) -> bool:
    reader.skip("BY", "POSITION")
    return reader.skip("BY", "NAME")


def _refuse_clauses(query: _Query) -> None:
    words = [token.word for token in query.outside]
    if "RETURNING" in words:
        raise SqlError("INSERT ... RETURNING is not supported; SELECT the rows")
    for here, after in itertools.pairwise(words):
        if (here, after) == ("ON", "CONFLICT"):
            raise SqlError("INSERT ... ON CONFLICT is not supported: tables have no keys")


# -- COPY ------------------------------------------------------------------------------------------


def _copy(reader: TokenReader) -> Copy:
    reader.take()
    if reader.word == "(":
        first = reader.start + 1
        inside = len(_parenthesised(reader).encode()) - 2
        query = reader.blanked([(first, first + inside)])
    else:
        query = _copied_table(reader)
    if reader.skip("FROM"):
        raise SqlError(
            "COPY ... FROM is not supported: INSERT INTO table SELECT * FROM 'file' reads a file"
        )
    if not reader.skip("TO"):
        raise SqlError("COPY: TO and a folder, a file or a URL must follow")
    target = string_of(reader.take())
    if not target:
        raise SqlError("COPY ... TO: the target must be written as a text")
    reader.skip("WITH")
    options: tuple[tuple[str, str], ...] = ()
    if reader.skip("("):
        options = _options(reader)
    if reader.word not in ("", ";"):
        raise SqlError(
            "COPY: options are written in parentheses, such as (FORMAT csv, HEADER false)"
        )
    return Copy(query=query, target=target, options=options)


def _copied_table(reader: TokenReader) -> str:
    if reader.skip("FROM", "DATABASE"):
        raise SqlError("COPY FROM DATABASE is not supported")
    name = _name(reader)
    columns = "*"
    if reader.word == "(":
        columns = ", ".join(map(quote_identifier, _names(TokenReader(_parenthesised(reader)))))
    return f"SELECT {columns} FROM {quote_identifier(name)}"


def _options(reader: TokenReader) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    while not reader.skip(")"):
        name = reader.take().word
        found.append((name, reader.until(",", ")")))
        reader.skip(",")
    return tuple(found)


# -- names -----------------------------------------------------------------------------------------


def _name(reader: TokenReader) -> str:
    path = [reader.take().name]
    while reader.skip("."):
        path.append(reader.take().name)
    unknown = [part for part in path[:-1] if part.lower() not in _SCHEMAS]
    if unknown:
        raise SqlError(f"there is no schema {'.'.join(unknown)}: every name is in the schema main")
    return path[-1]


def _parenthesised(reader: TokenReader) -> str:
    """The text of a pair of parentheses, which is taken."""
    first = reader.start
    reader.take()
    reader.until(")")
    last = end_of(reader.take())
    return reader.text(first, last)


def _names(reader: TokenReader) -> tuple[str, ...]:
    found = []
    reader.skip("(")
    while not reader.skip(")"):
        found.append(reader.take().name)
        if not reader.skip(",") and reader.word != ")":
            raise SqlError(f'a list of column names must follow, not "{reader.take().text}"')
    return tuple(found)
