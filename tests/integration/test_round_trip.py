"""The engine's plan, decoded and rendered as SQL, gives what the query itself gives."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from crossdock.planner.decode import SERIALIZE_PLAN, decode_plan_json, parse_plan_text
from crossdock.planner.nodes import Relation
from crossdock.planner.optimizer_rules import disabled_optimizers
from crossdock.planner.render import render
from tests.datasets import benchmark_queries
from tests.integration.round_trip_cases import CASES, SCHEMA

#: Rows of the planner's tables: plans must not depend on what they hold.
SHADOW_ROWS = 5

#: Calls that decoding and rendering may make for each of a plan's objects: twice what they do.
CALLS_AN_OBJECT = 12

UNSKIPPED_PLAN = "SELECT json_serialize_plan($sql, optimize := true)"


def planner_connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"SET disabled_optimizers = '{disabled_optimizers(connection)}'")
    return connection


def decoded(
    planner: duckdb.DuckDBPyConnection, sql: str, serialize: str = SERIALIZE_PLAN
) -> Relation:
    row = planner.execute(serialize, {"sql": sql}).fetchone()
    assert row is not None
    return decode_plan_json(parse_plan_text(row[0]))


def rows_and_types(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[list[str], list[str]]:
    cursor = connection.execute(sql)
    types = [str(column[1]) for column in cursor.description or ()]
    return [repr(tuple(map(comparable, row))) for row in cursor.fetchall()], types


def comparable(value: object) -> object:
    """Sums of floats depend on the order of rows, so nine digits have to do."""
    return float(f"{value:.9g}") if isinstance(value, float) else value


class Round:
    """A connection with rows, and one that plans over other rows of the same tables."""

    def __init__(self, executor: duckdb.DuckDBPyConnection, planner: duckdb.DuckDBPyConnection):
        self.executor = executor
        self.planner = planner

    def check(self, sql: str, *, ordered: bool = False) -> None:
        relation = decoded(self.planner, sql)
        text = render(relation)
        expected, types = rows_and_types(self.executor, sql)
        actual, actual_types = rows_and_types(self.executor, text)
        assert actual_types == types, text
        assert list(relation.types) == types, text
        if ordered:
            assert actual == expected, text
        else:
            assert sorted(actual) == sorted(expected), text


def benchmark_round(folder: Path) -> Round:
    executor, planner = duckdb.connect(config={"threads": 2}), planner_connection()
    for file in sorted(folder.glob("*.parquet")):
        executor.execute(f"CREATE VIEW {file.stem} AS FROM '{file}'")
        planner.execute(f"CREATE TABLE {file.stem} AS FROM '{file}' LIMIT {SHADOW_ROWS}")
    return Round(executor, planner)


@pytest.fixture(scope="module")
def tpch(tpch_tiny: Path) -> Round:
    return benchmark_round(tpch_tiny)


@pytest.fixture(scope="module")
def tpcds(tpcds_tiny: Path) -> Round:
    return benchmark_round(tpcds_tiny)


@pytest.fixture(scope="module")
def small() -> Iterator[Round]:
    executor, planner = duckdb.connect(), planner_connection()
    executor.execute("SET TimeZone = 'UTC'")
    for connection in (executor, planner):
        connection.execute(SCHEMA)
    for (table,) in planner.execute("SELECT table_name FROM duckdb_tables()").fetchall():
        planner.execute(f'DELETE FROM "{table}" WHERE rowid > 1')
    yield Round(executor, planner)
    executor.close()
    planner.close()


@pytest.mark.parametrize(("number", "sql"), benchmark_queries("tpch"))
def test_tpch_query_changes_in_the_round_trip(tpch: Round, number: str, sql: str) -> None:
    tpch.check(sql)


@pytest.mark.parametrize(("number", "sql"), benchmark_queries("tpcds"))
def test_tpcds_query_changes_in_the_round_trip(tpcds: Round, number: str, sql: str) -> None:
    tpcds.check(sql)


@pytest.mark.parametrize(
    ("topic", "sql"), [(topic, sql) for topic, queries in CASES.items() for sql in queries]
)
def test_small_query_changes_in_the_round_trip(small: Round, topic: str, sql: str) -> None:
    small.check(sql, ordered=topic == "ordered")


@pytest.mark.parametrize("topic", CASES)
def test_plan_with_unskipped_defaults_decodes_otherwise(small: Round, topic: str) -> None:
    for sql in CASES[topic]:
        assert decoded(small.planner, sql, UNSKIPPED_PLAN) == decoded(small.planner, sql), sql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT (SELECT a FROM u) FROM t",
        "SELECT a, (SELECT c FROM u WHERE u.a = t.a) FROM t",
        "SELECT a FROM t WHERE a = (SELECT c FROM u WHERE c > 2)",
        "SELECT a::TINYINT * 100::TINYINT FROM t",
        "SELECT CAST(s AS INTEGER) FROM t",
        "SELECT error('no ' || s) FROM t",
    ],
)
def test_query_that_fails_succeeds_after_the_round_trip(small: Round, sql: str) -> None:
    text = render(decoded(small.planner, sql))
    with pytest.raises(duckdb.Error) as expected:
        small.executor.execute(sql).fetchall()
    with pytest.raises(type(expected.value)):
        small.executor.execute(text).fetchall()


def objects(document: object) -> int:
    """JSON objects of a plan, at any depth."""
    if isinstance(document, dict):
        return 1 + sum(map(objects, document.values()))
    return sum(map(objects, document)) if isinstance(document, list) else 0


def calls(work: Callable[[], object]) -> int:
    """Calls of Python functions."""
    counted = itertools.count()
    sys.setprofile(lambda frame, event, argument: next(counted) if event == "call" else None)
    try:
        work()
    finally:
        sys.setprofile(None)
    return next(counted)


def test_decoding_costs_more_for_an_object_of_a_large_plan_than_of_a_small_one(
    tpcds: Round,
) -> None:
    for number, sql in benchmark_queries("tpcds"):
        (text,) = tpcds.planner.execute(SERIALIZE_PLAN, {"sql": sql}).fetchall()[0]
        document = parse_plan_text(text)
        render(decode_plan_json(document))  # fills caches
        made = calls(lambda document=document: render(decode_plan_json(document)))
        assert made < CALLS_AN_OBJECT * objects(document), number
