"""Operators that work row by row stay where their rows are."""

from __future__ import annotations

from dataclasses import replace

from crossdock.planner import cost
from crossdock.planner.distribute.context import Context
from crossdock.planner.distribute.drafts import Placed
from crossdock.planner.distribute.exchange import scattered
from crossdock.planner.distribute.expressions import is_volatile, output_columns, substitute
from crossdock.planner.distribute.partitioning import ONE
from crossdock.planner.nodes import (
    ColumnRef,
    Expression,
    ExpressionRows,
    Filter,
    OneRow,
    Project,
    Relation,
    Scan,
    TableFunction,
    Unnest,
    Values,
)

#: Rows assumed of a table function; its arguments are not evaluated at planning.
_FUNCTION_ROWS = 1000.0


def place_filter(context: Context, node: Filter) -> Placed:
    child = _settled(context, context.place(node.child), node.predicates)
    predicates = tuple(p for p in node.predicates if not _holds(child.relation, p))
    if not predicates and isinstance(child.relation, Scan):
        scan = child.relation
        relation: Relation = replace(scan, emit=tuple(scan.emit[i] for i in node.emit))
    else:
        relation = replace(node, child=child.relation, predicates=predicates or node.predicates)
    return replace(
        child,
        relation=relation,
        where=child.where.emitted(node.emit),
        size=cost.filtered(child.size, predicates).emitted(node.emit),
    )


def _holds(relation: Relation, predicate: Expression) -> bool:
    """True if a scan tests the predicate itself: the optimizer repeats those of several columns."""
    if not isinstance(relation, Scan):
        return False
    columns = tuple(ColumnRef(i, relation.column_types[i]) for i in relation.emit)
    return substitute(predicate, columns) in relation.filters


def place_project(context: Context, node: Project) -> Placed:
    child = _settled(context, context.place(node.child), node.expressions)
    if node.expressions == output_columns(child.relation.types):
        return child  # only the user's names would change, and fragments have none
    return replace(
        child,
        relation=replace(node, child=child.relation),
        where=child.where.projected(node.expressions),
        size=cost.projected(child.size, node.expressions),
    )


def _settled(context: Context, child: Placed, parts: object) -> Placed:
    """Pending rows get their exchange now if evaluating twice could give two answers."""
    return scattered(context, child) if child.is_pending and is_volatile(parts) else child


def place_unnest(context: Context, node: Unnest) -> Placed:
    child = context.place(node.child)
    if child.is_pending:
        child = scattered(context, child)
    columns = child.size.columns + tuple(cost.column_of(t) for t in node.list_types)
    return replace(
        child,
        relation=replace(node, child=child.relation),
        size=cost.Estimate(child.size.rows * 3.0, columns),
    )


def place_expression_rows(context: Context, node: ExpressionRows) -> Placed:
    child = context.place(node.child)
    if child.is_pending:
        child = scattered(context, child)
    columns = tuple(cost.column_of(t) for t in node.types)
    return replace(
        child,
        relation=replace(node, child=child.relation),
        where=replace(child.where, positions=()),
        size=cost.Estimate(child.size.rows * len(node.rows), columns),
    )


def place_constant(context: Context, node: Values | OneRow | TableFunction) -> Placed:
    """Rows that come from no table: one task makes them (or each, where they are broadcast)."""
    match node:
        case Values():
            rows = float(len(node.rows))
        case OneRow():
            rows = 1.0
        case TableFunction():
            rows = _FUNCTION_ROWS
    columns = tuple(cost.column_of(t) for t in node.types)
    return Placed(node, ONE, cost.Estimate(rows, columns))
