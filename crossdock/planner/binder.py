"""From a user's statement to DuckDB's bound plan, or to an error in the user's terms.

A planner connection holds a shadow of the tables a statement names and no data. What would differ
between workers is fixed here: parameters, file references and the clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import duckdb

from crossdock.catalog import Catalog, TableMeta
from crossdock.errors import SettingError, SqlError, Unsupported
from crossdock.planner.decode import SERIALIZE_PLAN, decode_plan_json, parse_plan_text
from crossdock.planner.expansion import Expansion
from crossdock.planner.file_references import FileReferences
from crossdock.planner.key_tests import wanted_partitions
from crossdock.planner.optimizer_rules import WHITELIST, disabled_optimizers
from crossdock.planner.parameters import Literals, Parameters, match_parameters
from crossdock.planner.pinning import Clock, clock_keyword, is_volatile
from crossdock.planner.plan import ResultColumn
from crossdock.planner.recursion import deep_recursion
from crossdock.planner.rewriting import Rewriting
from crossdock.planner.shadow import ShadowTables
from crossdock.planner.shadow_macros import ShadowMacros
from crossdock.planner.shows import Shows, described
from crossdock.planner.sql_errors import EngineError, sql_error
from crossdock.planner.sql_text import quote_identifier
from crossdock.planner.statements import TableFunctions, parse_one, refuse_unsupported
from crossdock.planner.syntax import Node, Syntax, cte_entries, table_path, table_references
from crossdock.tables import Entry

SESSION_SETTINGS = ("TimeZone", "Calendar")
_LOCKED = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "threads": "1",
}


#: A table that stands for one that is to be made.
_PROBE = "temp.crossdock_probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundStatement:
    """A statement that means the same on every worker."""

    sql: str  # no parameters, no file references, no clock
    original: str  # the user's own text
    plan: Mapping[str, Any] | None  # DuckDB's serialised logical plan
    reason: str = ""  # why there is no plan
    columns: tuple[ResultColumn, ...]
    tables: Mapping[str, TableMeta]  # by the names used in ``sql``
    session: tuple[tuple[str, str], ...]  # DuckDB settings that travel with the plan
    volatile: bool = False  # random() and kin: two runs differ


class Binder:
    """Binds statements against a catalog. Safe to share between threads; binds one at a time.

    Args:
        catalog: tables that statements may name.
        timezone: session time zone; None: the machine's.
        rules: of the optimizer, that may be on; fewer make dearer plans of the same meaning.

    Raises:
        SettingError: the time zone is unknown.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        timezone: str | None = None,
        rules: Collection[str] = WHITELIST,
    ) -> None:
        self._catalog = catalog
        self._connection = duckdb.connect(config=dict(_LOCKED))
        self._lock = Lock()
        if timezone is not None:
            _set_timezone(self._connection, timezone)
        self._rules = frozenset(rules)
        self._disable(self._rules)
        settings = ", ".join(f"current_setting('{name}')" for name in SESSION_SETTINGS)
        values = self._connection.execute(f"SELECT {settings}").fetchall()[0]
        self._session = tuple(zip(SESSION_SETTINGS, map(str, values), strict=True))
        self._syntax = Syntax(self._connection)
        self._shadow = ShadowTables(self._connection)
        self._macros = ShadowMacros(self._connection, self._syntax, self._shadow, catalog)

    def close(self) -> None:
        self._connection.close()

    @property
    def engine(self) -> duckdb.DuckDBPyConnection:
        """What it asks: an engine without data or files. Not while another thread binds."""
        return self._connection

    def bind(self, sql: str, parameters: Parameters = None) -> BoundStatement:
        """Bind one SELECT.

        Args:
            sql: the statement.
            parameters: a sequence for ``?`` and ``$1``, a mapping for ``$name``.

        Raises:
            SqlError: refused, with DuckDB's reason and the place in ``sql``.
            TableError: a table's files cannot be read.
        """
        with self._lock, deep_recursion():
            try:
                return self._bind(sql, parameters)
            except RecursionError as error:
                raise SqlError("the statement is nested too deeply") from error

    def created_columns(
        self, bound: BoundStatement, names: Sequence[str] = ()
    ) -> tuple[ResultColumn, ...]:
        """What CREATE TABLE would make of ``bound``'s columns, the first ones called ``names``.

        Right after ``bind``. Raises ``SqlError`` with DuckDB's reason.
        """
        listed = f"({', '.join(map(quote_identifier, names))})" if names else ""
        text = bound.sql.strip().rstrip(";")
        # A line of its own for what follows: the text may end in a comment.
        return self._declared(f"{listed} AS {text}\nWITH NO DATA")

    def declared_columns(self, definition: str) -> tuple[ResultColumn, ...]:
        """Columns of CREATE TABLE ``definition``, in parentheses. Raises ``SqlError``."""
        return self._declared(definition)

    def _declared(self, definition: str) -> tuple[ResultColumn, ...]:
        with self._lock:
            try:
                self._connection.execute(f"CREATE TEMP TABLE {_PROBE} {definition}")
                found = self._connection.execute(f"DESCRIBE {_PROBE}").fetchall()
            except duckdb.Error as error:
                raise SqlError(_reason(error)) from error
            finally:
                self._connection.execute(f"DROP TABLE IF EXISTS {_PROBE}")
        for name, _, nullable, key, default, _ in found:
            if nullable != "YES" or key or default:
                raise SqlError(f"column {name}: constraints and defaults are not supported")
        return tuple(ResultColumn(name=name, type=kind) for name, kind, *_ in found)

    def check_insert(self, table: TableMeta, around: str, bound: BoundStatement) -> None:
        """Let DuckDB judge an INSERT of ``bound``'s rows; ``around`` is what stands before them.

        Right after ``bind``. Raises ``SqlError`` with DuckDB's reason.
        """
        columns = ", ".join(f"{quote_identifier(c.name)} {c.type}" for c in table.columns)
        with self._lock:
            try:
                self._connection.execute(
                    f"CREATE TEMP TABLE {quote_identifier(table.name)} ({columns})"
                )
                self._connection.execute(f"EXPLAIN {around} {bound.sql}")
            except duckdb.Error as error:
                raise SqlError(_reason(error)) from error
            finally:
                self._connection.execute(
                    f"DROP TABLE IF EXISTS temp.{quote_identifier(table.name)}"
                )

    def check_macro(self, entry: Entry) -> None:
        """Raises ``SqlError`` with DuckDB's reason if it would not take this macro."""
        with self._lock, self._macros.made():
            try:
                self._macros.create(entry)
            except duckdb.Error as error:
                raise SqlError(str(error).partition("Error: ")[2].split("\n\nLINE ")[0]) from error
            finally:
                self._macros.drop(entry)

    def check_syntax(self, sql: str) -> None:
        """Raises ``SqlError`` with DuckDB's reason and the place if it does not parse."""
        with self._lock:
            try:
                self._connection.extract_statements(sql)
            except duckdb.Error as error:
                raise SqlError(str(error).partition("Error: ")[2]) from error

    def _bind(self, sql: str, parameters: Parameters) -> BoundStatement:
        statement = parse_one(self._syntax, self._connection, sql)
        known = frozenset(name.lower() for name in self._catalog.names())
        rewriting = Rewriting(self._syntax, sql, statement)
        expansion = self._expand(rewriting, known)
        tree = rewriting.tree
        named = {table_path(node)[-1].lower() for node in table_references(tree)}
        entries = frozenset(str(each["key"]).lower() for each in cte_entries(rewriting.nodes))
        functions = TableFunctions(self._connection, self._catalog.macros())
        refuse_unsupported(rewriting.nodes, sql, known | entries, functions)
        values = match_parameters(statement, parameters)
        references = FileReferences(sql, known | entries, values)
        rewriting.apply(references.change)
        tables = self._tables(known.intersection(named), references, expansion.renamed)
        hidden = _column_names(rewriting.nodes, tables.values())
        clock = Clock(self._connection, self._syntax)
        literals = Literals(self._connection)
        rewriting.inline({n: literals.of(v, n) for n, v in values.items()})
        rewriting.apply(lambda node: clock.pin(node, sql, hidden))
        self._shadow.ensure(tables.values(), named | entries)
        if any(table.outline_of for table in tables.values()):
            tables = self._narrowed(rewriting.text(), tables)
            self._shadow.ensure(tables.values(), named | entries)
        if rewriting.apply(lambda node: described(self._connection, self._syntax, node)):
            tables = _read(rewriting.tree, tables)
        with self._macros.made() if expansion.misfits else nullcontext():
            return self._bound(rewriting.text(), tables, rewriting, hidden)

    def _expand(self, rewriting: Rewriting, known: frozenset[str]) -> Expansion:
        """Write out what asks about the catalog, then views and macros."""
        views = self._catalog.views()
        names = [*self._catalog.names(), *(view.name for view in views.values())]
        rewriting.apply(Shows(self._syntax, names, self._described).change)
        expansion = Expansion(self._syntax, self._catalog, known)
        rewriting.expand(expansion.of)
        return expansion

    def _described(self, name: str) -> list[tuple[str, str]]:
        """Columns of a table or view."""
        bound = self._bind(f"FROM {quote_identifier(name)}", None)
        return [(column.name, column.type) for column in bound.columns]

    def _bound(
        self,
        text: str,
        tables: Mapping[str, TableMeta],
        rewriting: Rewriting,
        hidden: frozenset[str],
    ) -> BoundStatement:
        plan, refusal = self._plan(text)
        try:
            described = self._connection.execute(f"DESCRIBE {text}").fetchall()
        except duckdb.Error as error:
            raise self._sql_error(refusal, error, text, rewriting) from error
        nodes = rewriting.nodes
        ambiguous = any(clock_keyword(node, rewriting.sql) in hidden for node in nodes)
        return BoundStatement(
            sql=text,
            original=rewriting.sql,
            plan=plan,
            reason=refusal.reason if refusal else "",
            columns=tuple(ResultColumn(name=name, type=kind) for name, kind, *_ in described),
            tables=tables,
            session=self._session,
            volatile=ambiguous or is_volatile(nodes),
        )

    def _tables(
        self, names: frozenset[str], references: FileReferences, renamed: Mapping[str, str]
    ) -> dict[str, TableMeta]:
        catalogued = (self._catalog.look(name) for name in sorted(names))
        tables = {table.name: table for table in catalogued}
        for name, original in renamed.items():
            if self._catalog.has(original):
                tables[name] = replace(self._catalog.look(original), name=name)
        for found, name in references.named.items():
            tables[name] = self._catalog.read(name, found.sources, found.options)
        return tables

    def _narrowed(self, text: str, tables: Mapping[str, TableMeta]) -> dict[str, TableMeta]:
        """``tables`` with the files of those that so far had only columns, as far as wanted."""
        plan, _ = self._plan(text)
        try:
            relation = decode_plan_json(plan) if plan is not None else None
        except Unsupported:
            relation = None  # nothing is ruled out then
        found = dict(tables)
        for name, table in tables.items():
            if table.outline_of:
                wanted = wanted_partitions(relation, table) if relation is not None else None
                whole = self._catalog.narrowed(table.outline_of, wanted)
                found[name] = replace(whole, name=table.name)
        return found

    def _plan(self, text: str) -> tuple[dict[str, Any] | None, EngineError | None]:
        answer = self._serialized(text)
        if not answer:
            # A constant without a text form: where casts of texts are left as they are, none is.
            self._disable(self._rules - {"expression_rewriter"})
            try:
                answer = self._serialized(text)
            finally:
                self._disable(self._rules)
        try:
            document = parse_plan_text(answer)
        except Unsupported as error:
            return None, EngineError(str(error), "unserialisable", None, "")
        if document["error"]:
            return None, EngineError.of(document)
        plan: dict[str, Any] = document["plans"][0]
        return plan, None

    def _serialized(self, text: str) -> str:
        (answer,) = self._connection.execute(SERIALIZE_PLAN, {"sql": text}).fetchall()[0]
        return str(answer or "")

    def _disable(self, rules: frozenset[str]) -> None:
        """Leave only these rules of the optimizer on."""
        disabled = disabled_optimizers(self._connection, rules)
        self._connection.execute(f"SET disabled_optimizers = '{disabled}'")

    def _sql_error(
        self, refusal: EngineError | None, error: duckdb.Error, text: str, rewriting: Rewriting
    ) -> SqlError:
        if refusal is None:
            return SqlError(str(error).split("\n\nLINE ")[0])
        reason = refusal.reason
        if refusal.missing_table:
            reason = self._missing_table(refusal.missing_table)
        position = rewriting.origin(text, refusal.position) if refusal.position else None
        return sql_error(reason, rewriting.sql, position)

    def _missing_table(self, name: str) -> str:
        close = self._catalog.nearest(name)
        if close:
            candidates = " or ".join(f'"{candidate}"' for candidate in close)
            return f"Table with name {name} does not exist!\nDid you mean {candidates}?"
        known = self._catalog.names()
        hint = f"Known tables: {', '.join(known[:10])}" if known else "No tables are known"
        return (
            f"Table with name {name} does not exist!\n{hint}; a file is named FROM 'path.parquet'"
        )


