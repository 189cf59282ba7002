"""What is claimed of where rows are must survive each operator, or be dropped."""

from __future__ import annotations

import duckdb

from crossdock.planner.distribute.exchange import partition_count
from crossdock.planner.distribute.expressions import (
    columns_of,
    is_volatile,
    renumber,
    substitute,
)
from crossdock.planner.distribute.partitioning import ONE, SPLIT, Spread, hashed, merged_key
from crossdock.planner.nodes import Call, Cast, ColumnRef, Constant, Operator
from crossdock.planner.options import PlannerOptions
from crossdock.planner.volatility import VOLATILE_FUNCTIONS
from crossdock.settings import MOST_PARTITIONS

A, B, C = (ColumnRef(i, "INTEGER") for i in range(3))
WIDE = Cast(A, "BIGINT")


def test_dropped_key_column_still_counts_as_known() -> None:
    where = hashed((A, B)).emitted((0, 2))
    assert where.spread is Spread.HASHED
    assert [len(position) for position in where.positions] == [1, 0]
    assert not where.within((ColumnRef(0, "INTEGER"),))


def test_key_is_lost_when_its_column_moves() -> None:
    where = hashed((B,)).emitted((2, 1))
    assert where.within((ColumnRef(1, "INTEGER"),))


def test_computed_key_is_lost_when_projected_under_a_new_column() -> None:
    where = hashed((WIDE,)).projected((B, WIDE))
    assert where.within((ColumnRef(1, "BIGINT"),))


def test_cast_key_passes_for_the_column_it_is_made_of() -> None:
    assert not hashed((WIDE,)).within((A,))
    assert not hashed((A,)).within((WIDE,))


def test_subset_of_the_hash_keys_passes_as_group_key() -> None:
    where = hashed((A, B))
    assert where.within((A, B, C))
    assert not where.within((A, C))


def test_equality_of_two_types_makes_keys_interchangeable() -> None:
    where = hashed((A,)).with_equal([(A, Cast(B, "BIGINT"))])
    assert not where.within((Cast(B, "BIGINT"),))
    assert hashed((A,)).with_equal([(A, B)]).within((B,))


def test_split_rows_pass_as_partitioned() -> None:
    assert not SPLIT.within((A,))
    assert ONE.within((A,))


def test_merged_key_of_three_tables_stays_nested() -> None:
    first = merged_key(A, B)[0]
    merged = merged_key(first, C)[0]
    assert merged == Operator("COALESCE", (A, B, C), "INTEGER")


def test_expression_reads_columns_that_are_not_found() -> None:
    both = Call("+", (A, C), "INTEGER")
    assert columns_of(both) == {0, 2}
    assert renumber(both, {0: 5}) is None
    assert renumber(both, {0: 5, 2: 1}) == Call(
        "+", (ColumnRef(5, "INTEGER"), ColumnRef(1, "INTEGER")), "INTEGER"
    )
    assert substitute(both, (B, B, Constant("1", "INTEGER"))) == Call(
        "+", (B, Constant("1", "INTEGER")), "INTEGER"
    )


def test_volatile_function_of_the_engine_is_not_known() -> None:
    rows = duckdb.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE'"
    ).fetchall()
    assert {name for (name,) in rows} == VOLATILE_FUNCTIONS
    assert is_volatile(Cast(Call("random", (), "DOUBLE"), "INTEGER"))


def test_partitions_have_a_limit_however_large_the_estimate() -> None:
    assert partition_count(PlannerOptions(workers=2), 1e18) == MOST_PARTITIONS
