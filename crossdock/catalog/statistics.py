"""Footer statistics as Python bounds, for the column types that may be pruned by."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from crossdock.catalog.tables import ColumnStats

#: From a pyarrow ``Statistics`` to bounds; None when they cannot be told.
BoundsReader = Callable[[Any], ColumnStats | None]

EPOCH = datetime(1970, 1, 1)
#: Units of a second in footers; nanoseconds are handled apart.
MICROSECONDS = {"milliseconds": 1000, "microseconds": 1}


def bounds_reader(leaf: Any) -> BoundsReader | None:
    """How to read one flat column's statistics; None if they must not be used.

    Left out: floats (the format's minimum and maximum ignore NaN, which SQL sorts last), blobs,
    times, INT96 and everything nested. ``leaf`` is a pyarrow ``ColumnSchema``.
    """
    kind = leaf.logical_type.type
    physical = leaf.physical_type
    if kind == "TIMESTAMP" and physical == "INT64":
        unit = str(leaf.logical_type).split("timeUnit=")[1].split(",")[0].rstrip(")")
        return lambda found: _timestamps(found, unit)
    integer = kind in ("NONE", "INT") and physical in ("INT32", "INT64")
    if integer or kind in ("STRING", "DATE", "DECIMAL"):
        return _plain
    return None


def is_float(leaf: Any) -> bool:
    """Whether a column may hold NaN. ``leaf`` is a pyarrow ``ColumnSchema``."""
    return leaf.physical_type in ("FLOAT", "DOUBLE") or leaf.logical_type.type == "FLOAT16"


def _plain(found: Any) -> ColumnStats | None:
    nulls = _nulls(found)
    if not found.has_min_max:
        return _without_values(found, nulls)
    try:
        low, high = found.min, found.max
    except (ValueError, OverflowError):  # DATE outside Python's years
        return None
    if not _comparable(low) or not _comparable(high):
        return None
    return ColumnStats(minimum=low, maximum=high, nulls=nulls)


def _comparable(value: object) -> bool:
    return isinstance(value, int | str | Decimal | date)


def _timestamps(found: Any, unit: str) -> ColumnStats | None:
    nulls = _nulls(found)
    if not found.has_min_max:
        return _without_values(found, nulls)
    low, high = (
        _microseconds(found.min_raw, unit, up=False),
        _microseconds(found.max_raw, unit, up=True),
    )
    try:
        minimum, maximum = EPOCH + timedelta(microseconds=low), EPOCH + timedelta(microseconds=high)
    except OverflowError:  # infinity, or outside Python's years
        return None
    return ColumnStats(minimum=minimum, maximum=maximum, nulls=nulls)


def _microseconds(raw: int, unit: str, *, up: bool) -> int:
    if unit == "nanoseconds":
        return -(-raw // 1000) if up else raw // 1000
    return raw * MICROSECONDS[unit]


def _nulls(found: Any) -> int | None:
    return int(found.null_count) if found.has_null_count else None


def _without_values(found: Any, nulls: int | None) -> ColumnStats | None:
    """All NULL is a fact worth keeping; absent bounds beside values say nothing."""
    if found.num_values == 0 and nulls:
        return ColumnStats(minimum=None, maximum=None, nulls=nulls)
    return None