def _reason(error: duckdb.Error) -> str:
    """DuckDB's words, without the kind of error and without a text that is not the user's."""
    return str(error).partition("Error: ")[2].split("\n\nLINE ")[0]


def _set_timezone(connection: duckdb.DuckDBPyConnection, timezone: str) -> None:
    quoted = timezone.replace("'", "''")
    try:
        connection.execute(f"SET TimeZone = '{quoted}'")
    except duckdb.Error as error:
        reason = str(error).split("\n\nLINE ")[0]
        raise SettingError(f"timezone {timezone!r}: {reason}") from error


def _read(tree: Node, tables: Mapping[str, TableMeta]) -> dict[str, TableMeta]:
    """Those that the statement still names: DESCRIBE has become rows."""
    named = {table_path(node)[-1].lower() for node in table_references(tree)}
    return {name: table for name, table in tables.items() if name.lower() in named}


def _column_names(nodes: Sequence[Node], tables: Any) -> frozenset[str]:
    """Lower-case names that a column may have anywhere in a statement of these nodes."""
    names = {column.name.lower() for table in tables for column in table.columns}
    for node in nodes:
        if "column_name_alias" in node:
            names.update(str(alias).lower() for alias in node["column_name_alias"])
        if "alias" in node:
            names.add(str(node["alias"]).lower())
    for entry in cte_entries(nodes):
        names.update(str(alias).lower() for alias in entry["value"].get("aliases", ()))
    return frozenset(names - {""})
