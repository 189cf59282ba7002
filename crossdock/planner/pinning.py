"""The clock is read once: ``now()`` and its kin become constants of one transaction.

Every worker, every attempt and every retry then sees one value.
"""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

from crossdock.planner.syntax import Node, Syntax, arguments, function_name
from crossdock.planner.volatility import VOLATILE_FUNCTIONS

TIMESTAMPTZ = "TIMESTAMP WITH TIME ZONE"
TIMETZ = "TIME WITH TIME ZONE"
#: Argument-less functions (and column-like keywords) of the clock, with their types.
CLOCK = {
    "current_date": "DATE",
    "current_localtime": "TIME",
    "current_localtimestamp": "TIMESTAMP",
    "current_time": TIMETZ,
    "current_timestamp": TIMESTAMPTZ,
    "get_current_time": TIMETZ,
    "get_current_timestamp": TIMESTAMPTZ,
    "localtime": "TIME",
    "localtimestamp": "TIMESTAMP",
    "now": TIMESTAMPTZ,
    "pg_conf_load_time": TIMESTAMPTZ,
    "pg_postmaster_start_time": TIMESTAMPTZ,
    "today": "DATE",
    "transaction_timestamp": TIMESTAMPTZ,
}
KEYWORDS = frozenset(
    {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"}
)
#: Functions whose value differs from call to call or process to process.
VOLATILE = VOLATILE_FUNCTIONS | {"txid_current"}


def is_volatile(nodes: Iterable[Node]) -> bool:
    """Whether two runs of a statement of these nodes may differ: random(), uuid(), samples."""
    return any("sample" in node or function_name(node) in VOLATILE for node in nodes)


class Clock:
    """The clock of one bind, read when first asked."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, syntax: Syntax) -> None:
        self._connection = connection
        self._syntax = syntax
        self._literals: dict[str, Node] = {}

    def pin(self, node: Node, sql: str, columns: frozenset[str]) -> Node | None:
        """What stands for ``node`` from now on; None if it does not read the clock.

        ``age(x)`` and ``ago(x)`` read it unseen: they get it as an argument. ``columns`` are
        lower-case names that columns may have: a column hides a keyword.
        """
        name, given = function_name(node), arguments(node)
        if name in CLOCK and not given:
            return self.literal(CLOCK[name])
        if name == "age" and len(given) == 1:
            today = {"expression": self.literal("DATE")}
            return {**node, "arguments": [today, *node["arguments"]]}
        if name == "ago" and len(given) == 1:
            return _subtract(node, self.literal(TIMESTAMPTZ), given[0])
        keyword = clock_keyword(node, sql)
        return self.literal(CLOCK[keyword]) if keyword and keyword not in columns else None

    def literal(self, kind: str) -> Node:
        """This moment as a constant of ``kind``, in the session's time zone."""
        if not self._literals:
            # One statement is one transaction: every value is of the same instant.
            parts = ", ".join(f"CAST({text} AS VARCHAR)" for text in _EXPRESSIONS.values())
            values = self._connection.execute(f"SELECT {parts}").fetchall()[0]
            texts = [f"CAST('{v}' AS {k})" for k, v in zip(_EXPRESSIONS, values, strict=True)]
            self._literals = dict(zip(_EXPRESSIONS, self._syntax.expressions(texts), strict=True))
        return self._literals[kind]


_EXPRESSIONS = {
    "DATE": "current_date",
    "TIME": "localtime",
    "TIMESTAMP": "localtimestamp",
    TIMETZ: "current_time",
    TIMESTAMPTZ: "now()",
}


def clock_keyword(node: Node, sql: str) -> str:
    """The keyword that a column-like node such as ``current_date`` is, "" if none."""
    names = node.get("column_names", ())
    if node.get("class") != "COLUMN_REF" or len(names) != 1 or names[0].lower() not in KEYWORDS:
        return ""
    quoted = sql.encode()[node.get("query_location", 0) :][:1] == b'"'
    return "" if quoted else str(names[0]).lower()


def _subtract(node: Node, instant: Node, interval: Node) -> Node:
    as_interval = {
        "class": "CAST",
        "type": "OPERATOR_CAST",
        "child": interval,
        "type_expr": {
            "class": "TYPE",
            "type": "TYPE",
            "type_name": "INTERVAL",
            "qualified_name": {"path": ["INTERVAL"]},
        },
    }
    return {
        **node,
        "function_name": "-",
        "is_operator": True,
        "qualified_name": {"path": ["-"]},
        "arguments": [{"expression": instant}, {"expression": as_interval}],
    }
