"""SHOW and DESCRIBE as rows of the catalog; SUMMARIZE stays what DuckDB makes of it: aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import duckdb

from crossdock.errors import SqlError
from crossdock.planner.sql_text import quote_literal
from crossdock.planner.syntax import Node, Syntax

#: What DuckDB calls its only database and schema, and so do names in a statement.
_DATABASE, _SCHEMA = "memory", "main"
_TABLES = frozenset({'"tables"', "tables"})

Columns = Sequence[tuple[str, str]]


class Shows:
    """Rewrites what asks about the catalog.

    Args:
        names: of tables and views.
        described: names and types of the columns of one of them.
    """

    def __init__(
        self, syntax: Syntax, names: Sequence[str], described: Callable[[str], Columns]
    ) -> None:
        self._syntax = syntax
        self._names = sorted(names)
        self._described = described

    def change(self, node: Node) -> Node | None:
        """What stands for a SHOW from now on; None for anything else.

        Raises:
            SqlError: it asks about something that is not there.
        """
        if node.get("type") != "SHOW_REF":
            return None
        kind = node.get("show_type", "DESCRIBE")
        name = str(node.get("table_name", ""))
        if kind == "SHOW_SPECIAL":
            return self._special(name.lower())
        if kind == "SHOW_FROM":
            return self._from(node)
        return _describe(node) if kind == "SHOW" else None

    def _special(self, name: str) -> Node:
        if name in _TABLES:
            return self._tables()
        if name == "__show_tables_expanded":
            return self._all_tables()
        if name.strip('"') == "databases":
            return self._values(["database_name"], [[quote_literal(_DATABASE)]], ["VARCHAR"])
        if name.strip('"') == "schemas":
            row = [quote_literal(_DATABASE), quote_literal(_SCHEMA), "true"]
            columns = ["database_name", "schema_name", "current"]
            return self._values(columns, [row], ["VARCHAR", "VARCHAR", "BOOLEAN"])
        raise SqlError(f"SHOW {name.strip(chr(34)).upper()} is not available: there are none")

    def _from(self, node: Node) -> Node:
        path = [part for part in node.get("qualified_name", {}).get("path", ()) if part]
        if any(part.lower() not in (_DATABASE, _SCHEMA) for part in path):
            raise SqlError(f"there is no schema {'.'.join(path)}: every table is in {_SCHEMA}")
        return self._tables()

    def _tables(self) -> Node:
        rows = [[quote_literal(name)] for name in self._names]
        return self._values(["name"], rows, ["VARCHAR"])

    def _all_tables(self) -> Node:
        names = ["database", "schema", "name", "column_names", "column_types", "temporary"]
        types = ["VARCHAR", "VARCHAR", "VARCHAR", "VARCHAR[]", "VARCHAR[]", "BOOLEAN"]
        rows = []
        for name in self._names:
            columns = self._described(name)
            rows.append(
                [
                    *map(quote_literal, (_DATABASE, _SCHEMA, name)),
                    f"[{', '.join(quote_literal(column) for column, _ in columns)}]",
                    f"[{', '.join(quote_literal(kind) for _, kind in columns)}]",
                    "false",
                ]
            )
        return self._values(names, rows, types)

    def _values(
        self, names: Sequence[str], rows: Sequence[Sequence[str]], types: Sequence[str]
    ) -> Node:
        return constant_rows(self._syntax, names, rows, types)


def constant_rows(
    syntax: Syntax, names: Sequence[str], rows: Sequence[Sequence[str]], types: Sequence[str]
) -> Node:
    """A table reference to rows given as SQL texts."""
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    empty = ", ".join(
        f"CAST(NULL AS {kind}) AS {name}" for name, kind in zip(quoted, types, strict=True)
    )
    text = f"SELECT {empty} WHERE false"
    if rows:
        items = ", ".join(
            f"CAST({name} AS {kind}) AS {name}" for name, kind in zip(quoted, types, strict=True)
        )
        listed = ", ".join(f"({', '.join(row)})" for row in rows)
        text = f"SELECT {items} FROM (VALUES {listed}) AS shown({', '.join(quoted)})"
    (statement,) = syntax.parse(text)
    return {"type": "SUBQUERY", "alias": "shown", "subquery": {"node": statement["node"]}}


def _describe(node: Node) -> Node:
    """``SHOW t`` as ``DESCRIBE t``."""
    table = {
        "type": "BASE_TABLE",
        "table_name": node["table_name"],
        "qualified_name": node["qualified_name"],
    }
    query = {
        "type": "SELECT_NODE",
        "cte_map": {},
        "select_list": [{"class": "STAR", "type": "STAR"}],
        "from_table": table,
        "aggregate_handling": "STANDARD_HANDLING",
    }
    return {"type": "SHOW_REF", "query": query, "show_type": "DESCRIBE", "qualified_name": {}}


def described(connection: duckdb.DuckDBPyConnection, syntax: Syntax, node: Node) -> Node | None:
    """The rows of a DESCRIBE over the connection's tables; None for anything else.

    None too where DuckDB refuses: the statement as a whole is then refused, with the place.
    """
    if node.get("type") != "SHOW_REF" or node.get("show_type", "DESCRIBE") != "DESCRIBE":
        return None
    query = syntax.text({"node": node["query"], "named_param_map": []})
    try:
        rows = connection.execute(f"DESCRIBE {query}").fetchall()
    except duckdb.Error:
        return None
    names = [column[0] for column in connection.description or ()]
    texts = [["NULL" if v is None else quote_literal(str(v)) for v in row] for row in rows]
    return constant_rows(syntax, names, texts, ["VARCHAR"] * len(names))
