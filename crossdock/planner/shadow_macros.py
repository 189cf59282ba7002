"""Macros on the planner connection: whether DuckDB takes one, why a call fits none of its forms.

Statements never need them there: macros are written out before they are bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from crossdock.catalog import Catalog
from crossdock.errors import CrossdockError
from crossdock.planner.definitions import Overload, Parameter, overloads_of
from crossdock.planner.expansion import Expansion
from crossdock.planner.shadow import ShadowTables, quote
from crossdock.planner.syntax import Node, Syntax, table_path, table_references
from crossdock.tables import Entry


class ShadowMacros:
    """Makes macros whose bodies read planner tables and call no other macro."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        syntax: Syntax,
        shadow: ShadowTables,
        catalog: Catalog,
    ) -> None:
        self._connection = connection
        self._syntax = syntax
        self._shadow = shadow
        self._catalog = catalog

    @contextmanager
    def made(self) -> Iterator[None]:
        """With every macro of the catalog that DuckDB takes."""
        entries = list(self._catalog.macros().values())
        try:
            for entry in entries:
                self._try(entry)
            yield
        finally:
            for entry in entries:
                self.drop(entry)

    def create(self, entry: Entry) -> None:
        """Raises ``duckdb.Error``, ``SqlError`` and ``TableError``."""
        forms = ", ".join(self._form(form) for form in overloads_of(entry))
        self._connection.execute(f"CREATE OR REPLACE MACRO {quote(entry.name)} {forms}")

    def drop(self, entry: Entry) -> None:
        """Forget it, if it was made."""
        for kind in ("MACRO", "MACRO TABLE"):
            self._connection.execute(f"DROP {kind} IF EXISTS {quote(entry.name)}")

    def _try(self, entry: Entry) -> None:
        try:
            self.create(entry)
        except (duckdb.Error, CrossdockError):
            return  # what it reads is not there any more: a call of it is refused all the same

    def _form(self, form: Overload) -> str:
        parameters = ", ".join(map(_parameter, form.parameters))
        if form.is_table:
            (statement,) = self._syntax.parse(form.body)
            return f"({parameters}) AS TABLE {self._syntax.text(self._over_tables(statement))}"
        (statement,) = self._syntax.parse(f"SELECT {form.body}")
        (item,) = self._over_tables(statement)["node"]["select_list"]
        return f"({parameters}) AS {self._syntax.expression_text(item)}"

    def _over_tables(self, tree: Node) -> Node:
        """The body without views and other macros, its tables made."""
        names = self._catalog.names()
        expansion = Expansion(self._syntax, self._catalog, frozenset(map(str.lower, names)))
        tree = expansion.of(tree) or tree
        named = {table_path(node)[-1].lower() for node in table_references(tree)}
        tables = [self._catalog.get(name) for name in names if name.lower() in named]
        self._shadow.ensure(tables, ())
        return tree


def _parameter(parameter: Parameter) -> str:
    kind = f" {parameter.type}" if parameter.type else ""
    default = f" := {parameter.default}" if parameter.default else ""
    return f"{quote(parameter.name)}{kind}{default}"
