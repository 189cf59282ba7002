"""Filters pushed into a scan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from crossdock.errors import Unsupported
from crossdock.planner.decode.constants import decode_constant
from crossdock.planner.decode.expressions import decode_expression
from crossdock.planner.decode.functions import COMPARISONS, struct_path
from crossdock.planner.decode.scope import Scope
from crossdock.planner.decode.strict import Json, one_of, require, shape
from crossdock.planner.decode.types import struct_fields
from crossdock.planner.nodes import (
    Comparison,
    Conjunction,
    Expression,
    Operator,
)

_FILTERS = shape("table filters", "filters multi_column_filters")
_ENTRY = shape("table filter", "key value")
_FILTER = shape(
    "table filter",
    "filter_type comparison_type constant child_filters child_filter child_idx child_name values "
    "expr column_indexes",
)


@dataclass(frozen=True, slots=True)
class FilterColumn:
    """What a filter's position reads, and its type."""

    expression: Expression
    type: Json


def decode_table_filters(node: Json, columns: tuple[FilterColumn, ...]) -> tuple[Expression, ...]:
    """Predicates that must all hold, over the scan's ``columns`` (what each position reads)."""
    _FILTERS.check(node)
    predicates: list[Expression] = []
    for entry in node.get("filters") or ():
        _ENTRY.check(entry)
        predicate = _decode(entry["value"], columns[entry.get("key", 0)])
        predicates += _conjuncts(predicate)
    for entry in node.get("multi_column_filters") or ():
        predicates += _conjuncts(_decode_multi_column(entry, columns))
    return tuple(predicates)


def decode_hints(node: Json, columns: tuple[FilterColumn, ...]) -> tuple[Expression, ...]:
    """What optional filters say: true of every row that counts, as an operator above requires it.

    What is not known is left out: a hint is never needed.
    """
    hints: list[Expression] = []
    for entry in node.get("filters") or ():
        column = columns[entry.get("key", 0)]
        for optional in _optionals(entry["value"]):
            try:
                hints += _conjuncts(_decode(optional["child_filter"], column))
            except (KeyError, Unsupported):
                continue
    return tuple(hints)


def _optionals(node: Json) -> list[Json]:
    """Optional filters that must hold together with the others."""
    kind = node["filter_type"].removeprefix("LEGACY_")
    if kind == "CONJUNCTION_AND":
        return [each for child in node["child_filters"] for each in _optionals(child)]
    return [node] if kind == "OPTIONAL_FILTER" else []


def _positions(columns: tuple[FilterColumn, ...], positions: list[int]) -> Scope:
    return Scope(lambda index, _type: columns[positions[index]].expression)


def _conjuncts(predicate: Expression | None) -> tuple[Expression, ...]:
    if predicate is None:
        return ()
    if isinstance(predicate, Conjunction) and predicate.operator == "AND":
        return predicate.children
    return (predicate,)


def _decode(node: Json, column: FilterColumn) -> Expression | None:
    """One column's filter; None if it only narrows reading and rejects no row that counts."""
    _FILTER.check(node)
    kind = node["filter_type"].removeprefix("LEGACY_")
    decode = _KINDS.get(kind)
    if decode is None:
        raise Unsupported(f"table filter {node['filter_type']}")
    return decode(node, column)


def _decode_multi_column(node: Json, columns: tuple[FilterColumn, ...]) -> Expression:
    _FILTER.check(node)
    if node["filter_type"] != "EXPRESSION_FILTER":
        raise Unsupported(f"multi-column table filter {node['filter_type']}")
    positions = require(node, "column_indexes", "multi-column table filter")
    return decode_expression(node["expr"], _positions(columns, positions))


def _comparison(node: Json, column: FilterColumn) -> Expression:
    operator = one_of(COMPARISONS, node["comparison_type"], "comparison")
    return Comparison(operator, column.expression, decode_constant(node["constant"]))


def _is_null(node: Json, column: FilterColumn) -> Expression:
    return Operator("IS NULL", (column.expression,), "BOOLEAN")


def _is_not_null(node: Json, column: FilterColumn) -> Expression:
    return Operator("IS NOT NULL", (column.expression,), "BOOLEAN")


def _in(node: Json, column: FilterColumn) -> Expression:
    return Operator("IN", (column.expression, *map(decode_constant, node["values"])), "BOOLEAN")


def _struct_extract(node: Json, column: FilterColumn) -> Expression | None:
    name = require(node, "child_name", "struct filter")
    names = [field for field, _ in struct_fields(column.type)]
    if name not in names:
        raise Unsupported(f"struct filter on unknown field {name!r}")
    field, type_node = struct_path(column.expression, column.type, [names.index(name)])
    return _decode(node["child_filter"], FilterColumn(field, type_node))


def _and(node: Json, column: FilterColumn) -> Expression | None:
    parts = [_decode(child, column) for child in node["child_filters"]]
    kept = tuple([c for part in parts for c in _conjuncts(part)])
    if not kept:
        return None
    return kept[0] if len(kept) == 1 else Conjunction("AND", kept)


def _or(node: Json, column: FilterColumn) -> Expression | None:
    parts = [_decode(child, column) for child in node["child_filters"]]
    kept = tuple([part for part in parts if part is not None])
    # an alternative that is always true makes the whole always true
    return Conjunction("OR", kept) if len(kept) == len(parts) else None


def _expression(node: Json, column: FilterColumn) -> Expression:
    positions = node.get("column_indexes") or ()
    if len(positions) > 1:
        raise Unsupported("expression filter of one column that reads several")
    return decode_expression(node["expr"], Scope(lambda _index, _type: column.expression))


def _optional(node: Json, column: FilterColumn) -> None:
    """Also held by an operator above, or filled at run time: never needed for the result."""


_KINDS: dict[str, Callable[[Json, FilterColumn], Expression | None]] = {
    "CONSTANT_COMPARISON": _comparison,
    "IS_NULL": _is_null,
    "IS_NOT_NULL": _is_not_null,
    "IN_FILTER": _in,
    "STRUCT_EXTRACT": _struct_extract,
    "CONJUNCTION_AND": _and,
    "CONJUNCTION_OR": _or,
    "EXPRESSION_FILTER": _expression,
    "OPTIONAL_FILTER": _optional,
    "DYNAMIC_FILTER": _optional,
}
