"""PIVOT whose columns are the values found: first they are asked for, then written into the text.

DuckDB does the same with a type it makes in between, and shows no tree of such a statement; so its
tokens are read here. The values are texts in their order, as DuckDB's columns are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import duckdb

from crossdock.errors import SqlError
from crossdock.planner.sql_text import quote_literal
from crossdock.planner.tokens import Reader

#: Values that one column's PIVOT may have, as DuckDB has it.
MOST_VALUES = 100_000
_WORDS = ("PIVOT", "PIVOT_WIDER")
_ENDS = ("USING", "GROUP", "ORDER", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT", ")", ";")
#: Joins that take no condition.
_UNCONDITIONAL = frozenset({"CROSS", "NATURAL", "POSITIONAL"})
#: Rounds, of one column each; a statement with more names its values.
_MOST_COLUMNS = 100

Ask = Callable[[str], list[str]]


class _Open(NamedTuple):
    """A pivoted column without values: its place in the text (bytes), and what is pivoted."""

    first: int
    last: int
    expression: str
    source: str
    context: str  # WITH entries the source may name


def with_pivot_values(sql: str, ask: Ask) -> str:
    """``sql`` with the values of each PIVOT column written out.

    ``ask`` runs a query of one text column and gives its values in order.

    Raises:
        SqlError: a column has no values or too many.
    """
    if "pivot" not in sql.lower() or not _is_open(sql):
        return sql
    for _ in range(_MOST_COLUMNS):
        found = _first_open(sql)
        if found is None:
            return sql
        sql = _filled(sql, found, ask)
    raise SqlError(f"PIVOT of more than {_MOST_COLUMNS} columns without values; list the values")


def _is_open(sql: str) -> bool:
    with duckdb.connect(config={"threads": "1"}) as connection:
        try:
            statements = connection.extract_statements(sql)
        except duckdb.Error:
            return False  # the binder says why, with the place
    return len(statements) == 1 and statements[0].type.name == "MULTI"


def _filled(sql: str, found: _Open, ask: Ask) -> str:
    value = f"CAST({found.expression} AS VARCHAR)"
    query = (
        f"{found.context}SELECT DISTINCT {value} AS v FROM {found.source}\n"
        f"WHERE {value} IS NOT NULL ORDER BY v LIMIT {MOST_VALUES + 1}"
    )
    values = ask(query)
    if not values:
        raise SqlError(f"PIVOT ON {found.expression}: there are no values to make columns of")
    if len(values) > MOST_VALUES:
        raise SqlError(
            f"PIVOT ON {found.expression}: more than {MOST_VALUES:,} values; "
            "list those you want: IN (value, ...)"
        )
    data = sql.encode()
    listed = ", ".join(map(quote_literal, values))
    written = f"{_grouped(found.expression)} IN ({listed})"
    return (data[: found.first] + written.encode() + data[found.last :]).decode()


def _grouped(expression: str) -> str:
    return expression if expression.startswith("(") else f"({expression})"


def _first_open(sql: str) -> _Open | None:
    reader = Reader(sql)
    while reader.word:
        here, word = reader.start, reader.take().word
        if word in _WORDS:
            after = reader.at
            if (found := _open_column(reader, here, sql)) is not None:
                return found
            reader.at = after  # its source may hold another
    return None


def _open_column(reader: Reader, start: int, sql: str) -> _Open | None:
    """The first column without values of the PIVOT that was just taken."""
    source = _source(reader)
    while source is not None:
        first = reader.start
        expression = reader.until(",", "IN", *_ENDS)
        has_list = reader.word == "IN" and _takes_list(expression)
        rest = reader.until(",", *_ENDS)
        if not has_list:
            whole = f"{expression} {rest}".strip()
            return _Open(first, reader.end, whole, source, _context(sql, start))
        if not reader.skip(","):
            return None
    return None


def _source(reader: Reader) -> str | None:
    """What is pivoted, up to the ON of the PIVOT itself; None if it has none."""
    first, conditions, before = reader.start, 0, ""
    while reader.word not in ("", ")", ";"):
        word = reader.word
        if word == "ON":
            if conditions == 0:
                text = reader.text(first, reader.start).strip()
                reader.take()
                return text
            conditions -= 1
        elif word == "USING":
            if conditions == 0:
                return None
            conditions -= 1
        elif word == "JOIN" and before not in _UNCONDITIONAL:
            conditions += 1
        before = word
        if word == "(":
            reader.take()
            reader.until(")")
        reader.take()
    return None


def _takes_list(expression: str) -> bool:
    """Whether ``IN`` after it lists its values: a name, a cast, or anything in parentheses."""
    reader = Reader(expression)
    while reader.word:
        if reader.word == "(":
            reader.take()
            reader.until(")")
            reader.take()
        elif not (reader.skip(".") or reader.skip("::")):
            token = reader.take()
            if token.word == "NOT" or not (token.text.isidentifier() or token.text[0] == '"'):
                return False
    return True


def _context(sql: str, position: int) -> str:
    """The WITH clause of the entries that were complete before ``position``, "" if none."""
    reader = Reader(sql)
    if not reader.skip("WITH"):
        return ""
    words = "WITH RECURSIVE " if reader.skip("RECURSIVE") else "WITH "
    entries: list[str] = []
    while True:
        first = reader.start
        reader.until("AS")
        reader.until("(")
        reader.take()
        reader.until(")")
        reader.take()
        if reader.end > position:
            break
        entries.append(reader.text(first, reader.end))
        if not reader.skip(","):
            break
    return f"{words}{', '.join(entries)} " if entries else ""
