"""Nodes that no plan of the engine's holds, and texts that would be caught by names."""

from __future__ import annotations

import duckdb
import pytest

from crossdock.errors import Unsupported
from crossdock.planner.nodes import (
    Aggregate,
    AggregateCall,
    Call,
    ColumnRef,
    Comparison,
    Constant,
    Cte,
    CteRef,
    Distinct,
    ExpressionRows,
    Filter,
    FinalAggregate,
    Input,
    Join,
    JoinCondition,
    JoinKind,
    Limit,
    LimitBound,
    OneRow,
    Order,
    PartialAggregate,
    Project,
    Relation,
    Scan,
    SetOperation,
    SortKey,
    Values,
)
from crossdock.planner.render import render

G = ColumnRef(0, "INTEGER")
H = ColumnRef(1, "INTEGER")
V = ColumnRef(2, "DOUBLE")
ROWS = Input("arrived", ("INTEGER", "INTEGER", "DOUBLE"))

CALLS = (
    AggregateCall("count_star", (), "BIGINT"),
    AggregateCall("sum", (H,), "HUGEINT", filter=Comparison(">", V, Constant("1.5", "DOUBLE"))),
    AggregateCall("avg", (V,), "DOUBLE"),
    AggregateCall("quantile_cont", (V, Constant("CAST(0.3 AS DOUBLE)", "DOUBLE")), "DOUBLE"),
)


@pytest.fixture
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("""
        CREATE TABLE arrived AS SELECT (i % 3)::INTEGER AS c0,
            CASE WHEN i % 4 > 0 THEN (i % 4)::INTEGER END AS c1, (i / 2)::DOUBLE AS c2
        FROM range(40) r(i)
    """)
    return connection


def result(engine: duckdb.DuckDBPyConnection, relation: Relation) -> list[tuple[object, ...]]:
    return sorted(engine.execute(render(relation)).fetchall(), key=repr)


def number(value: int) -> Constant:
    return Constant(f"CAST({value} AS INTEGER)", "INTEGER")


ROLLUP = ((), (0,), (0, 1))


@pytest.mark.parametrize(
    ("groups", "sets", "groupings"),
    [
        ((), (), ()),
        ((G,), (), ()),
        ((G, H), (), ((1,),)),
        ((G, H), ROLLUP, ((0, 1), (1, 0), (1,))),
        ((Call("%", (G, number(2)), "INTEGER"), G, H), ((0, 1), (2,), ()), ((2, 0), (1,))),
    ],
)
def test_partial_then_final_aggregate_differs_from_the_whole(
    engine: duckdb.DuckDBPyConnection,
    groups: tuple[ColumnRef | Call, ...],
    sets: tuple[tuple[int, ...], ...],
    groupings: tuple[tuple[int, ...], ...],
) -> None:
    with_id = bool(sets or groupings)
    parts = []
    for part in (0, 1, 2):  # third of the rows each
        rows = Filter(ROWS, (Comparison("=", Call("%", (V, number(3)), "DOUBLE"), number(part)),),
                      (0, 1, 2))  # fmt: skip
        parts.append(PartialAggregate(rows, groups, CALLS, sets, with_grouping_id=with_id))
    rest = Filter(ROWS, (Comparison("<>", Call("%", (V, number(1)), "DOUBLE"), number(0)),),
                  (0, 1, 2))  # fmt: skip
    parts.append(PartialAggregate(rest, groups, CALLS, sets, with_grouping_id=with_id))
    engine.execute(f"CREATE TABLE states AS {' UNION ALL '.join(map(render, parts))}")
    final = FinalAggregate(
        Input("states", parts[0].types),
        len(groups),
        CALLS,
        tuple(group.type for group in groups),
        groupings,
        with_grouping_id=with_id,
    )
    whole = Aggregate(ROWS, groups, CALLS, sets, groupings)
    assert result(engine, final) == result(engine, whole)
    described = engine.execute(f"DESCRIBE {render(final)}").fetchall()
    assert tuple(row[1] for row in described) == final.types == whole.types


def test_filter_of_an_aggregate_is_lost_in_its_state() -> None:
    text = render(PartialAggregate(ROWS, (G,), CALLS[1:2]))
    assert "sum(t1.c1) FILTER (WHERE (t1.c2 > 1.5)) EXPORT_STATE" in text.replace("t2.", "t1.")


def test_scan_reads_a_user_s_name_unquoted() -> None:
    scan = Scan('odd "t"', ("select", ""), ("INTEGER", "BIGINT"), (), (1, 0), source="in 0")
    assert render(scan) == 'SELECT CAST(1 AS BIGINT) AS c0, t1."select" AS c1 FROM "in 0" AS t1'


def test_filter_of_a_scan_reads_the_emitted_columns() -> None:
    predicate = Comparison("=", ColumnRef(1, "INTEGER"), ColumnRef(0, "INTEGER"))
    scan = Scan("t", ("a", "b"), ("INTEGER", "INTEGER"), (predicate,), (1,))
    assert render(scan) == 'SELECT t1."b" AS c0 FROM "t" AS t1 WHERE (t1."b" = t1."a")'


