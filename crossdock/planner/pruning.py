"""Which row groups may hold rows that pass a scan's filters, by their statistics.

Conservative: a group is dropped only when every row of it surely fails. No statistics, a type whose
order differs from Python's, or a predicate of another form keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

#: True only if no row of a group of these statistics and so many rows satisfies a predicate.
Fails = Callable[[Mapping[str, "ColumnStats"], int], bool]


class RowGroupFilter:
    """A scan's filters, made ready once and asked of one row group after another."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._tests = [
            test for p in (*scan.filters, *scan.hints) if (test := self._test(p)) is not None
        ]

    def may_match(self, group: RowGroupMeta) -> bool:
        rows, stats = group.rows, group.stats
        if rows == 0:
            return False
        for test in self._tests:  # noqa: SIM110  # a generator a row group costs as much again
            if test(stats, rows):
                return False
        return True

    def _test(self, predicate: Expression) -> Fails | None:
        """None for a predicate that no statistics can prove to fail."""
        match predicate:
            case Conjunction("AND", children):
                return _any([test for c in children if (test := self._test(c)) is not None])
            case Conjunction("OR", children):
                return _all([self._test(c) for c in children])
            case Comparison(operator, ColumnRef() as column, Constant() as constant):
                return self._comparison(operator, column, constant)
            case Comparison(operator, Constant() as constant, ColumnRef() as column):
                return self._comparison(_FLIPPED.get(operator, ""), column, constant)
            case Between(ColumnRef() as column, Constant() as lower, Constant() as upper):
                below = ">=" if predicate.lower_inclusive else ">"
                above = "<=" if predicate.upper_inclusive else "<"
                bounds = (
                    self._comparison(below, column, lower),
                    self._comparison(above, column, upper),
                )
                return _any([test for test in bounds if test is not None])
            case Operator("IN", (ColumnRef() as column, *values)):
                return _all(
                    [
                        self._comparison("=", column, v) if isinstance(v, Constant) else None
                        for v in values
                    ]
                )
            case Operator("IS NULL", (ColumnRef() as column,)):
                return _nulls(self._name(column), none=True)
            case Operator("IS NOT NULL", (ColumnRef() as column,)):
                return _nulls(self._name(column), none=False)
            case _:
                return None

    def _name(self, column: ColumnRef) -> str:
        return self._scan.columns[column.index]

    def _comparison(self, operator: str, column: ColumnRef, constant: Constant) -> Fails | None:
        declared = self._scan.column_types[column.index]
        value = literal_value(constant)
        if value is None or declared != constant.type or not is_exact_type(declared):
            return None
        if isinstance(value, bool) or operator not in _FLIPPED:
            return None
        return _compared(self._name(column), operator, value)


def _any(tests: list[Fails]) -> Fails | None:
    if len(tests) < 2:
        return tests[0] if tests else None
    return lambda stats, rows: any(test(stats, rows) for test in tests)


def _all(tests: list[Fails | None]) -> Fails | None:
    """None if one of them never fails."""
    known = [test for test in tests if test is not None]
    if len(known) < len(tests):
        return None
    return lambda stats, rows: all(test(stats, rows) for test in known)


def _nulls(name: str, *, none: bool) -> Fails:
    def fails(stats: Mapping[str, ColumnStats], rows: int) -> bool:
        found = stats.get(name)
        return found is not None and found.nulls == (0 if none else rows)

    return fails


def _compared(name: str, operator: str, value: Comparable) -> Fails:
    """Only values of one Python type compare: then the engine's order is the same."""
    kind: Any = type(value)
    other: Any = value
    looks_down, looks_up = operator in ("=", "<", "<="), operator in ("=", ">", ">=")
    strict = operator in ("<", ">")

    def fails(stats: Mapping[str, ColumnStats], rows: int) -> bool:
        found = stats.get(name)
        if found is None:
            return False
        if found.nulls == rows and found.minimum is None and found.maximum is None:
            return True  # NULL compares to nothing
        if looks_down:
            least: Any = found.minimum
            if type(least) is kind and (least > other or (strict and least == other)):
                return True
        if looks_up:
            most: Any = found.maximum
            if type(most) is kind and (most < other or (strict and most == other)):
                return not _may_be_cut(most)
        return False

    return fails


def _may_be_cut(statistic: object) -> bool:
    return isinstance(statistic, str) and len(statistic.encode()) > _LONGEST_EXACT_STRING
