"""Parameters become literals of exactly the value and type DuckDB's Python client would bind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from crossdock.errors import SqlError
from crossdock.planner.syntax import Node

Parameters = Sequence[Any] | Mapping[str, Any] | None


def match_parameters(statement: Node, parameters: Parameters) -> dict[str, Any]:
    """Values by identifier ("1", "2", ... or a name).

    Raises:
        SqlError: one is missing, or one has no place in the statement.
    """
    wanted = [str(entry["key"]) for entry in statement.get("named_param_map", ())]
    given = _given(parameters, wanted)
    if isinstance(parameters, Mapping):
        _check_names(wanted, given)
    elif len(given) != (count := max((int(name) for name in wanted), default=0)):
        raise SqlError(f"the statement has {count} parameter(s), {len(given)} value(s) were given")
    return {name: given[name] for name in wanted}


def _given(parameters: Parameters, wanted: Sequence[str]) -> dict[str, Any]:
    if parameters is None:
        return {}
    positional = all(name.isdigit() for name in wanted)
    if isinstance(parameters, Mapping):
        if positional and wanted:
            raise SqlError("the statement has positional parameters (?): pass a list")
        return {str(name).removeprefix("$"): value for name, value in parameters.items()}
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
        raise SqlError("parameters are a list (?, $1) or a dict ($name)")
    if not positional:
        raise SqlError("the statement has named parameters ($name): pass a dict")
    return {str(number): value for number, value in enumerate(parameters, 1)}


def _check_names(wanted: Sequence[str], given: Mapping[str, Any]) -> None:
    missing = sorted(set(wanted) - set(given))
    if missing:
        raise SqlError(f"no value was given for parameter ${', $'.join(missing)}")
    unknown = sorted(set(given) - set(wanted))
    if unknown:
        raise SqlError(f"the statement has no parameter ${', $'.join(unknown)}")


class Literals:
    """Writes Python values as SQL, with DuckDB's own conversion as the judge of types."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def of(self, value: Any, name: str) -> str:
        """SQL text of ``value``. Raises ``SqlError`` naming the parameter and the Python type."""
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str):
            return _string(value, name)
        if isinstance(value, list | tuple):
            return self._list(list(value), name)
        if isinstance(value, dict):
            return self._struct(value, name)
        kind, text = self._converted(value, name)
        return f"CAST({_string(text, name)} AS {kind})"

    def _converted(self, value: Any, name: str) -> tuple[str, str]:
        plain = value.item() if hasattr(value, "item") and not isinstance(value, int) else value
        query = "SELECT typeof($1), CAST($1 AS VARCHAR)"
        try:
            kind, text = self._connection.execute(query, [plain]).fetchall()[0]
        except (duckdb.Error, OverflowError) as error:
            reason = str(error).splitlines()[0]
            kind = type(value).__name__
            raise SqlError(f"parameter {name}: cannot pass this {kind}: {reason}") from error
        return str(kind), str(text)

    def _list(self, values: list[Any], name: str) -> str:
        kind, _ = self._converted(values, name)
        items = [self.of(value, name) for value in values]
        if '"NULL"' in kind:  # no element tells a type
            return f"[{', '.join(items)}]"
        element = kind.removesuffix("[]")
        return f"CAST([{', '.join(f'CAST({item} AS {element})' for item in items)}] AS {kind})"

    def _struct(self, values: dict[Any, Any], name: str) -> str:
        kind, _ = self._converted(values, name)
        if kind.startswith("MAP("):
            keys, entries = values.get("key", []), values.get("value", [])
            return f"MAP({self._list(list(keys), name)}, {self._list(list(entries), name)})"
        fields = (
            f"{_string(str(key), name)}: {self._field(value, name)}"
            for key, value in values.items()
        )
        return f"{{{', '.join(fields)}}}"

    def _field(self, value: Any, name: str) -> str:
        text = self.of(value, name)
        return f"CAST({text} AS VARCHAR)" if isinstance(value, str) else text


def _string(value: str, name: str) -> str:
    try:
        data = value.encode()
    except UnicodeEncodeError as error:
        raise SqlError(f"parameter {name}: the text is not valid Unicode") from error
    if "\0" in value:  # the parser takes NUL for the end of the text
        return "decode(CAST('" + "".join(f"\\x{byte:02X}" for byte in data) + "' AS BLOB))"
    return "'" + value.replace("'", "''") + "'"
