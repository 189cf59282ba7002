"""Parameters keep value, type and the column names of the statement."""

import datetime as dt
import math
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from crossdock.catalog import Catalog
from crossdock.errors import SqlError
from crossdock.planner.binder import Binder

ZONE = "America/St_Johns"
U = pa.table({"name": ["x", "y"], "n": [1, 2], "d": [dt.date(2020, 1, 1)] * 2})


@pytest.fixture(scope="module")
def binder() -> Binder:
    catalog = Catalog()
    catalog.add("u", U)
    return Binder(catalog, timezone=ZONE)


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = '{ZONE}'")
        connection.register("arrow", U)
        connection.execute("CREATE TABLE u AS FROM arrow")
        yield connection


VALUES = [
    *(0, 5, -1, 2**31, -(2**31), 2**63, 2**64, 2**100, 2**127, -(2**127), True, False, None),
    *(1.5, 1e300, 5e-324, -0.0, 0.1, math.inf, -math.inf, math.nan),
    *(Decimal("1.10"), Decimal("1E+3"), Decimal("-1e-30"), Decimal("1e-50"), Decimal("NaN")),
    *("x", "", "it's", "é€😀", "a\0b", "$1 ? now()", b"\x00\xffa'\\", b""),
    *(dt.date(2020, 2, 29), dt.date.min, dt.date.max, dt.datetime.min, dt.datetime.max),
    dt.datetime(2020, 1, 1, 1, 2, 3, 4),
    dt.datetime(2020, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    *(dt.time(1, 2, 3, 4), dt.time(1, tzinfo=dt.timezone(dt.timedelta(hours=2, minutes=30)))),
    *(dt.timedelta(days=-1, seconds=5, microseconds=7), dt.timedelta(400, microseconds=-1)),
    uuid.UUID(int=5),
    *([1, 2], (1, 2), [], [None], [1, 2.5], [1, "a"], ["a", "b'c"], [[1], []], [[], [1.5]]),
    *([True, None], [b"\x00"], [dt.date(2020, 1, 1), None], [Decimal("1.5"), Decimal(10)]),
    *([2**100, 1], [1.5, math.nan], [{"a": 1}, {"a": 2.5}]),
    *({"a": 1}, {"a": "x", "b": [1], "c": {"d": None}}, {1: 2}, {"we'ird \"k": 1}, {}),
    *({"key": ["a"], "value": [1]}, {"key": [], "value": []}),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:30])
def test_a_value_arrives_as_duckdb_itself_binds_it(
    binder: Binder, engine: duckdb.DuckDBPyConnection, value: Any
) -> None:
    sql = "SELECT $1 AS v, typeof($1) AS kind"
    wanted = engine.execute(sql, [value])
    types = [str(column[1]) for column in wanted.description or ()]
    rows = repr(wanted.fetchall())  # text, so that NaN equals NaN and 0.0 is not -0.0
    bound = binder.bind(sql, [value])
    assert repr(engine.execute(bound.sql).fetchall()) == rows
    assert [(c.name, c.type) for c in bound.columns] == list(zip(("v", "kind"), types, strict=True))


