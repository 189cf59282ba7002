"""Views and macros of the catalog, written out in a statement's tree.

What is left names tables and the engine's own functions only, so clocks are pinned, files are found
and one-task texts run without anything being defined on a worker. Parameters take the place of
names as in DuckDB; a call that fits no form of its macro is left for DuckDB to refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from crossdock.errors import SqlError
from crossdock.planner.definitions import Overload, overloads_of, view_of
from crossdock.planner.rewriting import rebuilt
from crossdock.planner.sql_errors import EngineError
from crossdock.planner.sql_text import quote_identifier
from crossdock.planner.syntax import (
    Node,
    Syntax,
    cte_names,
    function_name,
    table_path,
    table_references,
    walk,
    without_places,
)
from crossdock.tables import Entry

#: Definitions inside definitions; more is a definition that leads to itself.
_DEEPEST = 50
#: What a table reference says beside its name and alias.
_KEPT = ("column_name_alias", "sample")
_SCHEMAS = frozenset({"main", "memory"})


class Definitions(Protocol):
    """Where views and macros are looked up, by lower-case name."""

    def views(self) -> Mapping[str, Entry]: ...

    def macros(self) -> Mapping[str, Entry]: ...


class Expansion:
    """The definitions of one statement.

    ``renamed`` has a new name for each table that a view reads and that a WITH entry of the
    statement hides; they stand for the tables of the names they map to.
    """

    def __init__(self, syntax: Syntax, definitions: Definitions, taken: frozenset[str]) -> None:
        """``taken``: lower-case names that tables have."""
        self._syntax = syntax
        self._taken = taken
        self._views = definitions.views()
        self._macros = definitions.macros()
        self.renamed: dict[str, str] = {}
        self.misfits = False  # calls are left that fit no form of their macro

    def of(self, tree: Node) -> Node | None:
        """``tree`` without views and macros; None if it has none.

        Raises:
            SqlError: a definition leads to itself.
        """
        if not self._views and not self._macros:
            return None
        for node in walk(tree):
            path = table_path(node)
            if (path and path[-1].lower() in self._views) or self._macro(node):
                expanded: Node = self._expanded(tree, cte_names(tree), 0)
                return expanded
        return None

    def _expanded(self, tree: Any, hidden: frozenset[str], depth: int) -> Any:
        if depth > _DEEPEST:
            raise SqlError("views or macros are defined by themselves")
        named = {id(node) for node in table_references(tree)}

        def change(node: Node, original: Node) -> Node | None:
            if id(original) in named:
                return self._reference(node, hidden, depth)
            if node.get("type") == "TABLE_FUNCTION":
                return self._table_macro(node, hidden, depth)
            return self._call(node, hidden, depth)

        return rebuilt(self._syntax, tree, change)

    # -- views -------------------------------------------------------------------------------------

    def _reference(self, node: Node, hidden: frozenset[str], depth: int) -> Node | None:
        *schemas, name = table_path(node)
        entry = self._views.get(name.lower())
        if entry is None or any(schema.lower() not in _SCHEMAS for schema in schemas):
            return None
        view = view_of(entry)
        text = view.query
        if view.columns:
            columns = ", ".join(map(quote_identifier, view.columns))
            # On a line of its own: a query may end with a comment.
            text = f"SELECT * FROM ({text}\n) AS {quote_identifier(entry.name)}({columns})"
        query = self._inner(self._parsed(text, entry), hidden, depth)
        return _subquery(query, node, entry.name)

    def _parsed(self, text: str, entry: Entry) -> Node:
        try:
            (statement,) = self._syntax.parse(text)
        except (EngineError, ValueError) as error:
            raise SqlError(f"the {entry.kind} {entry.name} cannot be read: {error}") from error
        query: Node = without_places(statement["node"])
        return query

    def _inner(self, query: Node, hidden: frozenset[str], depth: int) -> Node:
        """A definition's query, ready to stand inside the statement."""
        for node in table_references(query):
            path = table_path(node)
            if len(path) == 1 and path[0].lower() in hidden and path[0].lower() not in self._views:
                _rename(node, self._new_name(path[0]))
        expanded: Node = self._expanded(query, hidden | cte_names(query), depth + 1)
        return expanded

    def _new_name(self, table: str) -> str:
        known = {original.lower(): name for name, original in self.renamed.items()}
        name = known.get(table.lower())
        if name is None:
            name = f"{table} of a view"
            while name.lower() in self._taken:
                name += "_"
            self.renamed[name] = table
        return name

    # -- macros ------------------------------------------------------------------------------------

    def _macro(self, node: Node) -> Entry | None:
        if node.get("class") != "FUNCTION" or node.get("is_operator"):
            return None
        path = node.get("qualified_name", {}).get("path", ())
        if any(schema.lower() not in _SCHEMAS for schema in path[:-1]):
            return None
        return self._macros.get(function_name(node))

    def _call(self, node: Node, hidden: frozenset[str], depth: int) -> Node | None:
        entry = self._macro(node)
        if entry is None:
            return None
        form, values = self._chosen(entry, node, is_table=False)
        if form is None or any(key in node for key in ("distinct", "filter", "export_state")):
            self.misfits = True
            return None
        (body,) = self._syntax.expressions([form.body])
        filled: Node = _filled(self._expanded(body, hidden, depth + 1), values)
        return filled

    def _table_macro(self, node: Node, hidden: frozenset[str], depth: int) -> Node | None:
        entry = self._macro(node["function"])
        if entry is None:
            return None
        form, values = self._chosen(entry, node["function"], is_table=True)
        if form is None or "with_ordinality" in node:
            self.misfits = True
            return None
        query = self._inner(self._parsed(form.body, entry), hidden, depth)
        return _subquery(_filled(query, values), node, entry.name)

    def _chosen(
        self, entry: Entry, call: Node, *, is_table: bool
    ) -> tuple[Overload | None, dict[str, Node]]:
        for form in overloads_of(entry):
            if form.is_table is is_table:
                values = self._values(form, call)
                if values is not None:
                    return form, values
        return None, {}

    def _values(self, form: Overload, call: Node) -> dict[str, Node] | None:
        """What each parameter stands for; None if the call does not fit."""
        names = [parameter.name.lower() for parameter in form.parameters]
        values: dict[str, Node] = {}
        for place, argument in enumerate(call.get("arguments", ())):
            name = str(argument.get("name", "")).lower()
            if not name:
                name = names[place] if place < len(names) else ""
            if name not in names or name in values:
                return None
            values[name] = {k: v for k, v in argument["expression"].items() if k != "alias"}
        for parameter in form.parameters:
            name = parameter.name.lower()
            if name not in values:
                if not parameter.default:
                    return None
                (values[name],) = self._syntax.expressions([parameter.default])
            if parameter.type:
                (cast,) = self._syntax.expressions([f"CAST(NULL AS {parameter.type})"])
                values[name] = {**cast, "child": values[name]}
        return values


