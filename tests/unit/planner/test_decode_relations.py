from __future__ import annotations

from crossdock.planner.nodes import (
    Aggregate,
    AggregateCall,
    Call,
    Cast,
    ColumnRef,
    Comparison,
    Conjunction,
    Constant,
    Expression,
    Filter,
    Join,
    JoinKind,
    Lambda,
    LambdaParameter,
    Limit,
    Operator,
    Order,
    Project,
    Scan,
    SortKey,
    TopN,
    Window,
    WindowFrame,
)
from tests.unit.planner.plan_json import decoded

A = ColumnRef(0, "BIGINT")


def scan(sql: str) -> Scan:
    return only(decoded(sql), Scan)


def only(relation, kind):
    """The first relation of that kind on the way down the first children."""
    while not isinstance(relation, kind):
        relation = relation.left if isinstance(relation, Join) else relation.child
    return relation


def big(value: int) -> Constant:
    return Constant(f"CAST({value} AS BIGINT)", "BIGINT")


def test_filter_on_a_column_that_is_not_emitted_is_lost() -> None:
    read = scan("SELECT a FROM t WHERE a > 3 AND b = 1 AND s IS NULL")
    columns = {name: ColumnRef(i, read.column_types[i]) for i, name in enumerate(read.columns)}
    assert set(read.filters) == {
        Comparison(">", columns["a"], big(3)),
        Comparison("=", columns["b"], big(1)),
        Operator("IS NULL", (columns["s"],), "BOOLEAN"),
    }
    assert [read.columns[i] for i in read.emit] == ["a"]


def test_filter_over_two_columns_is_lost() -> None:
    relation = decoded("SELECT s FROM t WHERE a < b AND d > 0")
    read = only(relation, Scan)
    assert relation.types == ("VARCHAR",)
    operators = [f.operator for f in read.filters if isinstance(f, Comparison)]
    assert sorted(operators) == ["<", ">"]


def test_alternatives_in_a_scan_are_lost() -> None:
    (predicate,) = scan("SELECT a FROM t WHERE d IS NULL OR d > 0").filters
    assert isinstance(predicate, Conjunction)
    assert predicate.operator == "OR"
    assert len(predicate.children) == 2


def test_optional_filter_of_a_top_n_is_kept() -> None:
    assert scan("SELECT a FROM t ORDER BY b LIMIT 3").filters == ()


def test_count_reads_a_column() -> None:
    assert scan("SELECT count(*) FROM t") == Scan("t", ("",), ("BIGINT",), (), (0,))


def test_field_pushed_into_a_scan_is_read_as_the_whole_struct() -> None:
    relation = decoded("SELECT st.q.r FROM t WHERE st.p > 3")
    read = only(relation, Scan)
    assert read.columns == ("st",)
    struct = ColumnRef(0, read.column_types[0])
    assert read.filters == (
        Comparison(
            ">",
            Call("struct_extract", (struct, Constant("'p'", "VARCHAR")), "INTEGER"),
            Constant("CAST(3 AS INTEGER)", "INTEGER"),
        ),
    )
    assert relation.types == ("VARCHAR",)


def test_same_column_read_twice_has_two_names() -> None:
    assert scan("SELECT st.p, st.q.r, st FROM t").columns == ("st",)


def test_grouping_sets_are_mixed_up() -> None:
    relation = only(
        decoded("SELECT a, b, sum(d), grouping(b, a) FROM t GROUP BY ROLLUP (a, b)"), Aggregate
    )
    assert sorted(relation.sets) == [(), (0,), (0, 1)]
    assert relation.groupings == ((1, 0),)
    assert relation.types == ("BIGINT", "BIGINT", "DOUBLE", "BIGINT")


def test_plain_grouping_is_taken_for_grouping_sets() -> None:
    relation = only(decoded("SELECT a, count(*) FROM t GROUP BY a"), Aggregate)
    assert relation.sets == ()
    assert relation.aggregates == (AggregateCall("count_star", (), "BIGINT"),)


