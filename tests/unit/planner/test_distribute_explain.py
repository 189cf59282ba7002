"""Explain text is for people and stable; explain JSON has what a reader would compute."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from crossdock.planner.binder import Binder
from crossdock.planner.explain import explain_json, explain_text
from crossdock.planner.fragment_text import on_lines
from crossdock.planner.options import PlannerOptions
from crossdock.planner.plan import StagePlan
from crossdock.planner.planning import plan_query
from tests.planner_data import catalog_of

TEXT = """\
3 stages, 5 tasks, 2 shuffles, reads 39 B
stage 0: scan t [2 tasks] ~3 rows, 39 B -> stage 1
  scan_0: t (k) from 1 file, 2 slices
    SELECT t1."k" AS c0
    FROM "scan_0" AS t1
stage 1: aggregate [2 tasks] ~3 rows, 63 B -> stage 2
  edge_0: hash from stage 0 by c0 into 2 partitions ~3 rows, 39 B
    SELECT t2.c0 AS c0, count(*) AS c1
    FROM (
      SELECT t1.c0 AS c0
      FROM "edge_0" AS t1
    ) AS t2
    GROUP BY t2.c0
stage 2: order [1 task] ~3 rows, 63 B -> result
  edge_1: gather from stage 1 ~3 rows, 63 B
"""


@pytest.fixture
def plan(tmp_path: Path) -> StagePlan:
    duckdb.execute(f"COPY (SELECT * FROM range(3) r(k)) TO '{tmp_path}/t.parquet'")
    bound = Binder(catalog_of(tmp_path)).bind("SELECT k, count(*) FROM t GROUP BY k ORDER BY k")
    return plan_query(bound, PlannerOptions(workers=2))


def test_text_of_a_plan_changes(plan: StagePlan) -> None:
    assert explain_text(plan).startswith(TEXT)


def test_fragments_are_shown_unasked(plan: StagePlan) -> None:
    assert "SELECT" not in explain_text(plan, fragments=False)


def test_json_lacks_depth_or_is_not_json(plan: StagePlan) -> None:
    built = json.loads(json.dumps(explain_json(plan)))
    assert [stage["depth"] for stage in built["stages"]] == [0, 1, 2]
    assert built["stages"][2]["upstream"] == [1]


def test_literal_or_name_is_broken_into_lines() -> None:
    sql = """SELECT ' FROM ( ' AS c0, "WHERE (" FROM (SELECT 1 AS c0 WHERE a IN (1, 2)) AS t1"""
    lines = on_lines(sql)
    assert "' FROM ( '" in lines
    assert '"WHERE ("' in lines
    assert "a IN (1, 2)" in lines
    assert lines.split() == sql.replace("(SELECT", "( SELECT").replace("))", ") )").split()
