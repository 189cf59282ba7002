"""DuckDB's own syntax tree, as JSON: parse, walk, change, write back as text.

Text written back is equal in meaning, not in letters; an unchanged statement keeps the user's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import duckdb
import msgspec

from crossdock.planner.sql_errors import EngineError
from crossdock.planner.tokens import encoded

#: A JSON object of the tree: an expression, a table reference or a query node.
Node = dict[str, Any]

_SKIP = "skip_null := true, skip_empty := true, skip_default := true"


class Syntax:
    """DuckDB's parser on one connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def parse(self, sql: str) -> list[Node]:
        """The statements of ``sql``.

        Raises:
            EngineError: syntax, or not a SELECT.
            SqlError: not valid Unicode.
        """
        encoded(sql)
        document = msgspec.json.decode(self._ask(f"SELECT json_serialize_sql($1, {_SKIP})", sql))
        if document["error"]:
            raise EngineError.of(document)
        statements: list[Node] = document["statements"]
        return statements

    def text(self, statement: Node) -> str:
        """SQL text of a tree."""
        document = {"error": False, "statements": [statement]}
        return self._ask("SELECT json_deserialize_sql($1::JSON)", json.dumps(document))

    def expressions(self, texts: Sequence[str]) -> list[Node]:
        """Trees of scalar expressions, without positions: they are in no user's text."""
        (statement,) = self.parse(f"SELECT {', '.join(texts)}")
        listed: list[Node] = statement["node"]["select_list"]
        return [without_places(node) for node in listed]

    def expression_text(self, expression: Node) -> str:
        """How DuckDB names a column of this expression."""
        (statement,) = self.parse("SELECT 1")
        bare = {**expression, "alias": ""}
        statement["node"]["select_list"] = [bare]
        return self.text(statement).removeprefix("SELECT ")

    def _ask(self, query: str, argument: str) -> str:
        (answer,) = self._connection.execute(query, [argument]).fetchall()[0]
        return str(answer)


#: What has nodes below it; most members of a node are texts and numbers.
_INNER = (dict, list)


def walk(root: object) -> Iterator[Node]:
    """Every object of a tree, parents first, in text order as far as the tree keeps it."""
    waiting: list[Any] = [root] if isinstance(root, _INNER) else []
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            below: Any = item.values()
        else:
            below = item
        waiting += [each for each in reversed(below) if isinstance(each, _INNER)]


def without_places(root: Any) -> Any:
    """A copy without text positions."""
    if isinstance(root, dict):
        return {k: without_places(v) for k, v in root.items() if not k.startswith("query_location")}
    if isinstance(root, list):
        return [without_places(item) for item in root]
    return root


def function_name(node: Node) -> str:
    """Lower-case bare name of a FUNCTION (or window) node, "" for others."""
    if node.get("class") not in ("FUNCTION", "WINDOW"):
        return ""
    return str(
        node.get("qualified_name", {}).get("path", [node.get("function_name", "")])[-1]
    ).lower()


def arguments(node: Node) -> list[Node]:
    """A function's argument expressions."""
    return [argument["expression"] for argument in node.get("arguments", ())]


def table_path(node: Node) -> tuple[str, ...]:
    """Qualified name of a BASE_TABLE node, () for others."""
    if node.get("type") != "BASE_TABLE":
        return ()
    return tuple(node["qualified_name"]["path"])


def cte_names(root: object) -> frozenset[str]:
    """Lower-case names of every WITH entry of a statement, at any level."""
    return frozenset(str(entry["key"]).lower() for entry in cte_entries(walk(root)))


def cte_entries(nodes: Iterable[Node]) -> Iterator[Node]:
    """The WITH entries that ``nodes`` themselves have."""
    for node in nodes:
        if "cte_map" in node:
            yield from node["cte_map"].get("map", ())


def table_references(root: object, scope: frozenset[str] = frozenset()) -> list[Node]:
    """BASE_TABLE nodes that name a table and not a WITH entry in ``scope`` (lower-case names)."""
    if isinstance(root, list):
        inside = [table_references(item, scope) for item in root if isinstance(item, _INNER)]
        return [found for each in inside for found in each]
    if not isinstance(root, dict):
        return []
    found: list[Node] = []
    inner = scope
    for entry in root.get("cte_map", {}).get("map", ()):
        name = frozenset({entry["key"].lower()})
        recursive = entry["value"]["query_node"]["type"] == "RECURSIVE_CTE_NODE"
        found += table_references(entry["value"], inner | name if recursive else inner)
        inner |= name
    path = table_path(root)
    if path and not (len(path) == 1 and path[0].lower() in scope):
        found.append(root)
    for key, value in root.items():
        if key != "cte_map" and isinstance(value, _INNER):
            found += table_references(value, inner)
    return found
