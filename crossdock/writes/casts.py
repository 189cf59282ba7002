"""Whether values of one type can ever be cast to another: DuckDB says so only of a value."""

from __future__ import annotations

import duckdb

from crossdock.errors import CarrierError
from crossdock.executor.types import SqlType, parse_type

_MOMENT = "2000-01-01 00:00:00"
#: A value of each type, as text. VARCHAR is castable to all, and its values decide.
_SAMPLES = {
    "BOOLEAN": "true",
    "BLOB": "a",
    "BIT": "1",
    "UUID": "00000000-0000-0000-0000-000000000000",
    "INTERVAL": "1 day",
    "DATE": "2000-01-01",
    "TIME": "00:00:00",
    "TIME WITH TIME ZONE": "00:00:00+00",
    "LIST": "[]",
    "MAP": "{}",
    **dict.fromkeys(
        (
            *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE"),
            *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "DECIMAL"),
        ),
        "1",
    ),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), _MOMENT),
    "TIMESTAMP WITH TIME ZONE": _MOMENT,
}
_NEVER = "Unimplemented type for cast"


def why_never(connection: duckdb.DuckDBPyConnection, source: str, target: str) -> str:
    """DuckDB's reason why no value of ``source`` is cast to ``target``; "" if some may be."""
    sample = _sample(source)
    if sample is None or source == target:
        return ""
    try:
        connection.execute(f"SELECT CAST(CAST('{sample}' AS {source}) AS {target})").fetchall()
    except duckdb.Error as error:
        reason = str(error).partition("Error: ")[2].split("\n")[0]
        return reason if _NEVER in reason else ""
    return ""


def _sample(type: str) -> str | None:
    try:
        parsed: SqlType = parse_type(type)
    except CarrierError:
        return None
    return _SAMPLES.get(parsed.name)
