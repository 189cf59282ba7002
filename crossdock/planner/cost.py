"""Estimated rows and bytes, from footers and simple selectivities.

Estimates choose between right plans (broadcast or shuffle, how many partitions); no result
depends on them. Where nothing is known they lean to too many rows, because a side wrongly thought
small is sent to every task.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from crossdock.planner.literals import as_number, literal_value
from crossdock.planner.nodes import (
    AggregateCall,
    Between,
    ColumnRef,
    Comparison,
    Conjunction,
    Constant,
    Expression,
    JoinCondition,
    JoinKind,
    Operator,
)

_UNKNOWN_SELECTIVITY = 0.25
_EQUAL_SELECTIVITY = 0.1
_RANGE_SELECTIVITY = 0.35
_STATE_WIDTH = 24.0
_WIDTHS = {
    "BOOLEAN": 1.0,
    "TINYINT": 1.0,
    "SMALLINT": 2.0,
    "INTEGER": 4.0,
    "FLOAT": 4.0,
    "DATE": 4.0,
    "HUGEINT": 16.0,
    "UUID": 16.0,
    "INTERVAL": 16.0,
    "VARCHAR": 16.0,
    "BLOB": 32.0,
}


@dataclass(frozen=True, slots=True)
class ColumnEstimate:
    """One column: bytes a row, distinct values and number range where footers tell them."""

    width: float
    distinct: float | None = None
    low: float | None = None
    high: float | None = None
    may_be_null: bool = True


@dataclass(frozen=True, slots=True)
class Estimate:
    """A relation's size."""

    rows: float
    columns: tuple[ColumnEstimate, ...]

    @property
    def width(self) -> float:
        """Bytes a row."""
        return sum(column.width for column in self.columns)

    @property
    def bytes(self) -> float:
        return self.rows * self.width

    def emitted(self, emit: Sequence[int]) -> Estimate:
        return Estimate(self.rows, tuple(self.columns[i] for i in emit))

    def scaled(self, rows: float) -> Estimate:
        """The same columns over fewer (or more) rows."""
        columns = tuple(
            replace(c, distinct=min(c.distinct, max(rows, 1.0))) if c.distinct else c
            for c in self.columns
        )
        return Estimate(rows, columns)


def type_width(type_text: str) -> float:
    """Typical bytes of one value, when no footer says better."""
    if type_text in _WIDTHS:
        return _WIDTHS[type_text]
    if type_text.endswith("]") or re.match(r"STRUCT|MAP|UNION", type_text):
        return 48.0
    return 8.0


def column_of(type_text: str) -> ColumnEstimate:
    """A column nothing is known of but its type."""
    return ColumnEstimate(type_width(type_text), 2.0 if type_text == "BOOLEAN" else None)


def state_column() -> ColumnEstimate:
    return ColumnEstimate(_STATE_WIDTH)


def projected(child: Estimate, expressions: Sequence[Expression]) -> Estimate:
    return Estimate(child.rows, tuple(_computed(child, e) for e in expressions))


def _computed(child: Estimate, expression: Expression) -> ColumnEstimate:
    if isinstance(expression, ColumnRef):
        return child.columns[expression.index]
    if isinstance(expression, Constant):
        return ColumnEstimate(type_width(expression.type), 1.0)
    return column_of(expression.type)


def filtered(child: Estimate, predicates: Sequence[Expression]) -> Estimate:
    return child.scaled(child.rows * _all_of(predicates, child.columns))


def _all_of(predicates: Sequence[Expression], columns: Sequence[ColumnEstimate]) -> float:
    """Share that passes all: independent, but for the two ends of one column's range."""
    below: dict[int, float] = {}
    above: dict[int, float] = {}
    share = 1.0
    for predicate in predicates:
        part = selectivity(predicate, columns)
        match predicate:
            case Comparison("<" | "<=", ColumnRef(index), Constant()):
                below[index] = min(below.get(index, 1.0), part)
            case Comparison(">" | ">=", ColumnRef(index), Constant()):
                above[index] = min(above.get(index, 1.0), part)
            case _:
                share *= part
    for index in below.keys() | above.keys():
        share *= _between(below.get(index, 1.0), above.get(index, 1.0))
    return share


def _between(below: float, above: float) -> float:
    """What two ends leave of a range; ends that do not overlap were guesses."""
    overlap = below + above - 1.0
    return max(overlap, 0.001) if overlap > 0 else below * above


