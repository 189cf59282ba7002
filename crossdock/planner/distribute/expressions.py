"""Expressions as values: what they read, whether they repeat, and how they move between relations.

Distribution never invents expressions; it re-states bound ones over other columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

from crossdock.planner.nodes import Call, ColumnRef, Expression
from crossdock.planner.volatility import VOLATILE_FUNCTIONS


@cache
def _members(kind: Any) -> tuple[str, ...] | None:
    """Field names of a node's class; None for what is no node."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else None


def walk(part: object) -> Iterator[Any]:
    """``part`` and every frozen node below it: expressions, sort keys, frames."""
    waiting = [part]
    while waiting:
        item: Any = waiting.pop()
        kind: Any = type(item)
        if isinstance(item, tuple):
            waiting += reversed(item)
        elif (names := _members(kind)) is not None:
            yield item
            waiting += [getattr(item, name) for name in reversed(names)]


def columns_of(expression: Expression) -> frozenset[int]:
    """Indexes of the columns ``expression`` reads."""
    return frozenset(node.index for node in walk(expression) if isinstance(node, ColumnRef))


def is_volatile(part: object) -> bool:
    """True if two evaluations over the same row may differ. Takes expressions or relations."""
    return any(isinstance(n, Call) and n.name.lower() in VOLATILE_FUNCTIONS for n in walk(part))


def _rewritten(part: Any, change: Callable[[ColumnRef], Expression]) -> Any:
    if isinstance(part, ColumnRef):
        return change(part)
    if isinstance(part, tuple):
        return tuple(_rewritten(item, change) for item in part)
    kind: Any = type(part)
    names = _members(kind)
    if names is None:
        return part
    changed = {
        name: new
        for name in names
        if (new := _rewritten(old := getattr(part, name), change)) is not old
    }
    return replace(part, **changed) if changed else part


def substitute(expression: Expression, values: tuple[Expression, ...]) -> Expression:
    """``expression`` with column i replaced by ``values[i]``: seen from below a projection."""
    rewritten: Expression = _rewritten(expression, lambda ref: values[ref.index])
    return rewritten


def renumber(expression: Expression, positions: Mapping[int, int]) -> Expression | None:
    """``expression`` with column i read at ``positions[i]``; None if a column is not there."""
    if not columns_of(expression) <= positions.keys():
        return None
    rewritten: Expression = _rewritten(
        expression, lambda ref: ColumnRef(positions[ref.index], ref.type)
    )
    return rewritten


def shift(expression: Expression, by: int) -> Expression:
    """``expression`` with every column index raised by ``by``: a right child's, seen in a join."""
    rewritten: Expression = _rewritten(expression, lambda ref: ColumnRef(ref.index + by, ref.type))
    return rewritten


def output_columns(types: tuple[str, ...]) -> tuple[ColumnRef, ...]:
    """References to all columns of a relation of these types."""
    return tuple(ColumnRef(i, t) for i, t in enumerate(types))
