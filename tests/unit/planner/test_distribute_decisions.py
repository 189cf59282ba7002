"""When a statement is one task, and what its plan then says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from crossdock.planner.binder import Binder
from crossdock.planner.options import PlannerOptions
from crossdock.planner.planning import plan_query
from tests.planner_data import catalog_of


@pytest.fixture
def binder(tmp_path: Path) -> Binder:
    duckdb.execute(f"COPY (SELECT i, i % 2 AS k FROM range(9) r(i)) TO '{tmp_path}/t.parquet'")
    return Binder(catalog_of(tmp_path))


def test_statement_without_a_plan_is_refused(binder: Binder) -> None:
    bound = replace(binder.bind("SELECT k FROM t"), plan=None, reason="a lambda")
    plan = plan_query(bound, PlannerOptions(workers=2))
    assert plan.one_task
    assert plan.notes == ("whole statement in one task: a lambda",)
    assert plan.stages[0].fragment == bound.sql
    (scan,) = plan.stages[0].scans
    assert (scan.name, scan.columns, scan.whole) == ("t", ("i", "k"), True)


def test_unknown_plan_node_is_refused(binder: Binder) -> None:
    bound = replace(binder.bind("SELECT k FROM t"), plan={"type": "LOGICAL_NOVELTY"})
    plan = plan_query(bound, PlannerOptions(workers=2))
    assert plan.one_task
    assert "LOGICAL_NOVELTY" in plan.notes[0]


def test_limit_is_not_compared_with_the_columns_read(binder: Binder) -> None:
    bound = binder.bind("SELECT k FROM t")
    read = plan_query(bound, PlannerOptions(single_task_limit=1)).scanned_bytes
    assert plan_query(bound, PlannerOptions(single_task_limit=read)).one_task
    assert not plan_query(bound, PlannerOptions(single_task_limit=read - 1)).one_task
    assert not plan_query(bound, PlannerOptions(workers=2)).one_task


def test_volatile_stage_counts_as_repeatable(binder: Binder) -> None:
    plan = plan_query(
        binder.bind("SELECT k, count(*) FROM t WHERE random() < 2 GROUP BY k"),
        PlannerOptions(workers=2),
    )
    assert [stage.deterministic for stage in plan.stages] == [False, True]


def test_broadcast_columns_or_states_lose_their_types(binder: Binder) -> None:
    plan = plan_query(
        binder.bind("SELECT k, sum(i), quantile_cont(i, 0.5) FROM t GROUP BY k"),
        PlannerOptions(workers=2),
    )
    key, total, half = plan.edges[0].columns
    assert key.type == "BIGINT"
    assert (total.type, total.aggregate, total.arguments) == ("HUGEINT", "sum", ("BIGINT",))
    assert half.aggregate == "quantile_cont"
    assert half.constants[1]
