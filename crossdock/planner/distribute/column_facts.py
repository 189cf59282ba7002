"""What a table's footers, taken together, say of a column."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crossdock.planner.literals import as_number

if TYPE_CHECKING:
    from crossdock.catalog import TableMeta


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """Over all row groups."""

    stored: float | None  # bytes of a value in the files; None: not known of any
    complete: bool  # every row group has statistics
    low: float | None = None
    high: float | None = None
    may_be_null: bool = True


def read_facts(table: TableMeta, name: str) -> ColumnFacts:
    groups = [group for file in table.files for group in file.row_groups]
    total = sum([group.rows for group in groups])
    stored = sum([group.column_bytes.get(name, 0) for group in groups])
    if not (name and total and stored):
        return ColumnFacts(None, complete=False)
    known = [stats for group in groups if (stats := group.stats.get(name)) is not None]
    if len(known) < len(groups):
        return ColumnFacts(stored / total, complete=False)
    return ColumnFacts(
        stored / total,
        complete=True,
        low=min(_finite(s.minimum for s in known), default=None),
        high=max(_finite(s.maximum for s in known), default=None),
        may_be_null=any(s.nulls != 0 for s in known),
    )


def _finite(values: Iterable[object]) -> list[float]:
    numbers = map(as_number, values)
    return [number for number in numbers if number is not None and math.isfinite(number)]