def _subquery(query: Node, node: Node, name: str) -> Node:
    kept = {key: node[key] for key in _KEPT if key in node}
    alias = node.get("alias") or name
    return {"type": "SUBQUERY", "alias": alias, "subquery": {"node": query}, **kept}


def _rename(node: Node, name: str) -> None:
    node.setdefault("alias", node["table_name"])
    node["table_name"] = name
    node["qualified_name"] = {"path": [name]}


def _filled(part: Any, values: Mapping[str, Node]) -> Any:
    """``part`` with its parameters replaced; a lambda's own parameters hide them."""
    if isinstance(part, list):
        return [_filled(item, values) for item in part]
    if not isinstance(part, dict):
        return part
    if part.get("class") == "COLUMN_REF":
        names = part.get("column_names", ())
        value = values.get(names[0].lower()) if len(names) == 1 else None
        return part if value is None else _named_as(value, part)
    if part.get("class") == "LAMBDA":
        own = {n.lower() for node in walk(part["lhs"]) for n in node.get("column_names", ())}
        inner = {name: value for name, value in values.items() if name not in own}
        return {k: v if k == "lhs" else _filled(v, inner) for k, v in part.items()}
    return {key: _filled(value, values) for key, value in part.items()}


def _named_as(value: Node, parameter: Node) -> Node:
    return {**value, "alias": parameter["alias"]} if parameter.get("alias") else value
