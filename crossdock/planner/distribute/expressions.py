"""Expressions as values: what they read, whether they repeat, and how they move between relations.

Distribution never invents expressions; it re-states bound ones over other columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from crossdock.planner.nodes import Call, ColumnRef, Expression
from crossdock.planner.volatility import VOLATILE_FUNCTIONS


def walk(part: object) -> Iterator[Any]:
    """``part`` and every frozen node below it: expressions, sort keys, frames."""
    if isinstance(part, tuple):
        for item in part:
            yield from walk(item)
    elif is_dataclass(part):
        yield part
        for field in fields(part):
            yield from walk(getattr(part, field.name))


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
    if is_dataclass(part) and not isinstance(part, type):
        values = {f.name: getattr(part, f.name) for f in fields(part)}
        changed = {
            name: new
            for name, old in values.items()
            if isinstance(old, tuple) or is_dataclass(old)
            if (new := _rewritten(old, change)) is not old
        }
        return replace(part, **changed) if changed else part
    return part


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
