"""Value JSON to SQL text of exactly the same value and type.

Text goes through the engine's own casts from VARCHAR, which are exact for every type here; no value
passes through a Python date, float format or decimal context.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crossdock.errors import Unsupported
from crossdock.planner.decode.strict import Json, shape
from crossdock.planner.decode.types import element_type, struct_fields, type_text
from crossdock.planner.nodes import Constant
from crossdock.planner.sql_text import quote_identifier, quote_literal

_VALUE = shape("constant", "type is_null value")

_DATE_INFINITY = 2**31 - 1
_TIME_INFINITY = 2**63 - 1
_TIMETZ_MAX_OFFSET = 16 * 3600 - 1  # seconds; the packed offset counts down from it
_INT64_MIN = -(2**63)

#: units per second and digits of the fraction
_TIMESTAMP_UNITS = {
    "TIMESTAMP": (10**6, 6),
    "TIMESTAMP WITH TIME ZONE": (10**6, 6),
    "TIMESTAMP_S": (1, 0),
    "TIMESTAMP_MS": (10**3, 3),
    "TIMESTAMP_NS": (10**9, 9),
}


def decode_constant(node: Json, type_node: Json | None = None) -> Constant:
    """A literal. Raises ``Unsupported`` for a value the engine does not serialise.

    ``type_node`` is the type of a value inside a nested one, which carries none itself.
    """
    type_node = node.get("type") or type_node
    if type_node is None:
        raise Unsupported("constant without a type")
    return Constant(literal(node, type_node), type_text(type_node))


def literal(node: Json, type_node: Json) -> str:
    """SQL text of exactly this value and type."""
    _VALUE.check(node)
    own = node.get("type")
    if own and own.get("id") != "INVALID":
        type_node = own
    if node.get("is_null"):
        return _typed_null(type_text(type_node))
    if "value" not in node:
        raise Unsupported(f"constant of type {type_node['id']} has no value in the plan")
    write = _WRITERS.get(type_node["id"])
    if write is None:
        raise Unsupported(f"constant of type {type_node['id']}")
    return write(node["value"], type_node)


def _typed_null(type_name: str) -> str:
    return f"CAST(NULL AS {type_name})"


def _cast(text: str, type_name: str) -> str:
    return f"CAST({quote_literal(text)} AS {type_name})"


def _number(value: Any, type_node: Json) -> str:
    # Typed even where it is the literal's default: a bare integer is a position in ORDER BY, and an
    # untyped literal picks another overload than the bound type did.
    return (
        f"CAST({value} AS {type_node['id']})" if value >= 0 else _cast(str(value), type_node["id"])
    )


def _wide(value: Any) -> int:
    """128-bit value from its two halves (signed upper for signed types)."""
    return int((value.get("upper", 0) << 64) + value.get("lower", 0))


def _huge(value: Any, type_node: Json) -> str:
    return _cast(str(_wide(value)), type_node["id"])


def _decimal(value: Any, type_node: Json) -> str:
    number = _wide(value) if isinstance(value, dict) else value
    scale = type_node["type_info"].get("scale", 0)
    digits = str(abs(number)).rjust(scale + 1, "0")
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return _cast(f"-{text}" if number < 0 else text, type_text(type_node))


def _floating(value: Any, type_node: Json) -> str:
    return _cast(repr(float(value)), type_node["id"])


def _boolean(value: Any, type_node: Json) -> str:
    return "true" if value else "false"


def _varchar(value: Any, type_node: Json) -> str:
    # SQL text cannot hold a zero character
    text = " || chr(0) || ".join(quote_literal(part) for part in value.split("\0"))
    if "\0" in value:
        text = f"({text})"
    return text if not type_node.get("type_info") else f"CAST({text} AS {type_text(type_node)})"


def _blob(value: Any, type_node: Json) -> str:
    return _cast(value, "BLOB")  # the plan has the escaped text that this cast reads


def _civil(days: int) -> tuple[int, int, int]:
    """(year, month, day) of the proleptic Gregorian calendar, any range; year 0 is 1 BC."""
    era, day_of_era = divmod(days + 719468, 146097)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    return year, month, day_of_year - (153 * shifted_month + 2) // 5 + 1


def _date_text(days: int) -> str:
    year, month, day = _civil(days)
    if year > 0:
        return f"{year:04d}-{month:02d}-{day:02d}"
    return f"{1 - year:04d}-{month:02d}-{day:02d} (BC)"


def _clock_text(units: int, per_second: int, digits: int) -> str:
    seconds, fraction = divmod(units, per_second)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{hour:02d}:{minute:02d}:{second:02d}"
    return f"{text}.{fraction:0{digits}d}" if fraction else text


def _infinity(value: int, infinity: int) -> str | None:
    return {infinity: "infinity", -infinity: "-infinity"}.get(value)


def _date(value: Any, type_node: Json) -> str:
    return _cast(_infinity(value, _DATE_INFINITY) or _date_text(value), "DATE")


def _timestamp(value: Any, type_node: Json) -> str:
    name = type_node["id"]
    per_second, digits = _TIMESTAMP_UNITS[name]
    text = _infinity(value, _TIME_INFINITY)
    if text is None:
        days, rest = divmod(value, 86400 * per_second)
        text = f"{_date_text(days)} {_clock_text(rest, per_second, digits)}"
        if name == "TIMESTAMP WITH TIME ZONE":
            text += "+00"
    return _cast(text, name)


def _time(value: Any, type_node: Json) -> str:
    return _cast(_clock_text(value, 10**6, 6), "TIME")


def _time_ns(value: Any, type_node: Json) -> str:
    return _cast(_clock_text(value, 10**9, 9), "TIME_NS")


def _timetz(value: Any, type_node: Json) -> str:
    micros, packed = value >> 24, value & 0xFFFFFF
    offset = _TIMETZ_MAX_OFFSET - packed
    sign = "-" if offset < 0 else "+"
    text = _clock_text(micros, 10**6, 6) + sign + _clock_text(abs(offset), 1, 0)
    return _cast(text, "TIME WITH TIME ZONE")


def _interval(value: Any, type_node: Json) -> str:
    micros = value.get("micros", 0)
    if micros == _INT64_MIN:
        raise Unsupported("INTERVAL constant of the smallest number of microseconds")
    text = f"{value.get('months', 0)} months {value.get('days', 0)} days {micros} microseconds"
    return _cast(text, "INTERVAL")


def _uuid(value: Any, type_node: Json) -> str:
    # stored with the top bit flipped, so that it sorts as a signed number
    number = ((value.get("upper", 0) + 2**63) << 64) + value.get("lower", 0)
    digits = f"{number:032x}"
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return _cast("-".join(parts), "UUID")


def _enum(value: Any, type_node: Json) -> str:
    return _cast(type_node["type_info"]["values"][value], type_text(type_node))


def _elements(value: Any, element: Json) -> str:
    return ", ".join(literal(child, element) for child in value.get("children") or [])


def _list(value: Any, type_node: Json) -> str:
    return f"CAST([{_elements(value, element_type(type_node))}] AS {type_text(type_node)})"


def _map(value: Any, type_node: Json) -> str:
    entry = element_type(type_node)
    (_, key_type), (_, value_type) = struct_fields(entry)
    entries = [child["value"]["children"] for child in value.get("children") or []]
    keys = ", ".join(literal(key, key_type) for key, _ in entries)
    values = ", ".join(literal(item, value_type) for _, item in entries)
    return (
        f"map(CAST([{keys}] AS {type_text(key_type)}[]), "
        f"CAST([{values}] AS {type_text(value_type)}[]))"
    )


def _struct(value: Any, type_node: Json) -> str:
    parts = zip(value.get("children") or [], struct_fields(type_node), strict=True)
    arguments = (
        f"{quote_identifier(name)} := {literal(child, field)}" for child, (name, field) in parts
    )
    return f"struct_pack({', '.join(arguments)})"


def _tuple(value: Any, type_node: Json) -> str:
    parts = zip(value.get("children") or [], struct_fields(type_node), strict=True)
    return f'"row"({", ".join(literal(child, field) for child, (_, field) in parts)})'


def _union(value: Any, type_node: Json) -> str:
    children = value.get("children") or []
    tag = children[0].get("value", 0)
    name, member = struct_fields(type_node)[tag + 1]
    chosen = literal(children[tag + 1], member)
    return f"CAST(union_value({quote_identifier(name)} := {chosen}) AS {type_text(type_node)})"


_WRITERS: dict[str, Callable[[Any, Json], str]] = {
    "BOOLEAN": _boolean,
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), _number),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), _number),
    **dict.fromkeys(("HUGEINT", "UHUGEINT"), _huge),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _floating),
    **dict.fromkeys(_TIMESTAMP_UNITS, _timestamp),
    "DECIMAL": _decimal,
    "VARCHAR": _varchar,
    "BLOB": _blob,
    "DATE": _date,
    "TIME": _time,
    "TIME_NS": _time_ns,
    "TIME WITH TIME ZONE": _timetz,
    "INTERVAL": _interval,
    "UUID": _uuid,
    "ENUM": _enum,
    "LIST": _list,
    "ARRAY": _list,
    "MAP": _map,
    "STRUCT": _struct,
    "TUPLE": _tuple,
    "UNION": _union,
}
