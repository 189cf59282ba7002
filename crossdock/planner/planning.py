"""From a bound statement to a stage plan.

``plan_query`` decodes DuckDB's plan, places exchanges on it, cuts stages and prints their SQL. What
it cannot distribute becomes a one-task plan on the statement's own text: nothing is refused for
being hard to distribute.
"""

from __future__ import annotations

import duckdb

from crossdock.errors import Unsupported
from crossdock.planner.binder import BoundStatement
from crossdock.planner.decode import decode_plan_json
from crossdock.planner.distribute import distribute
from crossdock.planner.nodes import Relation
from crossdock.planner.one_task import one_task_plan, scanned_bytes, whole_bytes
from crossdock.planner.options import PlannerOptions
from crossdock.planner.plan import StagePlan
from crossdock.planner.recursion import deep_recursion
from crossdock.planner.splits import ScanWorks
from crossdock.planner.stages import assemble


def plan_query(bound: BoundStatement, options: PlannerOptions) -> StagePlan:
    """The stages that answer ``bound``; the same plan for the same input, byte for byte."""
    with deep_recursion():
        return _planned(bound, options)


def _planned(bound: BoundStatement, options: PlannerOptions) -> StagePlan:
    try:
        relation = _decoded(bound)
    except Unsupported as refusal:
        return one_task_plan(bound, whole_bytes(bound), f"whole statement in one task: {refusal}")
    works = ScanWorks()
    size = scanned_bytes(relation, bound.tables, works)
    if not bound.tables:
        return one_task_plan(bound, size)
    if not options.forced and size <= options.single_task_limit:
        return one_task_plan(bound, size)
    try:
        return _distributed(bound, relation, size, options, works)
    except Unsupported as refusal:
        return one_task_plan(bound, size, f"whole statement in one task: {refusal}")
    except RecursionError:
        reason = "whole statement in one task: the plan is nested too deeply"
        return one_task_plan(bound, size, reason)


def _decoded(bound: BoundStatement) -> Relation:
    if bound.plan is None:
        raise Unsupported(bound.reason)
    relation = decode_plan_json(dict(bound.plan))
    if len(relation.types) != len(bound.columns):
        raise Unsupported("the plan's columns are not the statement's")
    return relation


def _distributed(
    bound: BoundStatement,
    relation: Relation,
    size: int,
    options: PlannerOptions,
    works: ScanWorks,
) -> StagePlan:
    final, sheet = distribute(relation, bound.tables, options, works)
    stages, edges = assemble(final, sheet, bound.tables, options)
    notes = dict.fromkeys(reason for stage in stages for reason in stage.reasons)
    return StagePlan(
        engine=duckdb.__version__,
        sql=bound.original,
        columns=bound.columns,
        stages=stages,
        edges=edges,
        session=bound.session,
        scanned_bytes=size,
        notes=tuple(f"one task for {reason}" for reason in notes),
    )
