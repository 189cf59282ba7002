"""Carriers: how a value of any engine type passes through Parquet unchanged.

Parquet files alter some types silently: 128-bit integers become DOUBLE, intervals lose precision,
a union forgets its tag. ``encode`` rewrites a column into types that Parquet keeps, ``decode``
undoes it exactly. Both are recursive over the type, so an inner HUGEINT is treated like an outer
one, and both leave columns alone that need nothing.

Aggregate states are carried as the layout the engine itself stores them in.

==================  ==========================================================
engine type         carrier
==================  ==========================================================
HUGEINT, UHUGEINT   STRUCT(hi, lo) of 64-bit halves: 5 times faster than text
INTERVAL            STRUCT(months, days, micros)
TIMETZ, BIT,        VARCHAR
BIGNUM, ENUM
TIMESTAMP_S, _MS    TIMESTAMP
ARRAY               LIST
TUPLE               STRUCT(f1, f2, ...)
UNION               STRUCT(tag, f1, f2, ...)
MAP                 LIST of STRUCT(key, value), if key or value need a carrier
==================  ==========================================================

Limits: whole numbers inside a VARIANT come back in the width Parquet has for them, and a VARIANT
that holds a type Parquet's has not (INTERVAL, TIMETZ, BIT, BIGNUM) is refused at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from crossdock.errors import CarrierError
from crossdock.executor.types import SqlType, parse_type, quote
from crossdock.planner.aggregate_states import bound_arguments, state_layout
from crossdock.planner.plan import CarriedColumn

_UNCHANGED = frozenset(
    {
        *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT"),
        *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL"),
        *("VARCHAR", "BLOB", "UUID", "JSON", "GEOMETRY", "VARIANT", '"NULL"'),
        *("DATE", "TIME", "TIME_NS"),
        *("TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"),
    }
)
_AS_TEXT = frozenset({"TIME WITH TIME ZONE", "BIT", "BIGNUM", "ENUM"})
_AS_TIMESTAMP = frozenset({"TIMESTAMP_S", "TIMESTAMP_MS"})
_NESTED = frozenset({"LIST", "ARRAY", "MAP", "STRUCT", "TUPLE", "UNION"})
_WORD = "18446744073709551616"  # 2 ** 64
_LOW = "18446744073709551615"


def encode(sql: str, type: str) -> str:
    """SQL that turns ``sql`` of ``type`` into its carrier; ``sql`` itself if none is needed.

    ``sql`` is repeated in the result, so it must be a plain column reference.
    """
    return _Encoder().apply(sql, parse_type(type))


def decode(sql: str, type: str) -> str:
    """SQL that turns the carrier ``sql`` back into a value of exactly ``type``."""
    parsed = parse_type(type)
    return f"CAST({_Decoder().apply(sql, parsed)} AS {parsed})"


def carrier_type(type: str) -> str:
    """The type a column of ``type`` has in a section, for empty inputs."""
    return _carrier(parse_type(type))


def encode_column(sql: str, column: CarriedColumn) -> str:
    """``encode`` for a column of a plan, aggregate states included."""
    if not column.aggregate:
        return encode(sql, column.type)
    layout = parse_type(_layout(column))
    if not _needs(layout):
        return sql  # Parquet takes a state as its layout
    return _Encoder().apply(_bare(sql, layout), layout)


def decode_column(sql: str, column: CarriedColumn) -> str:
    """``decode`` for a column of a plan, aggregate states included."""
    if not column.aggregate:
        return decode(sql, column.type)
    name, types = bound_arguments(column.aggregate, column.arguments)
    signature = ", ".join(_literal(each) for each in types)
    value = decode(sql, _layout(column))
    if any(column.constants):
        constants = ", ".join(each or "NULL" for each in column.constants)
        return f"to_aggregate_state({value}, '{name}', [{signature}], [{constants}])"
    return f"to_aggregate_state({value}, '{name}', [{signature}]::VARCHAR[])"


def column_carrier_type(column: CarriedColumn) -> str:
    """``carrier_type`` for a column of a plan."""
    return carrier_type(_layout(column) if column.aggregate else column.type)


def check_columns(columns: tuple[CarriedColumn, ...], names: tuple[str, ...] = ()) -> None:
    """Raise ``CarrierError``, naming column and type, if one of ``columns`` cannot be carried."""
    for index, column in enumerate(columns):
        label = names[index] if index < len(names) else f"c{index}"
        try:
            encode_column("x", column)
        except CarrierError as error:
            raise CarrierError(f"column {label}: {error}") from None


def _layout(column: CarriedColumn) -> str:
    layout = state_layout(column.aggregate, column.arguments, column.constants)
    if layout is None:
        arguments = ", ".join(column.arguments)
        raise CarrierError(f"the state of {column.aggregate}({arguments}) cannot be carried")
    return layout


def _bare(sql: str, layout: SqlType) -> str:
    """The state as a value of its layout. A plain cast from a list to the same list is no cast to
    the engine and leaves it a state; inside a struct it is one.
    """
    if layout.name in ("LIST", "ARRAY"):
        return f"CAST(struct_pack(state := {sql}) AS STRUCT(state {layout})).state"
    return f"CAST({sql} AS {layout})"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _needs(type: SqlType) -> bool:
    """Whether values of ``type`` change on their way through Parquet."""
    if type.name in _NESTED:
        if any(child.name == "VARIANT" for _, child in type.members):
            raise CarrierError(f"type {type} cannot be carried: a VARIANT must be a whole column")
        own = type.name in ("ARRAY", "TUPLE", "UNION")
        return own or any(_needs(child) for _, child in type.members)
    if type.name in _UNCHANGED:
        return False
    if type.name in _AS_TEXT | _AS_TIMESTAMP | {"HUGEINT", "UHUGEINT", "INTERVAL"}:
        return True
    raise CarrierError(f"type {type} cannot be carried between stages")


def _carrier(type: SqlType) -> str:
    if not _needs(type):
        return str(type)
    children = [_carrier(child) for _, child in type.members]
    match type.name:
        case "HUGEINT":
            return "STRUCT(hi BIGINT, lo UBIGINT)"
        case "UHUGEINT":
            return "STRUCT(hi UBIGINT, lo UBIGINT)"
        case "INTERVAL":
            return "STRUCT(months INTEGER, days INTEGER, micros BIGINT)"
        case "LIST" | "ARRAY":
            return f"{children[0]}[]"
        case "MAP":
            return f'STRUCT("key" {children[0]}, "value" {children[1]})[]'
        case "STRUCT":
            labels = [quote(label) for label, _ in type.members]
        case "TUPLE" | "UNION":
            labels = [f"f{position}" for position in range(1, len(children) + 1)]
        case name:
            return "TIMESTAMP" if name in _AS_TIMESTAMP else "VARCHAR"
    fields = [f"{label} {child}" for label, child in zip(labels, children, strict=True)]
    if type.name == "UNION":
        fields.insert(0, "tag VARCHAR")
    return f"STRUCT({', '.join(fields)})"


def _unless_null(sql: str, expression: str) -> str:
    return f"CASE WHEN {sql} IS NOT NULL THEN {expression} END"


class _Walker:
    """Shared by both directions: fresh names for lambda parameters."""

    def __init__(self) -> None:
        self._names = count()

    def each(self, sql: str, body: Callable[[str], str]) -> str:
        """``body`` over every element of list ``sql``."""
        name = f"v{next(self._names)}"
        return f"list_transform({sql}, lambda {name}: {body(name)})"


class _Encoder(_Walker):
    def apply(self, sql: str, type: SqlType) -> str:
        if not _needs(type):
            return sql
        children = [child for _, child in type.members]
        match type.name:
            case "HUGEINT" | "UHUGEINT":
                return _unless_null(sql, _halves(sql, type.name))
            case "INTERVAL":
                return _unless_null(sql, _interval_parts(sql))
            case "LIST":
                return self.each(sql, lambda item: self.apply(item, children[0]))
            case "ARRAY":
                plain = f"CAST({sql} AS {children[0]}[])"
                if not _needs(children[0]):
                    return plain
                return self.each(plain, lambda item: self.apply(item, children[0]))
            case "MAP":
                return self.each(f"map_entries({sql})", lambda item: self._entry(item, children))
            case "STRUCT" | "TUPLE" | "UNION":
                return _unless_null(sql, self._record(sql, type))
            case name:
                return f"CAST({sql} AS {'TIMESTAMP' if name in _AS_TIMESTAMP else 'VARCHAR'})"

    def _entry(self, item: str, children: list[SqlType]) -> str:
        key = self.apply(f"struct_extract({item}, 'key')", children[0])
        value = self.apply(f"struct_extract({item}, 'value')", children[1])
        return f'struct_pack("key" := {key}, "value" := {value})'

    def _record(self, sql: str, type: SqlType) -> str:
        fields = []
        if type.name == "UNION":
            fields.append(f"tag := CAST(union_tag({sql}) AS VARCHAR)")
        for position, (label, child) in enumerate(type.members, start=1):
            name = quote(label) if type.name == "STRUCT" else f"f{position}"
            fields.append(f"{name} := {self.apply(_member(sql, type, label, position), child)}")
        return f"struct_pack({', '.join(fields)})"


class _Decoder(_Walker):
    def apply(self, sql: str, type: SqlType) -> str:
        if not _needs(type):
            return sql
        if type.name not in _NESTED:
            return _scalar(sql, type)
        children = [child for _, child in type.members]
        match type.name:
            case "LIST":
                return self.each(sql, lambda item: self.apply(item, children[0]))
            case "ARRAY":
                items = sql
                if _needs(children[0]):
                    items = self.each(sql, lambda item: self._typed(item, children[0]))
                return f"CAST({items} AS {type})"
            case "MAP":
                entries = self.each(sql, lambda item: self._entry(item, children))
                return f"map_from_entries({entries})"
            case "STRUCT":
                return _unless_null(sql, self._struct(sql, type))
            case "TUPLE":
                return _unless_null(sql, self._tuple(sql, type))
        return self._union(sql, type)

    def _typed(self, sql: str, type: SqlType) -> str:
        return f"CAST({self.apply(sql, type)} AS {type})"

    def _entry(self, item: str, children: list[SqlType]) -> str:
        key = self._typed(f"struct_extract({item}, 'key')", children[0])
        value = self._typed(f"struct_extract({item}, 'value')", children[1])
        return f'struct_pack("key" := {key}, "value" := {value})'

    def _struct(self, sql: str, type: SqlType) -> str:
        fields = [
            f"{quote(label)} := {self._typed(f'struct_extract({sql}, {_literal(label)})', child)}"
            for label, child in type.members
        ]
        return f"struct_pack({', '.join(fields)})"

    def _tuple(self, sql: str, type: SqlType) -> str:
        fields = [
            self._typed(f"{sql}.f{position}", child)
            for position, (_, child) in enumerate(type.members, start=1)
        ]
        return f"ROW({', '.join(fields)})"

    def _union(self, sql: str, type: SqlType) -> str:
        arms = [
            f"WHEN {_literal(label)} THEN CAST(union_value({quote(label)} := "
            f"{self._typed(f'{sql}.f{position}', child)}) AS {type})"
            for position, (label, child) in enumerate(type.members, start=1)
        ]
        return f"CASE {sql}.tag {' '.join(arms)} END"


def _scalar(sql: str, type: SqlType) -> str:
    match type.name:
        case "HUGEINT" | "UHUGEINT":
            # 2**64 is given the type, so that neither factor is widened to DOUBLE.
            high = f"CAST({sql}.hi AS {type}) * CAST({_WORD} AS {type})"
            return f"{high} + CAST({sql}.lo AS {type})"
        case "INTERVAL":
            days = f"to_months({sql}.months) + to_days({sql}.days)"
            return f"{days} + to_microseconds({sql}.micros)"
    return f"CAST({sql} AS {type})"


def _member(sql: str, type: SqlType, label: str, position: int) -> str:
    match type.name:
        case "TUPLE":
            return f"struct_extract({sql}, {position})"
        case "UNION":
            return f"union_extract({sql}, {_literal(label)})"
    return f"struct_extract({sql}, {_literal(label)})"


def _halves(sql: str, type: str) -> str:
    high = f"CAST({sql} >> 64 AS {'BIGINT' if type == 'HUGEINT' else 'UBIGINT'})"
    low = f"CAST({sql} & CAST({_LOW} AS {type}) AS UBIGINT)"
    return f"struct_pack(hi := {high}, lo := {low})"


def _interval_parts(sql: str) -> str:
    """Months, days and microseconds as stored, so that '1 month' and '30 days' stay apart."""
    months = f"CAST(year({sql}) * 12 + month({sql}) AS INTEGER)"
    days = f"CAST(day({sql}) AS INTEGER)"
    minutes = f"hour({sql}) * 3600000000 + minute({sql}) * 60000000"
    return (
        f"struct_pack(months := {months}, days := {days}, micros := {minutes} + microsecond({sql}))"
    )
