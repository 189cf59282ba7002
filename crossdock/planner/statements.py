"""Which statements are taken, and in what words the others are refused."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

import duckdb

from crossdock.errors import SqlError
from crossdock.planner.definitions import read_change
from crossdock.planner.sql_errors import EngineError, Position, sql_error
from crossdock.planner.syntax import Node, Syntax, table_path

#: Table functions that read no file, no network and nothing of the planner's own state.
TABLE_FUNCTIONS = frozenset(
    {
        "generate_series",
        "icu_calendar_names",
        "json_each",
        "json_tree",
        "pg_timezone_names",
        "range",
        "repeat",
        "repeat_row",
        "test_all_types",
        "test_vector_types",
        "unnest",
    }
)
FILE_FUNCTIONS = frozenset(
    {
        *("read_parquet", "parquet_scan", "read_csv", "read_csv_auto"),
        *("read_json", "read_json_auto", "read_ndjson", "read_ndjson_auto", "iceberg_scan"),
    }
)
_FILE_FUNCTION_PREFIXES = ("read_", "sniff_", "parquet_", "glob", "arrow_", "pandas_", "python_")
_SYSTEM_SCHEMAS = frozenset({"information_schema", "pg_catalog", "system", "temp"})
_SYSTEM_PREFIXES = ("duckdb_", "pg_", "sqlite_", "pragma_")

_TABLES_HINT = "name tables with `crossdock tables add` or connect(tables=...)"
_ADVICE = {
    "ALTER": _TABLES_HINT,
    "ATTACH": "databases cannot be attached; Parquet, CSV and JSON files are read",
    "CALL": "only SELECT statements run",
    "COPY": "COPY ... TO writes a folder or a file",
    "CREATE": f"{_TABLES_HINT}, or use WITH for a named subquery",
    "CREATE_FUNC": "use WITH, or write the expression out",
    "DELETE": "CREATE OR REPLACE TABLE name AS SELECT the rows to keep",
    "DROP": "remove tables with `crossdock tables remove`",
    "EXECUTE": "pass parameters to execute() instead of preparing",
    "EXPLAIN": "use the client's or the command line's explain",
    "EXPORT": "fetch the rows of a SELECT and write them where you need them",
    "INSERT": "INSERT INTO a table that CREATE TABLE made",
    "LOAD": "extensions cannot be installed or loaded",
    "MERGE_INTO": "CREATE OR REPLACE TABLE name AS SELECT the rows wanted",
    "PRAGMA": "settings are given to connect() or the command line",
    "PREPARE": "pass parameters to execute() instead of preparing",
    "SET": "settings are given to connect() or the command line",
    "TRANSACTION": "every statement runs on its own",
    "UPDATE": "CREATE OR REPLACE TABLE name AS SELECT the rows wanted",
    "VARIABLE_SET": "settings are given to connect() or the command line",
}


def parse_one(syntax: Syntax, connection: duckdb.DuckDBPyConnection, sql: str) -> Node:
    """The tree of the one SELECT in ``sql``.

    Raises:
        SqlError: syntax, no statement, several, or one that is not a query.
    """
    if "\0" in sql:
        raise SqlError("the statement holds a NUL character; write chr(0) instead")
    try:
        statements = syntax.parse(sql)
    except EngineError as error:
        if error.kind == "not implemented" and error.position is None:
            raise _not_a_query(connection, sql, error) from error
        if "max_expression_depth" in error.reason:
            raise SqlError("the statement is nested too deeply (1,000 levels at most)") from error
        raise sql_error(error.reason, sql, error.position) from error
    if not statements:
        raise SqlError("the statement is empty")
    if len(statements) > 1:
        raise _several(len(statements))
    return statements[0]


def _several(count: int) -> SqlError:
    return SqlError(f"one statement at a time: there are {count} here; run them one by one")


def _not_a_query(connection: duckdb.DuckDBPyConnection, sql: str, error: EngineError) -> SqlError:
    if read_change(sql) is not None:
        return SqlError("the statement only changes the catalog: it has no plan; execute it")
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error:  # what stopped the parser stops this too: its reason is the better one
        return SqlError(error.reason)
    if len(statements) > 1:
        return _several(len(statements))
    kind = statements[0].type.name if statements else ""
    if kind == "MULTI":
        return SqlError(
            "PIVOT without a list of values asks for them first, which only a client's connection "
            "does; list them: PIVOT ... ON column IN (value, ...) USING ..."
        )
    if kind in ("SELECT", ""):
        return sql_error(error.reason, sql, error.position)
    advice = _ADVICE.get(kind, "only SELECT statements run")
    return SqlError(f"{_verb(sql, kind)} statements are not taken: {advice}")


def _verb(sql: str, kind: str) -> str:
    """The statement's first word (INSTALL and not LOAD), unless it hides the verb."""
    first = re.match(r"\s*([a-zA-Z]+)", sql)
    word = first.group(1).upper() if first else "WITH"
    return kind.replace("_", " ") if word == "WITH" else word


class TableFunctions:
    """Which table functions there are: DuckDB's own, and the catalog's macros."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, macros: Container[str]) -> None:
        self._connection = connection
        self._macros = macros

    def are_dangerous(self, name: str) -> bool:
        """Whether DuckDB would find a function that may look at more than the catalog's tables."""
        if name in TABLE_FUNCTIONS or name in FILE_FUNCTIONS or name in self._macros:
            return False
        found = self._connection.execute(
            "SELECT 1 FROM duckdb_functions() WHERE lower(function_name) = $1 "
            "AND function_type IN ('table', 'pragma', 'table_macro') LIMIT 1",
            [name],
        ).fetchall()
        return bool(found) or name.startswith(_FILE_FUNCTION_PREFIXES)


def refuse_unsupported(
    nodes: Iterable[Node], sql: str, known: frozenset[str], functions: TableFunctions
) -> None:
    """Refuse what would read outside Parquet tables, or the planner's own state.

    ``known`` are lower-case names that tables and WITH entries may have.

    Raises:
        SqlError: naming the function, view or statement.
    """
    for node in nodes:
        kind = node.get("type")
        if kind == "TABLE_FUNCTION":
            _refuse_function(node, sql, functions)
        if kind == "BASE_TABLE":
            _refuse_system_table(node, sql, known)


def position_of(node: Node) -> Position | None:
    if "query_location" not in node:
        return None
    return Position(node["query_location"], node.get("query_location_length", 1))


def _refuse_function(node: Node, sql: str, functions: TableFunctions) -> None:
    name = str(node["function"]["qualified_name"]["path"][-1])
    bare = name.lower()
    if not functions.are_dangerous(bare):
        return  # if there is no such function, DuckDB says so
    if bare.startswith(_FILE_FUNCTION_PREFIXES):
        reason = f"{name}() is not available: read_parquet(), read_csv() and read_json() read files"
    else:
        reason = f"the table function {name}() is not available"
    raise sql_error(reason, sql, position_of(node))


def _refuse_system_table(node: Node, sql: str, known: frozenset[str]) -> None:
    *qualifiers, name = (part.lower() for part in table_path(node))
    if name in known and not qualifiers:
        return
    if _SYSTEM_SCHEMAS.intersection(qualifiers) or name.startswith(_SYSTEM_PREFIXES):
        written = ".".join(table_path(node))
        reason = f"the system view {written} is not available; SHOW TABLES lists tables"
        raise sql_error(reason, sql, position_of(node))
