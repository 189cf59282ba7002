"""Which of DuckDB's optimizer rules may shape a plan.

A whitelist, because planner tables hold a statistical shadow of the data and not the data: a rule
that reads their content (statistics propagation, row group pruning) would fold real rows away, and
a rule new to an engine release may emit node forms the decoder does not know.
"""

from __future__ import annotations

from collections.abc import Collection

import duckdb

WHITELIST = frozenset(
    {
        "build_side_probe_side",
        "column_lifetime",
        "common_aggregate",
        "cte_filter_pusher",
        "cte_inlining",
        "deliminator",
        "distinct_aggregate_rewrite",
        "duplicate_groups",
        "expression_rewriter",
        "filter_pullup",
        "filter_pushdown",
        "join_order",
        "limit_pushdown",
        "materialized_cte",
        "outer_join_simplification",
        "projection_pullup",
        "reorder_filter",
        "top_n",
        "unnest_rewriter",
        "unused_columns",
    }
)


def disabled_optimizers(
    connection: duckdb.DuckDBPyConnection, rules: Collection[str] = WHITELIST
) -> str:
    """Every rule of this engine but ``rules``, as the setting of that name wants it.

    A rule that is not whitelisted stays off.
    """
    rows = connection.execute("SELECT name FROM duckdb_optimizers() ORDER BY name").fetchall()
    wanted = WHITELIST.intersection(rules)
    return ",".join(name for (name,) in rows if name not in wanted)