STATEMENTS: list[tuple[str, Any]] = [
    ("SELECT ?, n + ?, ?::VARCHAR, ? || 'x' FROM u WHERE n IN (?, ?)", [1, 2, 3, "a", 1, 2]),
    ("SELECT * FROM u WHERE d = ? AND name LIKE ?", ["2020-01-01", "%"]),
    ("SELECT * FROM (SELECT ?, max(n + ?) OVER () FROM u) LIMIT ? OFFSET ?", [1, 2, 3, 0]),
    ("SELECT n IN ? FROM u", [[1, 5]]),
    ("SELECT CASE ? WHEN 1 THEN 'a' WHEN 2 THEN 'b' END, INTERVAL (?) DAY", [2, 3]),
    ("SELECT $a, $b + $a AS z, ($a)", {"a": 1, "b": 2}),
    ("SELECT sum(n) FILTER (WHERE n > ?), string_agg(name, ? ORDER BY n) FROM u", [0, "|"]),
    (
        "WITH RECURSIVE r AS (SELECT ? AS i UNION ALL SELECT i + 1 FROM r WHERE i < ?) FROM r",
        [1, 3],
    ),
    ("SELECT * FROM range(?) t(i) UNION ALL SELECT ? ORDER BY ALL", [3, 9]),
    ("SELECT COLUMNS(*) = ? FROM (SELECT 1 a, 2 b)", [1]),
    (
        "SELECT ? AS a, ? b, (SELECT ?) FROM u QUALIFY row_number() OVER (ORDER BY n) = ?",
        [1, 2, 3, 1],
    ),
    ("VALUES (?, ?), (?, ?)", [1, "a", 2, "b"]),
    ("FROM u SELECT date_trunc('month', d + ?), ?", [dt.timedelta(days=40), None]),
    ("SELECT list_transform([1, 2], lambda x: x + ?), [x + ? FOR x IN [1, 2]]", [1, 2]),
    ("SELECT x'AB', 'a' COLLATE NOCASE = ?, E'\\n', $$x$$ || ?", ["A", "y"]),
    ("SELECT * EXCLUDE (n) REPLACE (name || ? AS name) FROM u", ["!"]),
    (
        "SELECT -?, - ?, ?-?, NOT ?, ? IS NULL, ? BETWEEN ? AND ?",
        [1, -1, 1, -1, True, None, 1, 0, 2],
    ),
    (
        "SELECT lag(n, ?, ?) OVER (ORDER BY n ROWS BETWEEN ? PRECEDING AND CURRENT ROW) FROM u",
        [1, 7, 1],
    ),
    ("SELECT name, count(*) FROM u GROUP BY ROLLUP (name) HAVING count(*) > ? ORDER BY ALL", [0]),
    ("FROM u ASOF JOIN u AS v ON u.n >= v.n + ?", [1]),
    ("SELECT $2, $1, $2", [1, "b"]),
]


@pytest.mark.parametrize(("sql", "parameters"), STATEMENTS)
def test_rows_types_and_names_are_those_of_a_prepared_statement(
    binder: Binder, engine: duckdb.DuckDBPyConnection, sql: str, parameters: Any
) -> None:
    wanted = engine.execute(sql, parameters)
    columns = [(column[0], str(column[1])) for column in wanted.description or ()]
    rows = wanted.fetchall()
    bound = binder.bind(sql, parameters)
    assert [(c.name, c.type) for c in bound.columns] == columns
    got = engine.execute(bound.sql)
    assert [(column[0], str(column[1])) for column in got.description or ()] == columns
    assert got.fetchall() == rows


def test_a_statement_without_parameters_keeps_its_text(binder: Binder) -> None:
    sql = "select  N, -- a comment\n 'it''s' from U where n>1 ;"
    assert binder.bind(sql).sql == sql
    assert binder.bind(sql, []).sql == sql


@pytest.mark.parametrize(
    ("sql", "parameters", "said"),
    [
        ("SELECT ?", None, "1 parameter"),
        ("SELECT ?, ?", [1], r"2 parameter\(s\), 1 value"),
        ("SELECT ?", [1, 2], r"1 parameter\(s\), 2 value"),
        ("SELECT 1", [1], r"0 parameter\(s\), 1 value"),
        ("SELECT $a, $b", {"a": 1}, r"no value was given for parameter \$b"),
        ("SELECT $a", {"a": 1, "c": 2}, r"has no parameter \$c"),
        ("SELECT 1", {"c": 2}, r"has no parameter \$c"),
        ("SELECT $a", [1], "pass a dict"),
        ("SELECT ?", {"a": 1}, "pass a list"),
        ("SELECT ?", "text", "parameters are a list"),
        ("SELECT ?, $a", [1], "Mixing named and positional"),
        ("SELECT ?", [object()], "parameter 1: cannot pass this object"),
        ("SELECT $big", {"big": 2**128}, "parameter big: cannot pass this int"),
        ("SELECT ?", [[1, object()]], "parameter 1: cannot pass this list"),
        ("SELECT ?", ["\ud800"], "parameter 1: the text is not valid Unicode"),
    ],
)
def test_parameters_that_do_not_fit_are_named(
    binder: Binder, sql: str, parameters: Any, said: str
) -> None:
    with pytest.raises(SqlError, match=said):
        binder.bind(sql, parameters)
