"""Changes a statement's tree and writes it back; finds an error's place in the user's own text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crossdock.planner.sql_errors import EngineError, Position
from crossdock.planner.statements import position_of
from crossdock.planner.syntax import Node, Syntax, function_name, walk
from crossdock.planner.tokens import without_empty_statements

#: An alias given by the user, and the place in the text.
_KEPT = ("alias", "query_location", "query_location_length")
Change = Callable[[Node], Node | None]


class Rewriting:
    """One statement on its way to a text that means the same everywhere.

    Column names stay: a column that DuckDB would name after a replaced expression is given that
    name as its alias.
    """

    def __init__(self, syntax: Syntax, sql: str, statement: Node) -> None:
        self._syntax = syntax
        self._tree = statement
        self._changed = False
        self._nodes: list[Node] | None = None
        self.sql = sql
        self.original = statement

    def apply(self, change: Change) -> bool:
        """Replace every node for which ``change`` answers another; it sees changed children.

        Whether there was one.
        """
        if all(change(node) is None for node in self.nodes):
            return False
        self._replace(rebuilt(self._syntax, self._tree, lambda node, _: change(node)))
        return True

    def expand(self, expanded: Callable[[Node], Node | None]) -> None:
        """Take what ``expanded`` makes of the whole tree; None: nothing."""
        tree = expanded(self._tree)
        if tree is not None:
            self._replace(tree)

    def _replace(self, tree: Node) -> None:
        self._changed = True
        self._tree = tree
        self._nodes = None

    @property
    def nodes(self) -> list[Node]:
        """Every node of the tree, parents first."""
        if self._nodes is None:
            self._nodes = list(walk(self._tree))
        return self._nodes

    @property
    def tree(self) -> Node:
        """The statement as it is now."""
        return self._tree

    def inline(self, literals: Mapping[str, str]) -> None:
        """Replace parameters by the SQL texts of their values."""
        if not literals:
            return
        trees = self._syntax.expressions(list(literals.values()))
        by_name = dict(zip(literals, trees, strict=True))

        def change(node: Node) -> Node | None:
            return by_name[node["identifier"]] if node.get("class") == "PARAMETER" else None

        self.apply(change)
        self._tree.pop("named_param_map", None)

    def text(self) -> str:
        """The user's own text if nothing was replaced."""
        if self._changed:
            return self._syntax.text(self._tree)
        return without_empty_statements(self.sql)

    def origin(self, text: str, position: Position) -> Position | None:
        """Where in the user's text the thing at ``position`` of ``text()`` was written."""
        if not self._changed:
            return position
        try:
            (written,) = self._syntax.parse(text)
        except EngineError:
            return None
        path = _path_to(written, position)
        found: Any = self.original
        origin = None
        for key in path or ():
            try:
                found = found[key]
            except (KeyError, IndexError, TypeError):
                return origin  # inside what took its place
            if isinstance(found, dict):
                origin = position_of(found) or origin
        return origin


def rebuilt(syntax: Syntax, root: Any, change: Callable[[Node, Node], Node | None]) -> Any:
    """A copy in which every node for which ``change`` answers another is that other.

    ``change`` sees a node with its children changed, and the node itself as it was. A select item
    that was changed and had no alias keeps the name DuckDB gave it.
    """
    if isinstance(root, list):
        return [rebuilt(syntax, item, change) for item in root]
    if not isinstance(root, dict):
        return root
    node = {key: rebuilt(syntax, value, change) for key, value in root.items()}
    if "select_list" in root:
        pairs = zip(node["select_list"], root["select_list"], strict=True)
        node["select_list"] = [_named(syntax, new, old) for new, old in pairs]
    changed = change(node, root)
    return node if changed is None else _kept(node) | changed


def _named(syntax: Syntax, item: Node, before: Node) -> Node:
    if item == before or before.get("alias") or _spreads(before):
        return item
    if before.get("class") == "COLUMN_REF":
        return {**item, "alias": before["column_names"][-1]}
    return {**item, "alias": syntax.expression_text(before)}


def _spreads(item: Node) -> bool:
    """Whether one select item makes several columns, which one alias must not cover."""
    return any(
        node.get("class") == "STAR" or function_name(node) == "unnest" for node in walk(item)
    )


def _kept(node: Node) -> Node:
    """What stays true of a node whatever takes its place."""
    return {key: node[key] for key in _KEPT if key in node}


def _path_to(root: Any, position: Position) -> tuple[Any, ...] | None:
    """Keys to the innermost object written at ``position``."""
    best: tuple[Any, ...] | None = None
    waiting: list[tuple[Any, tuple[Any, ...]]] = [(root, ())]
    while waiting:
        item, path = waiting.pop()
        if isinstance(item, dict):
            found = position_of(item)
            same = found is not None and found.start == position.start
            if same and (best is None or len(path) > len(best)):
                best = path
            waiting.extend((value, (*path, key)) for key, value in item.items())
        elif isinstance(item, list):
            waiting.extend((value, (*path, index)) for index, value in enumerate(item))
    return best
