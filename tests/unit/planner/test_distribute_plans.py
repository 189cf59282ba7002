"""Plans as data: each entry of ``plans.sql`` is a statement and the stages it is cut into."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pytest

from crossdock.planner.binder import Binder
from crossdock.planner.options import PlannerOptions
from crossdock.planner.plan import ShuffleMode, Stage, StagePlan, decode_plan, encode_plan
from crossdock.planner.planning import plan_query
from tests.planner_data import FIXTURES, catalog_of, operator_cases, write_tables

FORCED = {"workers": 3, "partitions": 3, "single_task_limit": 0, "broadcast_bytes": 0}


@dataclass(frozen=True)
class Entry:
    title: str
    options: dict[str, int]
    sql: str
    stages: list[str]


def entries() -> list[Entry]:
    blocks = (FIXTURES / "plans.sql").read_text().strip().split("\n\n")
    return [_entry(block.splitlines()) for block in blocks]


def _entry(lines: list[str]) -> Entry:
    title = lines.pop(0).removeprefix("-- ")
    given: dict[str, int] = {}
    if lines[0].startswith("-- with "):
        pairs = (pair.split("=") for pair in lines.pop(0).removeprefix("-- with ").split())
        given = {name: int(value) for name, value in pairs}
    sql = "\n".join(line for line in lines if not line.startswith("-- "))
    stages = [line.removeprefix("-- ") for line in lines if line.startswith("-- ")]
    return Entry(title, FORCED | given, sql, stages)


def summary(plan: StagePlan) -> list[str]:
    """A line a stage: number, work, tasks, inputs, and what is special about it."""
    return [_summary(plan, stage) for stage in plan.stages]


def _summary(plan: StagePlan, stage: Stage) -> str:
    text = f"{stage.stage}: {stage.label} [{stage.tasks}]"
    inputs = []
    for given in stage.exchanges:
        edge = plan.edges[given.edge]
        keys = f" ({', '.join(edge.keys)})" if edge.mode is ShuffleMode.HASH else ""
        inputs.append(f"{edge.mode.value} {edge.producer}{keys}")
    if inputs:
        text += f" <- {', '.join(inputs)}"
    if stage.prefix_limit:
        text += f"; any {stage.prefix_limit} rows"
    return text + "".join(f"; {reason}" for reason in stage.reasons)


@pytest.fixture(scope="module")
def binder(tmp_path_factory: pytest.TempPathFactory) -> Binder:
    folder = tmp_path_factory.mktemp("tables")
    with duckdb.connect() as connection:
        for statement in operator_cases()[0]:
            connection.execute(statement)
        write_tables(connection, folder, row_files=False)
    return Binder(catalog_of(folder))


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.title)
def test_statement_is_cut_into_other_stages(entry: Entry, binder: Binder) -> None:
    plan = plan_query(binder.bind(entry.sql), PlannerOptions(**entry.options))
    assert summary(plan) == entry.stages


@pytest.mark.parametrize("sql", operator_cases()[1][::7])
def test_same_statement_prints_another_plan(sql: str, binder: Binder) -> None:
    options = PlannerOptions(**FORCED)
    first = encode_plan(plan_query(binder.bind(sql), options))
    assert encode_plan(plan_query(binder.bind(sql), options)) == first
    assert encode_plan(decode_plan(first)) == first


@pytest.mark.parametrize("sql", operator_cases()[1])
def test_plan_breaks_a_rule_of_its_form(sql: str, binder: Binder) -> None:
    plan = plan_query(binder.bind(sql), PlannerOptions(**FORCED))
    assert plan.stages[-1].outputs == ()
    for stage in plan.stages[:-1]:
        assert stage.outputs, f"stage {stage.stage} feeds nothing"
    for edge in plan.edges:
        consumer = plan.stages[edge.consumer]
        assert edge.producer < edge.consumer
        assert edge.columns == plan.stages[edge.producer].columns
        if edge.mode is ShuffleMode.HASH:
            assert edge.keys
            assert edge.partitions == consumer.tasks
        if edge.mode is ShuffleMode.GATHER:
            assert consumer.tasks == 1
    for stage in plan.stages:
        for scan in stage.scans:
            assert len(scan.splits) == (1 if scan.whole else stage.tasks)
    if plan.stages[-1].ordered:
        assert plan.stages[-1].tasks == 1
