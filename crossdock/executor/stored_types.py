"""How a value is kept in a Parquet file that others read: whole, or refused.

DuckDB's own COPY turns 128-bit integers into DOUBLE, and shortens intervals, without a word.
"""

from __future__ import annotations

from crossdock.errors import CarrierError
from crossdock.executor.types import SqlType, parse_type

_EXACT = frozenset(
    {
        *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT"),
        *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL"),
        *("VARCHAR", "BLOB", "UUID", "JSON", "GEOMETRY", "VARIANT", '"NULL"', "ENUM"),
        *("DATE", "TIME", "TIME_NS", "TIMESTAMP_S", "TIMESTAMP_MS"),
        *("TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"),
    }
)
_WIDE = frozenset({"HUGEINT", "UHUGEINT"})
_NESTED = frozenset({"LIST", "ARRAY", "MAP", "STRUCT"})


def in_parquet(sql: str, type: str) -> str:
    """SQL of a column as COPY is to write it. Raises ``CarrierError``, saying what to cast.

    A 128-bit integer becomes DECIMAL(38, 0), which fails, and does not round, beyond 38 digits.
    """
    parsed = parse_type(type)
    if parsed.name in _WIDE:
        return f"CAST({sql} AS DECIMAL(38, 0))"
    _require_exact(parsed, type)
    return sql


def _require_exact(parsed: SqlType, whole: str) -> None:
    if parsed.name in _EXACT:
        return
    if parsed.name not in _NESTED:
        raise CarrierError(
            f"Parquet cannot hold {whole} unchanged; cast it, for example to VARCHAR, or write CSV"
        )
    for _, member in parsed.members:
        _require_exact(member, whole)
