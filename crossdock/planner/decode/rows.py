"""What is known of a relation's output columns: which carry a value, which a constant.

A scan that only counts rows reads a placeholder instead of a column: the engine uses its row
number, which this project's tables do not have. The placeholder may travel through filters and
joins, but an expression that reads it would be a query about row numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from crossdock.planner.decode.scope import Scope, columns_without
from crossdock.planner.nodes import (
    Aggregate,
    AsofJoin,
    ColumnRef,
    Constant,
    CrossProduct,
    Distinct,
    Expression,
    Filter,
    Join,
    Limit,
    Order,
    PositionalJoin,
    Project,
    Relation,
    Sample,
    Scan,
    TopN,
    Unnest,
    Window,
)


def readable(child: Relation) -> Scope:
    """The child's columns, refusing row placeholders."""
    return columns_without(placeholders(child), len(child.types))


def placeholders(relation: Relation) -> frozenset[int]:
    """Output positions of row placeholders."""
    if isinstance(relation, Scan):
        return _picked({i for i, name in enumerate(relation.columns) if name == ""}, relation.emit)
    if isinstance(relation, Filter | Order | TopN):
        return _picked(placeholders(relation.child), relation.emit)
    if isinstance(relation, Join | AsofJoin):
        left = _picked(placeholders(relation.left), relation.left_emit)
        right = _picked(placeholders(relation.right), relation.right_emit)
        return left | {i + len(relation.left_emit) for i in right}
    if isinstance(relation, CrossProduct | PositionalJoin):
        shift = len(relation.left.types)
        return placeholders(relation.left) | {i + shift for i in placeholders(relation.right)}
    if isinstance(relation, Window | Unnest | Limit | Distinct | Sample):
        return placeholders(relation.child)
    return frozenset()


def _picked(positions: Iterable[int], emit: tuple[int, ...]) -> frozenset[int]:
    wanted = frozenset(positions)
    return (
        frozenset(i for i, position in enumerate(emit) if position in wanted) if wanted else wanted
    )


def constant_column(relation: Relation, index: int) -> Constant | None:
    """The constant that output column ``index`` holds in every row, if its definition is one."""
    if isinstance(relation, Filter):
        return constant_column(relation.child, relation.emit[index])
    if isinstance(relation, Project):
        return _constant(relation.expressions[index], relation.child)
    if isinstance(relation, Aggregate) and index < len(relation.groups) and not relation.sets:
        return _constant(relation.groups[index], relation.child)
    return None


def _constant(expression: Expression, child: Relation) -> Constant | None:
    if isinstance(expression, ColumnRef):
        return constant_column(child, expression.index)
    return expression if isinstance(expression, Constant) else None
