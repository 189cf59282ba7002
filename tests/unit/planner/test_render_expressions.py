from __future__ import annotations

import pytest

from crossdock.planner.nodes import (
    AggregateCall,
    Between,
    Call,
    Case,
    Cast,
    ColumnRef,
    Comparison,
    Conjunction,
    Constant,
    Expression,
    Lambda,
    LambdaParameter,
    Operator,
    SortKey,
    WindowCall,
    WindowFrame,
)
from crossdock.planner.render import render_expression

A = ColumnRef(0, "INTEGER")
B = ColumnRef(1, "INTEGER")
M = ColumnRef(2, "DECIMAL(9,2)")
ONE = Constant("CAST(1 AS INTEGER)", "INTEGER")
TEXT = Constant("'x'", "VARCHAR")
LESS = Comparison("<", A, B)

EXPRESSIONS: list[tuple[Expression, str]] = [
    (A, "q.c0"),
    (ONE, "CAST(1 AS INTEGER)"),
    (Cast(A, "BIGINT"), "CAST(q.c0 AS BIGINT)"),
    (Cast(A, "BIGINT", safe=True), "TRY_CAST(q.c0 AS BIGINT)"),
    (Call("+", (A, B), "INTEGER"), "(q.c0 + q.c1)"),
    (Call("-", (A,), "INTEGER"), "(-q.c0)"),
    (Call("*", (M, M), "DECIMAL(18,4)"), "CAST((q.c2 * q.c2) AS DECIMAL(18,4))"),
    (Call("-", (M,), "DECIMAL(9,2)"), "CAST((-q.c2) AS DECIMAL(9,2))"),
    (Call("abs", (M,), "DECIMAL(9,2)"), "abs(q.c2)"),
    (Call("position", (TEXT, TEXT), "BIGINT"), "\"position\"('x', 'x')"),
    (Call("->>", (TEXT, TEXT), "VARCHAR"), "\"->>\"('x', 'x')"),
    (Call("UPPER", (TEXT,), "VARCHAR"), "\"UPPER\"('x')"),
    (
        Call("struct_pack", (A, B), 'STRUCT(a INTEGER, "b c" INTEGER)', ("a", "b c")),
        'struct_pack("a" := q.c0, "b c" := q.c1)',
    ),
    (
        Call("struct_insert", (A, B), "STRUCT(n INTEGER)", ("", "n")),
        'struct_insert(q.c0, "n" := q.c1)',
    ),
    (
        Call("equi_width_bins", (A, B, ONE, ONE), "INTEGER[]"),
        "CAST(equi_width_bins(q.c0, q.c1, CAST(1 AS INTEGER), CAST(1 AS INTEGER)) AS INTEGER[])",
    ),
    (Comparison("IS DISTINCT FROM", A, B), "(q.c0 IS DISTINCT FROM q.c1)"),
    (Between(A, ONE, B), "(q.c0 BETWEEN CAST(1 AS INTEGER) AND q.c1)"),
    (
        Between(A, ONE, B, lower_inclusive=False),
        "(q.c0 > CAST(1 AS INTEGER) AND q.c0 <= q.c1)",
    ),
    (
        Between(A, ONE, B, upper_inclusive=False),
        "(q.c0 >= CAST(1 AS INTEGER) AND q.c0 < q.c1)",
    ),
    (Conjunction("OR", (LESS, LESS)), "((q.c0 < q.c1) OR (q.c0 < q.c1))"),
    (Operator("NOT", (LESS,), "BOOLEAN"), "(NOT (q.c0 < q.c1))"),
    (Operator("IS NOT NULL", (A,), "BOOLEAN"), "(q.c0 IS NOT NULL)"),
    (Operator("IN", (A, B, ONE), "BOOLEAN"), "(q.c0 IN (q.c1, CAST(1 AS INTEGER)))"),
    (Operator("NOT IN", (A, B), "BOOLEAN"), "(q.c0 NOT IN (q.c1))"),
    (Operator("COALESCE", (A, B), "INTEGER"), "COALESCE(q.c0, q.c1)"),
    (Operator("TRY", (A,), "INTEGER"), "TRY(q.c0)"),
    (Case(((LESS, A),), B, "INTEGER"), "(CASE WHEN (q.c0 < q.c1) THEN q.c0 ELSE q.c1 END)"),
    (
        Call(
            "list_transform",
            (A, Lambda(("x0_0",), Call("+", (LambdaParameter("x0_0", "INTEGER"), B), "INTEGER"))),
            "INTEGER[]",
        ),
        "list_transform(q.c0, lambda x0_0: (x0_0 + q.c1))",
    ),
    (
        AggregateCall("count_star", (), "BIGINT", filter=LESS),
        "count(*) FILTER (WHERE (q.c0 < q.c1))",
    ),
    (
        AggregateCall(
            "string_agg", (A, TEXT), "VARCHAR", distinct=True, order=(SortKey(A, True, False),)
        ),
        "string_agg(DISTINCT q.c0, 'x' ORDER BY q.c0 DESC NULLS LAST)",
    ),
    (
        AggregateCall(
            "percentile_cont", (ONE,), "DOUBLE", within_group=(SortKey(A, False, True),)
        ),
        "percentile_cont(CAST(1 AS INTEGER)) WITHIN GROUP (ORDER BY q.c0 ASC NULLS FIRST)",
    ),
    (WindowCall("rank", (), "BIGINT", order=(SortKey(A, False, False),)),
     "rank() OVER (ORDER BY q.c0 ASC NULLS LAST)"),
    (WindowCall("count_star", (), "BIGINT"), "count(*) OVER ()"),
    (
        WindowCall(
            "first_value",
            (A,),
            "INTEGER",
            partition=(B,),
            order=(SortKey(A, False, False),),
            frame=WindowFrame("ROWS", "PRECEDING", "CURRENT ROW", ONE, None, "TIES"),
            ignore_nulls=True,
            filter=LESS,
            argument_order=(SortKey(B, True, True),),
        ),
        "first_value(q.c0 ORDER BY q.c1 DESC NULLS FIRST IGNORE NULLS) "
        "FILTER (WHERE (q.c0 < q.c1)) OVER (PARTITION BY q.c1 ORDER BY q.c0 ASC NULLS LAST "
        "ROWS BETWEEN CAST(1 AS INTEGER) PRECEDING AND CURRENT ROW EXCLUDE TIES)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "text"), EXPRESSIONS)
def test_expression_is_written_otherwise(expression: Expression, text: str) -> None:
    assert render_expression(expression, lambda index: f"q.c{index}") == text


def test_bare_string_constant_is_refused_as_a_sort_key() -> None:
    call = WindowCall("rank", (), "BIGINT", order=(SortKey(TEXT, False, False),))
    assert "ORDER BY CAST('x' AS VARCHAR) ASC" in render_expression(call, str)
