"""Every plan's stages, run one task at a time, give DuckDB's own answer.

Partitioning is the real hash rule; tables stand in for exchange objects (``plan_simulator``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from crossdock.planner.binder import Binder
from crossdock.planner.options import PlannerOptions
from crossdock.planner.plan import StagePlan
from crossdock.planner.planning import plan_query
from tests.datasets import benchmark_queries
from tests.plan_simulator import Answer, PlanSimulator, comparable, differences
from tests.planner_data import catalog_of, operator_cases, write_tables

BROADCAST = PlannerOptions(workers=3, partitions=2, broadcast_bytes=1 << 40)
WITHOUT_BROADCAST = PlannerOptions(workers=3, partitions=7, broadcast_bytes=0)


@pytest.fixture(scope="module")
def simulator() -> Iterator[PlanSimulator]:
    made = PlanSimulator()
    yield made
    made.connection.close()


def check(
    sql: str,
    binder: Binder,
    oracle: duckdb.DuckDBPyConnection,
    simulator: PlanSimulator,
    options: PlannerOptions,
) -> StagePlan:
    plan = plan_query(binder.bind(sql), options)
    result = oracle.execute(sql)
    want = Answer([str(column[1]) for column in result.description], result.fetchall())
    got = simulator.run(plan)
    assert not list(differences(plan, want, got))
    if plan.stages[-1].ordered:
        assert comparable(got.rows, ordered=True) == comparable(want.rows, ordered=True)
    return plan


@pytest.fixture(scope="module")
def tpch(tpch_tiny: Path) -> Iterator[tuple[Binder, duckdb.DuckDBPyConnection]]:
    with duckdb.connect() as oracle:
        for path in sorted(tpch_tiny.glob("*.parquet")):
            oracle.execute(f"CREATE VIEW {path.stem} AS SELECT * FROM '{path}'")
        yield Binder(catalog_of(tpch_tiny)), oracle


@pytest.mark.parametrize(("number", "sql"), benchmark_queries("tpch"))
def test_tpch_answer_differs_when_everything_is_shuffled(
    number: str,
    sql: str,
    tpch: tuple[Binder, duckdb.DuckDBPyConnection],
    simulator: PlanSimulator,
) -> None:
    plan = check(sql, *tpch, simulator, WITHOUT_BROADCAST)
    assert not plan.one_task
    assert plan.notes == ()


@pytest.fixture(scope="module")
def operators(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Binder, duckdb.DuckDBPyConnection]]:
    folder = tmp_path_factory.mktemp("operators")
    with duckdb.connect(config={"threads": 1}) as oracle:
        for statement in operator_cases()[0]:
            oracle.execute(statement)
        write_tables(oracle, folder, row_files=True)
        yield Binder(catalog_of(folder)), oracle


@pytest.mark.parametrize("sql", operator_cases()[1])
def test_operator_answer_differs(
    sql: str,
    operators: tuple[Binder, duckdb.DuckDBPyConnection],
    simulator: PlanSimulator,
) -> None:
    check(sql, *operators, simulator, WITHOUT_BROADCAST)
    check(sql, *operators, simulator, BROADCAST)
