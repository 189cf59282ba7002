"""Joins to SQL text, each kind with its exact NULL rules."""

from __future__ import annotations

from collections.abc import Sequence

from crossdock.errors import Unsupported
from crossdock.planner.nodes import (
    AsofJoin,
    CrossProduct,
    Join,
    JoinCondition,
    JoinKind,
    PositionalJoin,
)
from crossdock.planner.render.expressions import render_expression, render_list
from crossdock.planner.render.names import Names, Source, either_side, select

_FLIPPED = {JoinKind.RIGHT_SEMI: "SEMI", JoinKind.RIGHT_ANTI: "ANTI"}


def join(relation: Join, left: Source, right: Source, names: Names) -> str:
    """Any join but ASOF."""
    if relation.kind is JoinKind.SINGLE:
        return _single(relation, left, right, names)
    if relation.kind is JoinKind.MARK:
        return _mark(relation, left, right)
    on = _on(relation, left, right)
    if relation.kind in _FLIPPED:
        source = f"{right.text} {_FLIPPED[relation.kind]} JOIN {left.text} ON {on}"
        return select(right.columns(relation.right_emit), source)
    source = f"{left.text} {relation.kind.value} JOIN {right.text} ON {on}"
    columns = left.columns(relation.left_emit)
    if relation.kind not in {JoinKind.SEMI, JoinKind.ANTI}:
        columns += right.columns(relation.right_emit)
    return select(columns, source)


def asof_join(relation: AsofJoin, left: Source, right: Source) -> str:
    """The nearest right row by the one inequality, among those equal by the others."""
    on = " AND ".join(_conditions(relation.conditions, left, right))
    source = f"{left.text} ASOF {relation.kind.value} JOIN {right.text} ON {on}"
    columns = left.columns(relation.left_emit) + right.columns(relation.right_emit)
    return select(columns, source)


def pair(relation: CrossProduct | PositionalJoin, word: str, left: Source, right: Source) -> str:
    """A join without a condition."""
    columns = left.columns(range(len(relation.left.types)))
    columns += right.columns(range(len(relation.right.types)))
    return select(columns, f"{left.text} {word} JOIN {right.text}")


def _on(relation: Join, left: Source, right: Source) -> str:
    refs = either_side(left, len(relation.left.types), right)
    parts = _conditions(relation.conditions, left, right)
    parts += [render_expression(predicate, refs) for predicate in relation.residual]
    return " AND ".join(parts) or "true"


def _conditions(conditions: Sequence[JoinCondition], left: Source, right: Source) -> list[str]:
    return [
        f"({render_expression(condition.left, left.column)} {condition.operator} "
        f"{render_expression(condition.right, right.column)})"
        for condition in conditions
    ]


def _single(relation: Join, left: Source, right: Source, names: Names) -> str:
    """A scalar subquery: NULLs without a row, the engine's error on more than one."""
    on = _on(relation, left, right)
    columns = left.columns(relation.left_emit)
    wanted = relation.right_emit
    if len(wanted) == 1:
        columns.append(f"(SELECT {right.column(wanted[0])} FROM {right.text} WHERE {on})")
        return select(columns, left.text)
    if not wanted:
        raise Unsupported("scalar subquery of which no column is read")
    # several columns: one row value, so that the subquery is computed once
    fields = ", ".join(f"c{i} := {right.column(position)}" for i, position in enumerate(wanted))
    columns.append(f"(SELECT struct_pack({fields}) FROM {right.text} WHERE {on})")
    alias = names.alias()
    row = f"{alias}.c{len(columns) - 1}"
    outputs = [f"{alias}.c{i}" for i in range(len(columns) - 1)]
    outputs += [f"struct_extract({row}, 'c{i}')" for i in range(len(wanted))]
    return select(outputs, f"({select(columns, left.text)}) AS {alias}")


def _mark(relation: Join, left: Source, right: Source) -> str:
    """IN or ANY as a value. IS [NOT] DISTINCT FROM correlates, other conditions are compared."""
    correlated = [c for c in relation.conditions if c.operator.endswith("DISTINCT FROM")]
    compared = [c for c in relation.conditions if c not in correlated]
    where = " AND ".join(_conditions(correlated, left, right))
    rows = f"FROM {right.text}" + (f" WHERE {where}" if where else "")
    if not compared:
        mark = f"EXISTS (SELECT 1 {rows})"
    elif len(compared) == 1:
        (condition,) = compared
        tested = render_expression(condition.left, left.column)
        values = render_expression(condition.right, right.column)
        mark = f"({tested} {condition.operator} ANY (SELECT {values} {rows}))"
    else:
        if any(condition.operator != "=" for condition in compared):
            raise Unsupported("mark join on several comparisons that are not all equalities")
        tested = render_list([condition.left for condition in compared], left.column)
        values = render_list([condition.right for condition in compared], right.column)
        mark = f"(({tested}) IN (SELECT {values} {rows}))"
    return select([*left.columns(relation.left_emit), mark], left.text)