def selectivity(predicate: Expression, columns: Sequence[ColumnEstimate]) -> float:
    """Share of rows that ``predicate`` keeps, 0 to 1."""
    match predicate:
        case Conjunction("AND", children):
            return _all_of(children, columns)
        case Conjunction(_, children):
            return min(1.0, sum(selectivity(c, columns) for c in children))
        case Comparison(operator, ColumnRef(index), Constant() as constant):
            return _compared(operator, columns[index], constant)
        case Comparison("<" | "<=" | ">" | ">=", ColumnRef(), ColumnRef()):
            return 0.5
        case Between(ColumnRef(index), Constant() as lower, Constant() as upper):
            above = _compared(">=", columns[index], lower)
            return _between(_compared("<=", columns[index], upper), above)
        case Operator("IN", (ColumnRef(index), *values)):
            return min(0.75, len(values) * _equal(columns[index]))
        case Operator("IS NULL"):
            return 0.05
        case Operator("IS NOT NULL"):
            return 1.0
        case Operator("NOT", (child,)):
            return 1.0 - selectivity(child, columns)
        case _:
            return _UNKNOWN_SELECTIVITY


def _equal(column: ColumnEstimate) -> float:
    return 1.0 / max(column.distinct, 1.0) if column.distinct else _EQUAL_SELECTIVITY


def _compared(operator: str, column: ColumnEstimate, constant: Constant) -> float:
    if operator in ("=", "IS NOT DISTINCT FROM"):
        return _equal(column)
    if operator in ("<>", "IS DISTINCT FROM"):
        return 1.0 - _equal(column)
    value = as_number(literal_value(constant))
    if value is None or column.low is None or column.high is None or column.high <= column.low:
        return _RANGE_SELECTIVITY
    below = min(max((value - column.low) / (column.high - column.low), 0.0), 1.0)
    return max(below if operator in ("<", "<=") else 1.0 - below, 0.001)


def crossed(left: Estimate, right: Estimate) -> Estimate:
    return Estimate(left.rows * right.rows, left.columns + right.columns)


def joined(
    kind: JoinKind, left: Estimate, right: Estimate, equal: Sequence[JoinCondition]
) -> Estimate:
    """Left columns, then right columns (before any is dropped), of the rows a join gives."""
    matches = _matches(left, right, equal)
    rows = {
        JoinKind.INNER: matches,
        JoinKind.LEFT: max(matches, left.rows),
        JoinKind.RIGHT: max(matches, right.rows),
        JoinKind.FULL: max(matches, left.rows + right.rows),
        JoinKind.SEMI: min(matches, left.rows),
        JoinKind.RIGHT_SEMI: min(matches, right.rows),
        JoinKind.ANTI: left.rows,
        JoinKind.RIGHT_ANTI: right.rows,
        JoinKind.SINGLE: left.rows,
        JoinKind.MARK: left.rows,
    }[kind]
    columns = Estimate(rows, left.columns + right.columns)
    return columns.scaled(rows)


def _matches(left: Estimate, right: Estimate, equal: Sequence[JoinCondition]) -> float:
    if not equal:
        return left.rows * right.rows
    most = [_key_values(left, right, c) for c in equal]
    known = [values for values in most if values is not None]
    larger = max(left.rows, right.rows)
    if not known:
        return larger
    return min(left.rows * right.rows / max(*known, 1.0), max(larger * 4.0, 1.0))


def _key_values(left: Estimate, right: Estimate, condition: JoinCondition) -> float | None:
    if not isinstance(condition.left, ColumnRef) or not isinstance(condition.right, ColumnRef):
        return None
    here = left.columns[condition.left.index].distinct
    there = right.columns[condition.right.index].distinct
    known = [value for value in (here, there) if value is not None]
    return max(known) if known else None


def group_count(child: Estimate, groups: Sequence[Expression]) -> float | None:
    """Distinct combinations of ``groups``; None when a footer does not bound one of them."""
    counts = [_computed(child, g).distinct for g in groups]
    if any(count is None for count in counts):
        return None
    return min(child.rows, math.prod(count for count in counts if count is not None))


def grouped(
    child: Estimate, groups: Sequence[Expression], aggregates: Sequence[AggregateCall]
) -> Estimate:
    if not groups:
        return Estimate(1.0, tuple(column_of(a.type) for a in aggregates))
    count = group_count(child, groups)
    rows = child.rows * 0.5 if count is None else count
    keys = tuple(_computed(child, g) for g in groups)
    return Estimate(rows, keys + tuple(column_of(a.type) for a in aggregates)).scaled(rows)
