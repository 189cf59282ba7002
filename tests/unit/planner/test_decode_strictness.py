"""Whatever the decoder does not know must be refused, by name."""

from __future__ import annotations

from typing import Any

import pytest

from crossdock.errors import Unsupported
from crossdock.planner.decode import decode_plan_json
from tests.unit.planner.plan_json import decoded, find, plan

STATEMENT = """
SELECT b, sum(m + 1) FILTER (WHERE s > 'x'), count(*),
    rank() OVER (ORDER BY count(*)), CASE WHEN b > 1 THEN 'q' ELSE 'r' END
FROM t WHERE a > 3 AND (d IS NULL OR d > 0) AND a + b < 9 AND s IN ('x', 'y')
GROUP BY b ORDER BY b LIMIT 3
"""
JOIN = "SELECT t.a, u.c, x.z FROM t LEFT JOIN u ON t.a = u.a, range(3) x(z) WHERE t.b < 3"


#: Types of what is not read or told again elsewhere, and filters that are only hints.
NOT_READ = {"arguments", "child_filter", "input_table_types", "returned_types"}


def objects(node: Any) -> list[dict[str, Any]]:
    """Every JSON object of a plan that has a meaning."""
    if isinstance(node, list):
        return [found for child in node for found in objects(child)]
    if not isinstance(node, dict) or set(node) in NAMES:
        return []
    if "check_overflow" in node:
        return [node]
    below = [child for name, child in node.items() if name not in NOT_READ]
    return [node, *objects(below)]


#: A name, a wide number or a field of a struct has nothing to read but its members.
NAMES = ({"path"}, {"lower", "upper"}, {"first", "second"})


@pytest.mark.parametrize("sql", [STATEMENT, JOIN])
def test_unknown_field_of_some_object_is_ignored(sql: str) -> None:
    whole = plan(sql)
    for node in objects(whole):
        node["novelty"] = 7
        with pytest.raises(Unsupported, match="novelty = 7"):
            decode_plan_json(whole)
        del node["novelty"]


@pytest.mark.parametrize("sql", [STATEMENT, JOIN])
def test_cosmetic_or_absent_fields_are_refused(sql: str) -> None:
    whole = plan(sql)
    expected = decode_plan_json(whole)
    for node in objects(whole):
        node.setdefault("alias", "")
        node.update({"novelty": None, "query_location": 3})
    assert decode_plan_json(whole) == expected


