"""Estimates choose plans: they must at least order small before large."""

from __future__ import annotations

import pytest

from crossdock.planner.cost import ColumnEstimate, Estimate, filtered, grouped, joined, selectivity
from crossdock.planner.nodes import (
    AggregateCall,
    ColumnRef,
    Comparison,
    Constant,
    Expression,
    JoinCondition,
    JoinKind,
    Operator,
)

KEY = ColumnEstimate(4.0, 100.0, 0.0, 100.0)
K = ColumnRef(0, "INTEGER")


def number(value: int) -> Constant:
    return Constant(str(value), "INTEGER")


def sized(rows: float, distinct: float = 100.0) -> Estimate:
    return Estimate(rows, (ColumnEstimate(4.0, min(distinct, rows), 0.0, 100.0),))


@pytest.mark.parametrize(
    ("predicate", "share"),
    [
        (Comparison("=", K, number(5)), 0.01),
        (Comparison("<", K, number(25)), 0.25),
        (Comparison(">=", K, number(25)), 0.75),
        (Operator("IN", (K, number(1), number(2)), "BOOLEAN"), 0.02),
        (Operator("NOT", (Comparison("=", K, number(5)),), "BOOLEAN"), 0.99),
    ],
)
def test_share_of_rows_is_misjudged(predicate: Expression, share: float) -> None:
    assert selectivity(predicate, (KEY,)) == pytest.approx(share)


def test_two_ends_of_a_range_are_taken_as_independent() -> None:
    both = (Comparison(">=", K, number(40)), Comparison("<", K, number(50)))
    assert filtered(Estimate(1000.0, (KEY,)), both).rows == pytest.approx(100.0)


def test_filtered_dimension_does_not_thin_its_fact_table() -> None:
    condition = JoinCondition(K, "=", K)
    dimension = sized(1.0)
    assert joined(JoinKind.INNER, sized(1000.0), dimension, [condition]).rows == 10.0
    assert joined(JoinKind.LEFT, sized(1000.0), dimension, [condition]).rows == 1000.0


def test_groups_outnumber_rows_or_values() -> None:
    count = (AggregateCall("count_star", (), "BIGINT"),)
    assert grouped(sized(1000.0), (K,), count).rows == 100.0
    assert grouped(sized(10.0), (K,), count).rows == 10.0
    assert grouped(sized(10.0), (), count).rows == 1.0
