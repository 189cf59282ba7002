"""Constants of a plan as Python values, for statistics and estimates only (never for results)."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache, lru_cache

import duckdb

from crossdock.planner.nodes import Constant

#: What a literal or a Parquet statistic may be. Values of two kinds never compare.
Comparable = int | Decimal | str | date | datetime

_WHOLE = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
)
_EXACT = _WHOLE | {"VARCHAR", "DATE", "TIMESTAMP"}


def is_exact_type(type_text: str) -> bool:
    """True for types whose Python values order as the engine's do.

    Floating types are not: NaN is above every value but in no statistic. Zoned times are not: their
    text depends on the session.
    """
    return type_text in _EXACT or type_text.startswith("DECIMAL(")


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config={"threads": 1})


@lru_cache(maxsize=4096)
def literal_value(constant: Constant) -> Comparable | None:
    """The constant's value; None for NULL and for types that are not compared in Python."""
    if not is_exact_type(constant.type):
        return None
    row = _connection().cursor().execute(f"SELECT {constant.sql}").fetchone()
    value: Comparable | None = row[0] if row else None
    return value


def as_number(value: object) -> float | None:
    """A position on a line, to interpolate ranges; None for what has none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float | Decimal):
        return float(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC).timestamp()
    if isinstance(value, date):
        return float(value.toordinal()) * 86400.0
    return None
