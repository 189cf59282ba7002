"""How one value is written: into JSON, and as text for CSV and tables."""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from crossdock.errors import CarrierError
from crossdock.executor.types import SqlType, parse_type

#: Whole numbers beyond it are not kept by readers that know only doubles.
_EXACT = 2**53
_SMALL_INTEGERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "BOOLEAN"}
)
_NUMBERS = _SMALL_INTEGERS | {
    "BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT", "BIGNUM", "DECIMAL", "FLOAT", "DOUBLE",
}  # fmt: skip
#: Types whose own text the engine writes: Python's value would lose digits, range or meaning.
TEXT_TYPES = frozenset(
    {
        "HUGEINT", "UHUGEINT", "BIGNUM", "DECIMAL", "FLOAT", "UUID", "BIT", "ENUM",
        "DATE", "TIME", "TIME_NS", "TIME WITH TIME ZONE", "INTERVAL",
        "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS",
        "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS",
    }
)  # fmt: skip

#: From a value that is not None to what the JSON encoder is given.
Convert = Callable[[Any], object]


def column_type(text: str) -> SqlType:
    """The type of a result column; text we cannot take apart is a type without members."""
    try:
        return parse_type(text)
    except CarrierError:
        return SqlType(text)


def is_text(type: str) -> bool:
    """Whether the engine is to write a column of this type as text."""
    return column_type(type).name in TEXT_TYPES


def row_encoder(types: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
    """Writes a row as one JSON array; ``is_text`` columns come as the engine's text."""
    convert = [json_converter(column_type(type)) for type in types]
    encode = msgspec.json.Encoder().encode

    def line(row: Sequence[Any]) -> bytes:
        return encode([None if v is None else f(v) for f, v in zip(convert, row, strict=True)])

    return line


def is_numeric(type: SqlType) -> bool:
    return type.name in _NUMBERS


def json_converter(type: SqlType, *, top: bool = True) -> Convert:
    """How values of ``type`` enter a JSON document; top-level ones may come as engine text."""
    match type.name:
        case "FLOAT" if top:
            return lambda text: _float(float(text))
        case name if top and name in TEXT_TYPES:
            return lambda text: text
        case name if name in _SMALL_INTEGERS:
            return lambda value: value
        case "HUGEINT" | "UHUGEINT":
            return str
        case "LIST" | "ARRAY":
            each = _nullable(json_converter(type.members[0][1], top=False))
            return lambda values: [each(value) for value in values]
        case "TUPLE":
            fields = [_nullable(json_converter(child, top=False)) for _, child in type.members]
            return lambda values: [f(v) for f, v in zip(fields, values, strict=True)]
        case "STRUCT":
            named = {
                label: _nullable(json_converter(child, top=False)) for label, child in type.members
            }
            return lambda value: {label: f(value[label]) for label, f in named.items()}
        case "MAP":
            return _map_converter(type)
    return plain_json


def _map_converter(type: SqlType) -> Convert:
    """Pairs in order: JSON's objects have only string keys."""
    key, value = (_nullable(json_converter(child, top=False)) for _, child in type.members)

    def pairs(entries: Mapping[Any, Any]) -> list[list[object]]:
        items = entries.items()
        if type.members[0][1].members:  # unhashable keys: the engine gives two lists
            items = zip(entries["key"], entries["value"], strict=True)  # type: ignore[assignment]
        return [[key(k), value(v)] for k, v in items]

    return pairs


def _nullable(convert: Convert) -> Callable[[Any], object]:
    return lambda value: None if value is None else convert(value)


def plain_json(value: object) -> object:
    """By the Python value alone: inside UNION, VARIANT and whatever has no rule of its own."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if abs(value) <= _EXACT else str(value)
        case float():
            return _float(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case decimal.Decimal():
            return f"{value:f}"
        case datetime.timedelta() | datetime.date() | datetime.time():
            return value if isinstance(value, datetime.timedelta) else value.isoformat()
        case uuid.UUID():
            return str(value)
        case Mapping():
            return {str(key): plain_json(each) for key, each in value.items()}
        case list() | tuple():
            return [plain_json(each) for each in value]
    return str(value)


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def text_converter(type: SqlType) -> Callable[[Any], str]:
    """How values of ``type`` are written in CSV and tables: bare scalars, nested values as JSON."""
    if type.name in TEXT_TYPES:
        return lambda value: str(value)
    if type.name == "BOOLEAN":
        return lambda value: "true" if value else "false"
    convert = json_converter(type)
    encode = msgspec.json.Encoder().encode

    def written(value: Any) -> str:
        converted = convert(value)
        if isinstance(converted, str):
            return converted
        if isinstance(converted, float):
            return repr(converted)
        return encode(converted).decode()

    return written
