"""PEP 249's type objects: a column's type code is its SQL type, compared with a family of types."""

from __future__ import annotations

import datetime
import time


class TypeFamily:
    """Equal to every SQL type name that belongs to it, as PEP 249 asks of type objects."""

    def __init__(self, name: str, members: frozenset[str]) -> None:
        self._name = name
        self._members = members

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeFamily):
            return self is other
        return isinstance(other, str) and base_name(other) in self._members

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return self._name


def base_name(type: str) -> str:
    """``DECIMAL`` of ``DECIMAL(9,2)``; nested types keep their own word (``LIST``, ``STRUCT``)."""
    if type.endswith("]"):
        return "LIST" if type.endswith("[]") else "ARRAY"
    return type.split("(", 1)[0].strip()


STRING = TypeFamily("STRING", frozenset({"VARCHAR", "ENUM", "JSON", "UUID", "BIT"}))
BINARY = TypeFamily("BINARY", frozenset({"BLOB", "GEOMETRY"}))
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
NUMBER = TypeFamily(
    "NUMBER",
    frozenset(_INTEGERS)
    | frozenset("U" + name for name in _INTEGERS)
    | {"BIGNUM", "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN"},
)
DATETIME = TypeFamily(
    "DATETIME",
    frozenset(
        {
            "DATE",
            "TIME",
            "TIME_NS",
            "TIME WITH TIME ZONE",
            "TIMESTAMP",
            "TIMESTAMP_S",
            "TIMESTAMP_MS",
            "TIMESTAMP_NS",
            "TIMESTAMP WITH TIME ZONE",
            "INTERVAL",
        }
    ),
)
#: Part of PEP 249; no column has it.
ROWID = TypeFamily("ROWID", frozenset())


# PEP 249's constructors: parameters are plain Python values.
Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:
    """The local date ``ticks`` seconds after the epoch."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    """The local time of day ``ticks`` seconds after the epoch."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """The local time ``ticks`` seconds after the epoch."""
    return Timestamp(*time.localtime(ticks)[:6])
