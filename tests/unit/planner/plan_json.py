"""Plans of small statements, for tests of decoding."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb

from crossdock.planner.decode import SERIALIZE_PLAN, decode_plan_json, parse_plan_text
from crossdock.planner.nodes import Relation
from crossdock.planner.optimizer_rules import disabled_optimizers

SCHEMA = """
CREATE TABLE t (a BIGINT, b BIGINT, s VARCHAR, d DOUBLE, m DECIMAL(9, 2), dt DATE,
    st STRUCT(p INTEGER, q STRUCT(r VARCHAR)), l BIGINT[]);
CREATE TABLE u (a BIGINT, c BIGINT);
"""


@cache
def planner() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(SCHEMA)
    connection.execute(f"SET disabled_optimizers = '{disabled_optimizers(connection)}'")
    return connection


def document(sql: str) -> dict[str, Any]:
    """The parsed document, as the binder hands it on."""
    row = planner().execute(SERIALIZE_PLAN, {"sql": sql}).fetchone()
    assert row is not None
    return parse_plan_text(row[0])


def plan(sql: str) -> dict[str, Any]:
    """The only plan in the document."""
    (only,) = document(sql)["plans"]
    return only


def decoded(sql: str) -> Relation:
    return decode_plan_json(document(sql))


def find(node: Any, **members: object) -> dict[str, Any]:
    """The first JSON object, depth first, that has these members."""
    found = _find(node, members)
    assert found is not None, members
    return found


def _find(node: Any, members: dict[str, object]) -> dict[str, Any] | None:
    if isinstance(node, dict):
        if members.items() <= {k: v for k, v in node.items() if k in members}.items():
            return node
        children = list(node.values())
    else:
        children = node if isinstance(node, list) else []
    for child in children:
        found = _find(child, members)
        if found is not None:
            return found
    return None
