"""Logical operators: plan JSON to ``nodes.Relation``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crossdock.errors import Unsupported
from crossdock.planner.decode.aggregates import decode_aggregate, decode_window
from crossdock.planner.decode.constants import decode_constant
from crossdock.planner.decode.expressions import (
    decode_expression,
    decode_expressions,
    decode_sort_keys,
)
from crossdock.planner.decode.joins import decode_asof_join, decode_join
from crossdock.planner.decode.rows import readable
from crossdock.planner.decode.scans import decode_get
from crossdock.planner.decode.strict import Json, brief, one_of, require, shape
from crossdock.planner.decode.types import type_text
from crossdock.planner.nodes import (
    Aggregate,
    CrossProduct,
    Cte,
    CteRef,
    Distinct,
    ExpressionRows,
    Filter,
    Limit,
    LimitBound,
    OneRow,
    Order,
    PositionalJoin,
    Project,
    RecursiveCte,
    Relation,
    Sample,
    SetOperation,
    TopN,
    Unnest,
    Values,
    Window,
)

_FILTER = shape("LOGICAL_FILTER", "type children expressions projection_map")
_PROJECTION = shape("LOGICAL_PROJECTION", "type children table_index expressions")
_AGGREGATE = shape(
    "LOGICAL_AGGREGATE_AND_GROUP_BY",
    "type children expressions group_index aggregate_index groupings_index groups grouping_sets "
    "grouping_functions distinct_validity",
)
_WINDOW = shape("LOGICAL_WINDOW", "type children window_index expressions")
_DISTINCT = shape("LOGICAL_DISTINCT", "type children distinct_type distinct_targets order_by")
_ORDERS = shape("DISTINCT ON order", "orders", type=("ORDER_MODIFIER",))
_ORDER = shape("LOGICAL_ORDER_BY", "type children orders projections")
_TOP_N = shape("LOGICAL_TOP_N", "type children orders limit offset", unpruned_offset=(2**64 - 1,))
_LIMIT = shape("LOGICAL_LIMIT", "type children limit_val offset_val", unpruned_offset=(2**64 - 1,))
_BOUND = shape("limit", "type constant_integer constant_percentage expression")
_SET = shape("set operation", "type children table_index column_count setop_all allow_out_of_order")
_CTE = shape(
    "LOGICAL_MATERIALIZED_CTE", "type children table_index column_count ctename materialize"
)
_CTE_REF = shape(
    "LOGICAL_CTE_REF",
    "type children table_index cte_index chunk_types bound_columns materialized_cte",
    is_recurring=(False,),
)
_RECURSIVE = shape(
    "LOGICAL_RECURSIVE_CTE",
    "type children union_all ctename table_index column_count internal_types",
    ref_recurring=(False,),
)
_CHUNK = shape("LOGICAL_CHUNK_GET", "type children table_index chunk_types collection")
_COLLECTION = shape("rows of LOGICAL_CHUNK_GET", "types values")
_EMPTY = shape("LOGICAL_EMPTY_RESULT", "type children return_types bindings")
_DUMMY = shape("LOGICAL_DUMMY_SCAN", "type children table_index")
_EXPRESSION_GET = shape(
    "LOGICAL_EXPRESSION_GET", "type children table_index expr_types expressions"
)
_SAMPLE = shape("LOGICAL_SAMPLE", "type children sample_options")
_OPTIONS = shape("sample options", "sample_size is_percentage method seed repeatable sample_rate")
_UNNEST = shape("LOGICAL_UNNEST", "type children unnest_index expressions")
_BOUND_UNNEST = shape("BOUND_UNNEST", "expression_class type return_type child")
_PAIR = shape("join of two", "type children")

_DISTINCT_TYPES = {"DISTINCT": "", "DISTINCT_ON": "ON"}
_SET_KINDS = {
    "LOGICAL_UNION": "UNION",
    "LOGICAL_EXCEPT": "EXCEPT",
    "LOGICAL_INTERSECT": "INTERSECT",
}
_SAMPLE_METHODS = {"System": "system", "Bernoulli": "bernoulli", "Reservoir": "reservoir"}


def decode_relation(node: Json) -> Relation:
    """A logical operator and all below it. Raises ``Unsupported`` naming what it does not know."""
    decode = _OPERATORS.get(node.get("type", ""))
    if decode is None:
        raise Unsupported(f"operator {node.get('type')}")
    return decode(node)


def _children(node: Json, count: int) -> list[Relation]:
    nodes = node.get("children") or []
    if len(nodes) != count:
        raise Unsupported(f"{node['type']} with {len(nodes)} children")
    return [decode_relation(child) for child in nodes]


def _child(node: Json) -> Relation:
    (child,) = _children(node, 1)
    return child


def _emit(positions: Any, width: int) -> tuple[int, ...]:
    """An absent projection map keeps every column."""
    return tuple(positions) if positions else tuple(range(width))


def _filter(node: Json) -> Relation:
    _FILTER.check(node)
    child = _child(node)
    predicates = decode_expressions(node.get("expressions"), readable(child))
    return Filter(child, predicates, _emit(node.get("projection_map"), len(child.types)))


def _projection(node: Json) -> Relation:
    _PROJECTION.check(node)
    child = _child(node)
    return Project(child, decode_expressions(node["expressions"], readable(child)))


def _aggregate(node: Json) -> Relation:
    _AGGREGATE.check(node)
    child = _child(node)
    scope = readable(child)
    groups = decode_expressions(node.get("groups"), scope)
    calls = tuple([decode_aggregate(call, child, scope) for call in node.get("expressions") or ()])
    sets = tuple([tuple(entry) for entry in node.get("grouping_sets") or ()])
    if sets == (tuple(range(len(groups))),):
        sets = ()
    groupings = tuple([tuple(entry) for entry in node.get("grouping_functions") or ()])
    return Aggregate(child, groups, calls, sets, groupings)


def _window(node: Json) -> Relation:
    _WINDOW.check(node)
    child = _child(node)
    scope = readable(child)
    return Window(child, tuple([decode_window(call, scope) for call in node["expressions"]]))


def _distinct(node: Json) -> Relation:
    _DISTINCT.check(node)
    child = _child(node)
    scope = readable(child)
    on = one_of(_DISTINCT_TYPES, node.get("distinct_type"), "distinct type") == "ON"
    targets = decode_expressions(node.get("distinct_targets"), scope)
    if not on and len(targets) != len(child.types):
        raise Unsupported("DISTINCT that does not compare whole rows")
    orders = node.get("order_by") or {}
    _ORDERS.check(orders)
    return Distinct(child, targets, on, decode_sort_keys(orders.get("orders"), scope))


def _order(node: Json) -> Relation:
    _ORDER.check(node)
    child = _child(node)
    keys = decode_sort_keys(node["orders"], readable(child))
    return Order(child, keys, _emit(node.get("projections"), len(child.types)))


def _top_n(node: Json) -> Relation:
    _TOP_N.check(node)
    child = _child(node)
    keys = decode_sort_keys(node["orders"], readable(child))
    limit, offset = node.get("limit", 0), node.get("offset", 0)
    return TopN(child, keys, limit, offset, _emit(None, len(child.types)))


def _limit(node: Json) -> Relation:
    _LIMIT.check(node)
    child = _child(node)
    limit = _limit_bound(node.get("limit_val") or {}, child)
    return Limit(child, limit, _limit_bound(node.get("offset_val") or {}, child))


def _limit_bound(node: Json, child: Relation) -> LimitBound | None:
    _BOUND.check(node)
    kind = node.get("type", "UNSET")
    if kind == "UNSET":
        return None
    if kind == "CONSTANT_VALUE":
        return LimitBound(rows=node.get("constant_integer", 0))
    if kind == "CONSTANT_PERCENTAGE":
        return LimitBound(percent=require(node, "constant_percentage", "limit"))
    if kind == "EXPRESSION_VALUE":
        expression = require(node, "expression", "limit")
        return LimitBound(expression=decode_expression(expression, readable(child)))
    raise Unsupported(f"limit {kind}")


def _set_operation(node: Json) -> Relation:
    _SET.check(node)
    children = tuple([decode_relation(child) for child in node.get("children") or ()])
    kind, keep_all = _SET_KINDS[node["type"]], bool(node.get("setop_all", True))
    if len(children) == 1 and kind == "UNION" and keep_all:
        return children[0]  # the optimizer dropped the inputs without rows
    if len(children) < 2:
        raise Unsupported(f"{kind} of {len(children)} inputs")
    if len({child.types for child in children}) != 1:
        raise Unsupported(f"{kind} of inputs with different types")
    return SetOperation(kind, keep_all, children)


def _cte(node: Json) -> Relation:
    _CTE.check(node)
    definition, body = _children(node, 2)
    return Cte(node.get("table_index", 0), definition, body)


def _cte_ref(node: Json) -> Relation:
    _CTE_REF.check(node)
    types = tuple([type_text(type_node) for type_node in node.get("chunk_types") or ()])
    return CteRef(node.get("cte_index", 0), types)


def _recursive_cte(node: Json) -> Relation:
    _RECURSIVE.check(node)
    anchor, step = _children(node, 2)
    union_all = bool(node.get("union_all", False))
    return RecursiveCte(node.get("table_index", 0), union_all, anchor, step)


def _chunk(node: Json) -> Relation:
    _CHUNK.check(node)
    collection = require(node, "collection", "LOGICAL_CHUNK_GET")
    _COLLECTION.check(collection)
    types = collection.get("types") or []
    columns = [
        [decode_constant(value, type_node) for value in values]
        for type_node, values in zip(types, collection.get("values") or [], strict=True)
    ]
    return Values(tuple(zip(*columns, strict=True)), tuple([type_text(t) for t in types]))


def _empty(node: Json) -> Relation:
    _EMPTY.check(node)
    return Values((), tuple([type_text(type_node) for type_node in node["return_types"]]))


def _dummy(node: Json) -> Relation:
    _DUMMY.check(node)
    return OneRow()


def _expression_rows(node: Json) -> Relation:
    _EXPRESSION_GET.check(node)
    child = _child(node)
    scope = readable(child)
    rows = tuple([decode_expressions(row, scope) for row in node["expressions"]])
    return ExpressionRows(child, rows, tuple([type_text(t) for t in node["expr_types"]]))


def _sample(node: Json) -> Relation:
    _SAMPLE.check(node)
    options = require(node, "sample_options", "LOGICAL_SAMPLE")
    _OPTIONS.check(options)
    method = one_of(_SAMPLE_METHODS, options.get("method"), "sample method")
    size = (options.get("sample_size") or {}).get("value")
    if not isinstance(size, int | float):
        raise Unsupported(f"sample size {brief(size)}")
    unit = "PERCENT" if options.get("is_percentage") else "ROWS"
    clause = f"{method}({size} {unit})"
    if options.get("repeatable"):
        clause += f" REPEATABLE ({options.get('seed', -1)})"
    return Sample(_child(node), clause)


def _unnest(node: Json) -> Relation:
    _UNNEST.check(node)
    child = _child(node)
    scope = readable(child)
    lists, types = [], []
    for entry in node["expressions"]:
        if entry.get("expression_class") != "BOUND_UNNEST":
            raise Unsupported(f"{entry.get('expression_class')} among unnested lists")
        _BOUND_UNNEST.check(entry)
        lists.append(decode_expression(entry["child"], scope))
        types.append(type_text(entry["return_type"]))
    return Unnest(child, tuple(lists), tuple(types))


def _cross_product(node: Json) -> Relation:
    _PAIR.check(node)
    left, right = _children(node, 2)
    return CrossProduct(left, right)


def _positional_join(node: Json) -> Relation:
    _PAIR.check(node)
    left, right = _children(node, 2)
    return PositionalJoin(left, right)


def _join(node: Json) -> Relation:
    left, right = _children(node, 2)
    return decode_join(node, left, right)


def _asof_join(node: Json) -> Relation:
    left, right = _children(node, 2)
    return decode_asof_join(node, left, right)


_OPERATORS: dict[str, Callable[[Json], Relation]] = {
    "LOGICAL_GET": decode_get,
    "LOGICAL_FILTER": _filter,
    "LOGICAL_PROJECTION": _projection,
    "LOGICAL_AGGREGATE_AND_GROUP_BY": _aggregate,
    "LOGICAL_WINDOW": _window,
    "LOGICAL_DISTINCT": _distinct,
    "LOGICAL_ORDER_BY": _order,
    "LOGICAL_TOP_N": _top_n,
    "LOGICAL_LIMIT": _limit,
    **dict.fromkeys(_SET_KINDS, _set_operation),
    "LOGICAL_MATERIALIZED_CTE": _cte,
    "LOGICAL_CTE_REF": _cte_ref,
    "LOGICAL_RECURSIVE_CTE": _recursive_cte,
    "LOGICAL_CHUNK_GET": _chunk,
    "LOGICAL_EMPTY_RESULT": _empty,
    "LOGICAL_DUMMY_SCAN": _dummy,
    "LOGICAL_EXPRESSION_GET": _expression_rows,
    "LOGICAL_SAMPLE": _sample,
    "LOGICAL_UNNEST": _unnest,
    "LOGICAL_CROSS_PRODUCT": _cross_product,
    "LOGICAL_POSITIONAL_JOIN": _positional_join,
    "LOGICAL_COMPARISON_JOIN": _join,
    "LOGICAL_ANY_JOIN": _join,
    "LOGICAL_ASOF_JOIN": _asof_join,
}