@pytest.mark.parametrize(
    ("sql", "members", "change", "named"),
    [
        ("SELECT a FROM t", {"type": "LOGICAL_GET"}, {"type": "LOGICAL_WARP"}, "LOGICAL_WARP"),
        (
            "SELECT a + 1 FROM t",
            {"expression_class": "BOUND_REF"},
            {"expression_class": "BOUND_SUBQUERY"},
            "BOUND_SUBQUERY",
        ),
        (
            "SELECT a > 1 FROM t",
            {"type": "COMPARE_GREATERTHAN"},
            {"type": "COMPARE_X"},
            "COMPARE_X",
        ),
        (
            "SELECT a FROM t WHERE a > 1",
            {"filter_type": "LEGACY_CONSTANT_COMPARISON"},
            {"filter_type": "BLOOM_FILTER"},
            "BLOOM_FILTER",
        ),
        (
            "SELECT a FROM t WHERE a > 1",
            {"filter_type": "LEGACY_CONSTANT_COMPARISON"},
            {"comparison_type": "COMPARE_NEAR"},
            "COMPARE_NEAR",
        ),
        ("SELECT t.a FROM t JOIN u USING (a)", {"join_type": "INNER"}, {"join_type": "ODD"}, "ODD"),
        (
            "SELECT t.a FROM t JOIN u USING (a)",
            {"comparison": "COMPARE_EQUAL"},
            {"comparison": "COMPARE_NEAR"},
            "COMPARE_NEAR",
        ),
        (
            "SELECT sum(a) FROM t",
            {"expression_class": "BOUND_AGGREGATE"},
            {"state_export": "EXPORT"},
            "state_export",
        ),
        (
            "SELECT sum(a) FROM t",
            {"expression_class": "BOUND_AGGREGATE"},
            {"function_data": {"rounding": "up"}},
            "aggregate sum.*rounding",
        ),
        (
            "SELECT a + b FROM t",
            {"type": "BOUND_FUNCTION"},
            {"function_data": {"modulus": 5}},
            r"function \+.*modulus",
        ),
        (
            "SELECT a + b FROM t",
            {"type": "BOUND_FUNCTION"},
            {"qname": {"path": ["memory", "main", "mine"]}},
            "memory.main.mine",
        ),
        (
            "SELECT a FROM t ORDER BY a",
            {"null_order": "NULLS LAST"},
            {"null_order": "NULLS ASIDE"},
            "NULLS ASIDE",
        ),
        (
            "SELECT sum(a) OVER (ORDER BY a) FROM t",
            {"expression_class": "BOUND_WINDOW"},
            {"exclude_clause": "PEERS"},
            "PEERS",
        ),
        (
            "SELECT sum(a) OVER (ORDER BY a) FROM t",
            {"expression_class": "BOUND_WINDOW"},
            {"start": "EXPR_PRECEDING_MILES"},
            "EXPR_PRECEDING_MILES",
        ),
        ("SELECT a FROM t", {"type": "LOGICAL_GET"}, {"ordinality_idx": 1}, "ordinality_idx"),
        ("SELECT a FROM t", {"table": "t"}, {"is_index_scan": True}, "is_index_scan"),
        ("SELECT a FROM t", {"table": "t"}, {"schema": "pg_catalog"}, "pg_catalog"),
        ("SELECT a FROM t", {"path": ["seq_scan"]}, {"path": ["arrow_scan"]}, "arrow_scan"),
        ("SELECT st.p FROM t", {"index": 6}, {"index_type": "PUSHDOWN_CAST"}, "PUSHDOWN_CAST"),
        ("SELECT DISTINCT a FROM t", {"distinct_type": "DISTINCT"}, {"distinct_type": "X"}, "X"),
        (
            "SELECT a FROM t LIMIT 3",
            {"type": "CONSTANT_VALUE"},
            {"type": "EXPRESSION_PERCENTAGE"},
            "EXPRESSION_PERCENTAGE",
        ),
        (
            "SELECT a FROM t USING SAMPLE 3 ROWS",
            {"method": "Reservoir"},
            {"method": "Guess"},
            "Guess",
        ),
    ],
)
def test_unknown_value_is_guessed(
    sql: str, members: dict[str, object], change: dict[str, object], named: str
) -> None:
    whole = plan(sql)
    decode_plan_json(whole)
    find(whole, **members).update(change)
    with pytest.raises(Unsupported, match=named):
        decode_plan_json(whole)


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("SELECT rowid FROM t", "rowid"),
        ("SELECT a FROM t WHERE rowid = 1", "rowid"),
        ("SELECT st.p, rowid FROM t", "rowid"),
        ("SELECT t.a FROM t JOIN u ON t.rowid = u.a", "rowid"),
        ("SELECT * FROM t, range(t.a) r(i)", "range with children"),
        ("SELECT * FROM duckdb_tables()", "duckdb_tables"),
        ("SELECT current_query(), a FROM t", "current_query"),
        ("SELECT error FROM nowhere", "nowhere"),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("WITH RECURSIVE r(k, v) USING KEY (k) AS (SELECT 1, 1 UNION SELECT k, v + 1 FROM r "
         "WHERE v < 3) SELECT * FROM r", "USING KEY|key_targets"),
    ],
)  # fmt: skip
def test_what_has_no_node_is_decoded_to_something_else(sql: str, named: str) -> None:
    with pytest.raises(Unsupported, match=named):
        decoded(sql)


def test_deep_nesting_ends_the_process() -> None:
    node: dict[str, Any] = {"type": "LOGICAL_DUMMY_SCAN"}
    for _ in range(5000):
        node = {"type": "LOGICAL_FILTER", "children": [node]}
    with pytest.raises(Unsupported, match="nested too deeply"):
        decode_plan_json(node)


def test_missing_member_escapes_as_a_key_error() -> None:
    whole = plan("SELECT CASE WHEN a > 1 THEN 2 ELSE b END FROM t")
    del find(whole, expression_class="BOUND_CASE")["else_expr"]
    with pytest.raises(Unsupported, match="else_expr"):
        decode_plan_json(whole)


def test_reference_beyond_the_child_s_columns_is_decoded() -> None:
    whole = plan("SELECT a + 1 FROM t")
    find(whole, expression_class="BOUND_REF")["index"] = 5
    with pytest.raises(Unsupported, match="column 5 of 1"):
        decode_plan_json(whole)
