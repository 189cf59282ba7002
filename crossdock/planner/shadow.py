"""Planner tables: schemas with a small likeness of the rows, so that joins are ordered well.

Row counts are in proportion, one scale for every table of a statement; keys repeat as often as they
may in the data (``i % distinct``, distinct from footers). Rules that read values are switched off,
so no value here can change a result; a table with rows never looks empty. NULLs are read all the
same (EXISTS becomes another join where there are none), so a column has none here only if footers
prove that it has none at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb

from crossdock.catalog import ColumnMeta, TableMeta

LARGEST_SHADOW = 20_000  # rows; with 2,000 a star schema's dimensions became all alike
SMALLEST_SHADOW = 50  # rows; a smaller table keeps its own count
#: Scales are powers of this, so that most statements find their shadows made.
SCALE_STEP = 4
#: Shadows kept for later statements; statements that name files would add them without end.
KEPT_SHADOWS = 200
#: A column of more bits a value is no dictionary code: its values are taken for all different.
_LONGEST_CODE_BITS = 14
_INTEGERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
)


@dataclass(frozen=True, slots=True)
class _Made:
    meta: TableMeta
    rows: int


class ShadowTables:
    """The planner connection's tables, made when a statement names them and kept while true."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._made: dict[str, _Made] = {}
        self._ranges: dict[str, tuple[TableMeta, Mapping[str, _Range]]] = {}

    def ensure(self, tables: Iterable[TableMeta], named: Iterable[str]) -> None:
        """Make the planner's tables those of ``tables``.

        ``named`` are all table names of the statement, lower case: one that is in no table of
        ``tables`` must not be found, although an earlier statement may have had it.
        """
        wanted = {table.name.lower(): table for table in tables}
        self._drop(name for name in named if name not in wanted)
        counts = shadow_rows({name: table.rows for name, table in wanted.items()})
        for name, table in wanted.items():
            self._make(name, _Made(table, counts[name]))
        excess = max(0, len(self._made) - KEPT_SHADOWS)
        self._drop([name for name in self._made if name not in wanted][:excess])

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            if self._made.pop(name, None) is not None:
                self._connection.execute(f"DROP TABLE {quote(name)}")
                self._ranges.pop(name, None)

    def _make(self, name: str, wanted: _Made) -> None:
        if self._made.get(name) == wanted:
            return
        ranges = self._ranges_of(name, wanted.meta)
        filled = _without_null(wanted.meta)
        columns = []
        for column in wanted.meta.columns:
            value = _value(column, ranges.get(column.name), wanted)
            if column.name not in filled:
                value = f"CASE WHEN i < {wanted.rows} THEN {value} END"
            columns.append(f"{value} AS {quote(column.name)}")
        rows = wanted.rows + 1 if wanted.rows else 0
        self._connection.execute(
            f"CREATE OR REPLACE TABLE {quote(wanted.meta.name)} AS "
            f"SELECT {', '.join(columns)} FROM range({rows}) AS shadow(i)"
        )
        self._made[name] = wanted

    def _ranges_of(self, name: str, table: TableMeta) -> Mapping[str, _Range]:
        known = self._ranges.get(name)
        if known is None or known[0] != table:
            known = (table, _ranges(table))
            self._ranges[name] = known
        return known[1]


def shadow_rows(rows: Mapping[str, int]) -> dict[str, int]:
    """Rows of each shadow: one scale for all, at least one where there are rows."""
    largest = max(rows.values(), default=0)
    scale = 1
    while largest > LARGEST_SHADOW * scale:
        scale *= SCALE_STEP
    return {name: max(count // scale, min(count, SMALLEST_SHADOW)) for name, count in rows.items()}


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class _Range:
    """Values of a column over the whole table; both ends of one type."""

    minimum: int | Decimal | date | datetime
    maximum: int | Decimal | date | datetime


def _without_null(table: TableMeta) -> frozenset[str]:
    """Columns of which every row group of every file says that it holds no NULL."""
    groups = [group for file in table.files for group in file.row_groups if group.rows]
    return frozenset(
        column.name
        for column in table.columns
        if all(
            (stats := group.stats.get(column.name)) is not None and stats.nulls == 0
            for group in groups
        )
    )


def _ranges(table: TableMeta) -> dict[str, _Range]:
    found: dict[str, _Range] = {}
    for group in (group for file in table.files for group in file.row_groups):
        for column, stats in group.stats.items():
            low, high = stats.minimum, stats.maximum
            if low is None or high is None or isinstance(low, str) or isinstance(high, str):
                continue
            known = found.get(column)
            if known is None:
                found[column] = _Range(low, high)
            elif type(known.minimum) is type(low):  # else files differ in type: the first decides
                found[column] = _wider(known, low, high)
    return found


def _wider(known: _Range, low: Any, high: Any) -> _Range:
    if known.minimum <= low and high <= known.maximum:
        return known
    return _Range(min(known.minimum, low), max(known.maximum, high))


def _value(column: ColumnMeta, found: _Range | None, made: _Made) -> str:
    """SQL of a column's value in row ``i``."""
    kind, rows = column.type, made.rows
    if kind == "VARCHAR" and rows:
        return f"'v' || CAST(i % {_texts(made.meta, column.name, rows)} AS VARCHAR)"
    if found is None or rows == 0:
        return f"CAST(NULL AS {kind})"
    low, high = found.minimum, found.maximum
    if kind in _INTEGERS and isinstance(low, int) and isinstance(high, int):
        distinct = max(1, min(rows, high - low + 1))
        # From 0 where the type allows: keys of two tables then meet.
        return f"CAST(i % {min(distinct, 127) if kind == 'TINYINT' else distinct} AS {kind})"
    if kind == "DATE" and type(low) is date and type(high) is date:
        days = max(1, min(rows, (high - low).days + 1))
        return f"CAST(DATE '{low}' + CAST(i % {days} AS INTEGER) AS DATE)"
    if kind.startswith("DECIMAL") and isinstance(low, Decimal) and isinstance(high, Decimal):
        return f"CAST(i % {max(1, min(rows, int(high - low) + 1))} + {low} AS {kind})"
    return f"CAST(NULL AS {kind})"


def _texts(table: TableMeta, column: str, rows: int) -> int:
    """About how many texts a column has: few where a value takes few bits, for it is a code then.

    Without this, ``type = 'x'`` would look as if it kept every row, and its table be joined last.
    """
    stored = sum(
        group.column_bytes.get(column, 0) for file in table.files for group in file.row_groups
    )
    bits = 8 * stored / max(table.rows, 1)
    if bits > _LONGEST_CODE_BITS or table.rows <= SMALLEST_SHADOW:
        return rows
    return max(2, min(rows, int(2**bits)))
