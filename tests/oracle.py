"""DuckDB on the same files: what every query must give, types included."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

#: Relative difference allowed between floats: aggregates add them up in another order.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Answer:
    columns: tuple[tuple[str, str], ...]  # name, type
    rows: tuple[tuple[Any, ...], ...]
    schema: pa.Schema | None = None


def ask(
    sql: str,
    tables: Mapping[str, Sequence[Path]],
    parameters: Any = None,
    *,
    time_zone: str = "UTC",
    optimizer: bool = True,
) -> Answer:
    """The answer of one DuckDB process over the tables' files."""
    connection = duckdb.connect(config={"python_enable_replacements": False})
    try:
        connection.execute(f"SET TimeZone = '{time_zone}'")
        if not optimizer:
            connection.execute("PRAGMA disable_optimizer")
        for name, paths in tables.items():
            listed = ", ".join("'" + str(path).replace("'", "''") + "'" for path in paths)
            connection.execute(f'CREATE VIEW "{name}" AS FROM read_parquet([{listed}])')
        rows = connection.execute(sql, parameters).fetchall()
        columns = tuple((each[0], str(each[1])) for each in connection.description)
        schema = connection.sql(sql, params=parameters).to_arrow_table().schema
        return Answer(columns, tuple(rows), schema)
    finally:
        connection.close()


def of_cursor(cursor: Any) -> Answer:
    """What a Crossdock cursor gives."""
    rows = tuple(cursor.fetchall())
    return Answer(tuple((each[0], each[1]) for each in cursor.description), rows)


def assert_same(actual: Answer, expected: Answer, *, ordered: bool) -> None:
    """Fail with the first difference of columns, types or rows."""
    assert actual.columns == expected.columns
    assert len(actual.rows) == len(expected.rows)
    left, right = actual.rows, expected.rows
    if not ordered:
        left, right = sorted(left, key=_sort_key), sorted(right, key=_sort_key)
    for position, (mine, theirs) in enumerate(zip(left, right, strict=True)):
        assert same_value(mine, theirs), f"row {position}: {mine!r} is not {theirs!r}"


def same_value(mine: Any, theirs: Any) -> bool:
    """Equal, and of one Python type; floats within the tolerance, NaN equal to NaN."""
    if type(mine) is not type(theirs):
        return False
    if isinstance(mine, float):
        if math.isnan(mine) or math.isnan(theirs):
            return math.isnan(mine) and math.isnan(theirs)
        return math.isclose(mine, theirs, rel_tol=TOLERANCE, abs_tol=1e-12)
    if isinstance(mine, list | tuple):
        return len(mine) == len(theirs) and all(map(same_value, mine, theirs))
    if isinstance(mine, dict):
        return same_value(list(mine.items()), list(theirs.items()))  # a key may be NaN
    return bool(mine == theirs)


def is_ordered(sql: str) -> bool:
    """Whether the outermost SELECT has an ORDER BY."""
    text = sql.upper()
    position = text.rfind("ORDER BY")
    return position >= 0 and text.count("(", position) >= text.count(")", position)


def _sort_key(row: Sequence[Any]) -> str:
    return "|".join(map(_sort_text, row))


def _sort_text(value: Any) -> str:
    """Floats by their first digits, so that both sides sort alike."""
    if isinstance(value, float):
        return f"{value + 0.0:.6e}" if math.isfinite(value) else str(value)  # no -0.0
    if isinstance(value, Decimal):
        return f"{value:f}"
    return f"{type(value).__name__}:{value!r}"
