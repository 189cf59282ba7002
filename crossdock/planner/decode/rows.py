"""Which output columns of a relation carry a value.

A scan that only counts rows reads a placeholder instead of a column: the engine uses its row
number, which this project's tables do not have. The placeholder may travel through filters and
joins, but an expression that reads it would be a query about row numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from crossdock.planner.decode.scope import Scope, columns_without
from crossdock.planner.nodes import (
    AsofJoin,
    CrossProduct,
    Distinct,
    Filter,
    Join,
    Limit,
    Order,
    PositionalJoin,
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
