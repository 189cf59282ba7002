"""Which row groups may hold rows that pass a scan's filters, by their statistics.

Conservative: a group is dropped only when every row of it surely fails. No statistics, a type whose
order differs from Python's, or a predicate of another form keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crossdock.planner.literals import Comparable, is_exact_type, literal_value
from crossdock.planner.nodes import (
    Between,
    ColumnRef,
    Comparison,
    Conjunction,
    Constant,
    Expression,
    Operator,
    Scan,
)

if TYPE_CHECKING:
    from crossdock.catalog import ColumnStats, RowGroupMeta

#: A string statistic this long may be a cut prefix; a cut maximum is no upper bound.
_LONGEST_EXACT_STRING = 31
_FLIPPED = {"=": "=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


class RowGroupFilter:
    """A scan's filters, asked of one row group after another."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan

    def may_match(self, group: RowGroupMeta) -> bool:
        if group.rows == 0:
            return False
        return not any(self._fails(p, group) for p in self._scan.filters)

    def _fails(self, predicate: Expression, group: RowGroupMeta) -> bool:
        """True only if no row of ``group`` satisfies ``predicate``."""
        match predicate:
            case Conjunction("AND", children):
                return any(self._fails(c, group) for c in children)
            case Conjunction("OR", children):
                return all(self._fails(c, group) for c in children)
            case Comparison(operator, ColumnRef() as column, Constant() as constant):
                return self._comparison_fails(operator, column, constant, group)
            case Comparison(operator, Constant() as constant, ColumnRef() as column):
                flipped = _FLIPPED.get(operator, "")
                return self._comparison_fails(flipped, column, constant, group)
            case Between(ColumnRef() as column, Constant() as lower, Constant() as upper):
                below, above = (
                    (">=" if predicate.lower_inclusive else ">"),
                    ("<=" if predicate.upper_inclusive else "<"),
                )
                return self._comparison_fails(below, column, lower, group) or (
                    self._comparison_fails(above, column, upper, group)
                )
            case Operator("IN", (ColumnRef() as column, *values)):
                return all(
                    isinstance(v, Constant) and self._comparison_fails("=", column, v, group)
                    for v in values
                )
            case Operator("IS NULL", (ColumnRef() as column,)):
                stats = self._stats(column, group)
                return stats is not None and stats.nulls == 0
            case Operator("IS NOT NULL", (ColumnRef() as column,)):
                stats = self._stats(column, group)
                return stats is not None and stats.nulls == group.rows
            case _:
                return False

    def _stats(self, column: ColumnRef, group: RowGroupMeta) -> ColumnStats | None:
        stats: Mapping[str, ColumnStats] = group.stats
        return stats.get(self._scan.columns[column.index])

    def _comparison_fails(
        self, operator: str, column: ColumnRef, constant: Constant, group: RowGroupMeta
    ) -> bool:
        stats = self._stats(column, group)
        value = literal_value(constant)
        if stats is None or value is None or not self._comparable(column, constant):
            return False
        if operator in ("=", "<", "<="):
            least = _order(stats.minimum, value)
            if least is not None and (least >= 0 if operator == "<" else least > 0):
                return True
        if operator in ("=", ">", ">=") and not _may_be_cut(stats.maximum):
            most = _order(stats.maximum, value)
            return most is not None and (most <= 0 if operator == ">" else most < 0)
        return False

    def _comparable(self, column: ColumnRef, constant: Constant) -> bool:
        declared = self._scan.column_types[column.index]
        return declared == constant.type and is_exact_type(declared)


def _order(statistic: Any, value: Any) -> int | None:
    """-1, 0 or 1 as ``statistic`` is below, at or above ``value``; None if Python cannot tell.

    Only values of one Python type compare: then the engine's order is the same.
    """
    if type(statistic) is not type(value) or isinstance(statistic, bool):
        return None
    return int(statistic > value) - int(statistic < value)


def _may_be_cut(statistic: Comparable | None) -> bool:
    return isinstance(statistic, str) and len(statistic.encode()) > _LONGEST_EXACT_STRING