@pytest.mark.parametrize("name", ["cte_0", "CTE_12", "limited_t3", "rows_t1"])
def test_table_named_like_a_subquery_is_hidden_by_it(name: str) -> None:
    with pytest.raises(Unsupported, match=name):
        render(Scan(name, ("a",), ("INTEGER",), (), (0,)))


def test_same_relation_has_two_texts() -> None:
    relation = Join(JoinKind.INNER, ROWS, ROWS, (JoinCondition(G, "=", H),), (), (0,), (2,))
    assert render(relation) == render(relation)


def test_relation_without_columns_has_no_rows(engine: duckdb.DuckDBPyConnection) -> None:
    nothing = Filter(ROWS, (), ())
    counted = Aggregate(nothing, (), CALLS[:1])
    assert result(engine, counted) == [(40,)]


def test_limit_over_a_set_operation_binds_to_its_last_input(
    engine: duckdb.DuckDBPyConnection,
) -> None:
    both = SetOperation("UNION", True, (ROWS, Limit(ROWS, LimitBound(rows=3), None)))
    assert len(result(engine, Limit(both, LimitBound(rows=41), None))) == 41


def test_order_below_a_limit_is_lost(engine: duckdb.DuckDBPyConnection) -> None:
    ordered = Order(ROWS, (SortKey(V, True, False),), (2,))
    limited = Limit(ordered, LimitBound(rows=2), LimitBound(rows=1))
    assert engine.execute(render(limited)).fetchall() == [(19.0,), (18.5,)]


def test_computed_limit_is_read_from_each_row(engine: duckdb.DuckDBPyConnection) -> None:
    child = Project(ROWS, (V, Constant("CAST(4 AS BIGINT)", "BIGINT")))
    limited = Limit(child, LimitBound(expression=ColumnRef(1, "BIGINT")), LimitBound(rows=38))
    assert len(result(engine, limited)) == 2


def test_values_without_rows_have_no_columns(engine: duckdb.DuckDBPyConnection) -> None:
    cursor = engine.execute(render(Values((), ("DATE", "VARCHAR[]"))))
    assert [str(column[1]) for column in cursor.description or ()] == ["DATE", "VARCHAR[]"]
    assert cursor.fetchall() == []


def test_rows_of_expressions_over_a_child_repeat_its_work(
    engine: duckdb.DuckDBPyConnection,
) -> None:
    relation = ExpressionRows(
        Limit(ROWS, LimitBound(rows=2), None), ((G, V), (G, G)), ("INTEGER",) * 2
    )
    text = render(relation)
    assert text.count('"arrived"') == 1
    assert len(result(engine, relation)) == 4


def test_nested_subqueries_of_a_shared_index_see_each_other(
    engine: duckdb.DuckDBPyConnection,
) -> None:
    inner = Cte(0, Values(((number(7),),), ("INTEGER",)), CteRef(0, ("INTEGER",)))
    outer = Cte(
        0,
        Values(((number(1),), (number(2),)), ("INTEGER",)),
        SetOperation("UNION", True, (inner, CteRef(0, ("INTEGER",)))),
    )
    assert result(engine, outer) == [(1,), (2,), (7,)]


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("=", (1, None), [(True,), (None,), (None,)]),
        ("=", (1,), [(True,), (False,), (None,)]),
        ("=", (), [(False,), (False,), (False,)]),
        ("<", (2, None), [(True,), (None,), (None,)]),
    ],
)
def test_mark_takes_unknown_for_false(
    engine: duckdb.DuckDBPyConnection,
    operator: str,
    values: tuple[int | None, ...],
    expected: list[tuple[bool | None]],
) -> None:
    null = Constant("CAST(NULL AS INTEGER)", "INTEGER")
    left = Values(((number(1),), (number(2),), (null,)), ("INTEGER",))
    right = Values(tuple((null if v is None else number(v),) for v in values), ("INTEGER",))
    mark = Join(JoinKind.MARK, left, right, (JoinCondition(G, operator, G),), (), (), ())
    assert engine.execute(render(mark)).fetchall() == expected


def test_scalar_subquery_with_two_rows_gives_one(engine: duckdb.DuckDBPyConnection) -> None:
    twice = Values(((number(1), number(5)), (number(1), number(6))), ("INTEGER", "INTEGER"))
    once = Values(((number(1),), (number(2),)), ("INTEGER",))
    single = Join(JoinKind.SINGLE, once, twice, (JoinCondition(G, "=", G),), (), (0,), (1, 0))
    with pytest.raises(duckdb.Error, match="More than one row"):
        engine.execute(render(single)).fetchall()
    distinct = Distinct(Project(twice, (G, G)), (G, H))
    other = Join(JoinKind.SINGLE, once, distinct, (JoinCondition(G, "=", G),), (), (0,), (1, 0))
    assert result(engine, other) == [(1, 1, 1), (2, None, None)]


def test_duplicate_group_keys_are_one_in_grouping(engine: duckdb.DuckDBPyConnection) -> None:
    relation = Aggregate(ROWS, (G, G), CALLS[:1], ((0,), (1,)), ((0, 1),))
    assert len(result(engine, relation)) == 6


def test_deep_nesting_ends_the_process() -> None:
    relation: Relation = OneRow()
    for _ in range(3000):
        relation = Filter(relation, (), (0,))
    with pytest.raises(Unsupported, match="nested too deeply"):
        render(relation)
