"""Correlated subqueries keep SQL's NULL rules, whether or not the data has NULLs at planning."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from tests.fuzz.data import Column, Table
from tests.fuzz.queries import Question
from tests.fuzz.trial import InProcess, Options, answer
from tests.oracle import assert_same

ROWS = "SELECT i % {n} AS k, i % 7 AS g, 's' || (i % 5) AS s FROM range(100) AS r(i)"
NULLS = "VALUES (3, NULL, NULL), (NULL, 3, 's1'), (NULL, NULL, NULL)"
SUBQUERIES = [
    template.format(op)
    for op in ("<>", "<", "=", "IS DISTINCT FROM")
    for template in (
        "EXISTS (SELECT 1 FROM y WHERE y.k = x.k AND y.g {} x.g)",
        "NOT EXISTS (SELECT 1 FROM y WHERE y.k = x.k AND y.s {} x.s)",
        "EXISTS (SELECT 1 FROM y WHERE y.k = x.k AND y.g {} x.g AND y.s <> x.s)",
        "(SELECT count(*) FROM y WHERE y.k = x.k AND y.g {} x.g) > 0",
    )
]


@pytest.fixture(scope="module", params=["no NULL", "NULL left", "NULL right", "NULL both"])
def engines(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[duckdb.DuckDBPyConnection, InProcess]]:
    folder = tmp_path_factory.mktemp("nulls")
    engine = InProcess(folder / "home")
    tables = []
    with duckdb.connect() as oracle:
        for name, n, side in (("x", 100, "left"), ("y", 90, "right")):
            oracle.execute(f"CREATE TABLE {name} AS {ROWS.format(n=n)}")
            if request.param.endswith((side, "both")):
                oracle.execute(f"INSERT INTO {name} {NULLS}")
            oracle.execute(f"COPY {name} TO '{folder}/{name}.parquet'")
            tables.append(Table(name, (Column("k", "BIGINT"),), (folder / f"{name}.parquet",)))
        engine.open(tables)
        yield oracle, engine


@pytest.mark.parametrize("subquery", SUBQUERIES)
def test_subquery_answers_otherwise_because_of_nulls(
    subquery: str, engines: tuple[duckdb.DuckDBPyConnection, InProcess]
) -> None:
    oracle, engine = engines
    options = Options(partitions=3, broadcast_bytes=0)
    for sql in (
        f"SELECT x.*, {subquery} AS e FROM x",
        f"SELECT count(*) FROM x WHERE {subquery}",
    ):
        assert_same(engine.ask(Question(sql), options), answer(oracle, sql), ordered=False)