def test_parts_of_an_aggregate_are_lost() -> None:
    relation = only(
        decoded(
            "SELECT string_agg(s, ';' ORDER BY a DESC NULLS FIRST) FILTER (WHERE a > 1) FROM t"
        ),
        Aggregate,
    )
    (call,) = relation.aggregates
    assert call.arguments[1] == Constant("';'", "VARCHAR")
    assert call.filter is not None
    assert [(k.descending, k.nulls_first) for k in call.order] == [(True, True)]


def test_separator_that_became_a_group_column_stays_a_column() -> None:
    relation = only(decoded("SELECT b, string_agg(DISTINCT s, '-') FROM t GROUP BY b"), Aggregate)
    (call,) = relation.aggregates
    assert call.arguments[1] == Constant("'-'", "VARCHAR")


def test_offset_of_a_range_frame_is_the_bound_itself() -> None:
    relation = only(
        decoded("SELECT sum(a) OVER (ORDER BY a RANGE BETWEEN 2 PRECEDING AND 3 FOLLOWING) FROM t"),
        Window,
    )
    assert relation.calls[0].frame == WindowFrame("RANGE", "PRECEDING", "FOLLOWING", big(2), big(3))


def test_default_frame_is_spelled_out() -> None:
    relation = only(decoded("SELECT sum(a) OVER (ORDER BY a) FROM t"), Window)
    assert relation.calls[0].frame is None


def test_lambda_parameters_or_captures_are_mixed_up() -> None:
    relation = decoded("SELECT list_transform(l, lambda x, i: x - i * a) FROM t")
    assert isinstance(relation, Project)
    (call,) = relation.expressions
    assert isinstance(call, Call)
    assert len(call.arguments) == 2
    body = call.arguments[1]
    assert isinstance(body, Lambda)
    x, i = (LambdaParameter(name, "BIGINT") for name in body.parameters)
    read = only(relation, Scan)
    a = ColumnRef([read.columns[e] for e in read.emit].index("a"), "BIGINT")
    assert body.body == Call("-", (x, Call("*", (i, a), "BIGINT")), "BIGINT")


def test_nested_lambdas_share_a_parameter_name() -> None:
    relation = decoded(
        "SELECT list_transform(l, lambda x: list_transform([x], lambda x: x + 1)) FROM t"
    )
    assert isinstance(relation, Project)
    outer = _first_lambda(relation.expressions[0])
    assert outer.parameters != _first_lambda(outer.body).parameters


def _first_lambda(expression: Expression) -> Lambda:
    assert isinstance(expression, Call)
    return next(a for a in expression.arguments if isinstance(a, Lambda))


def test_join_condition_over_both_sides_is_a_comparison() -> None:
    relation = only(decoded("SELECT 1 FROM t LEFT JOIN u ON t.a = u.a AND t.b + u.c > 3"), Join)
    assert relation.kind is JoinKind.LEFT
    assert [c.operator for c in relation.conditions] == ["="]
    assert len(relation.residual) == 1


def test_limit_loses_the_order_below() -> None:
    relation = decoded("SELECT a FROM t ORDER BY a OFFSET 4")
    limit = only(relation, Limit)
    assert isinstance(limit.child, Order)
    assert limit.limit is None
    assert limit.offset is not None
    assert limit.offset.rows == 4
    top = only(decoded("SELECT a FROM t ORDER BY a DESC LIMIT 3 OFFSET 1"), TopN)
    assert (top.limit, top.offset) == (3, 1)
    assert top.keys == (SortKey(A, descending=True, nulls_first=False),)


def test_cast_is_not_told_from_try_cast() -> None:
    relation = decoded("SELECT CAST(s AS INTEGER), TRY_CAST(s AS INTEGER) FROM t")
    assert isinstance(relation, Project)
    assert [e.safe for e in relation.expressions if isinstance(e, Cast)] == [False, True]


def test_single_input_of_a_union_without_rows_elsewhere_is_refused() -> None:
    assert decoded("(SELECT a FROM t LIMIT 0) UNION ALL SELECT 7::BIGINT").types == ("BIGINT",)


def test_row_placeholder_cannot_cross_a_filter_or_a_join() -> None:
    relation = decoded("SELECT count(*) FROM t, u WHERE t.a IS NOT NULL OR u.c = 1")
    assert relation.types == ("BIGINT",)
    assert only(relation, Filter | Join | Aggregate)
