"""Bound aggregates and window calls."""

from __future__ import annotations

from crossdock.errors import Unsupported
from crossdock.planner.decode.expressions import (
    decode_expression,
    decode_expressions,
    decode_sort_keys,
)
from crossdock.planner.decode.functions import function_name
from crossdock.planner.decode.rows import constant_column
from crossdock.planner.decode.scope import Scope
from crossdock.planner.decode.strict import Json, brief, one_of, require, shape
from crossdock.planner.decode.types import type_text
from crossdock.planner.nodes import (
    AggregateCall,
    Call,
    Cast,
    ColumnRef,
    Constant,
    Expression,
    Relation,
    SortKey,
    WindowCall,
    WindowFrame,
)

_AGGREGATE = shape(
    "aggregate",
    "expression_class type return_type children arguments qname has_serialize positional_arguments "
    "function_data is_operator aggregate_type filter order_bys",
    state_export=("NONE",),
)
_ORDERS = shape("aggregate order", "orders")
#: Bound data the aggregate derives again from its (constant) arguments.
_DERIVED_DATA = shape("data", "quantiles order desc separator min max n sample_size decimal_type")

#: Aggregates that keep a constant argument without any bound data.
_CONSTANT_ARGUMENTS = frozenset({"approx_top_k"})

_WINDOW = shape(
    "window",
    "expression_class type return_type children arguments qname has_serialize positional_arguments "
    "function_data is_operator partitions orders filters ignore_nulls start end start_expr "
    "end_expr exclude_clause distinct arg_orders "
    # how the bounds of a RANGE frame were bound; the offsets themselves are read from start_expr
    "sql_range_start sql_range_end sql_range_order_type sql_range_start_boundary "
    "sql_range_end_boundary sql_range_order_casts",
)
_WINDOW_NAMES = {
    "WINDOW_RANK": "rank",
    "WINDOW_RANK_DENSE": "dense_rank",
    "WINDOW_ROW_NUMBER": "row_number",
    "WINDOW_NTILE": "ntile",
    "WINDOW_PERCENT_RANK": "percent_rank",
    "WINDOW_CUME_DIST": "cume_dist",
    "WINDOW_LEAD": "lead",
    "WINDOW_LAG": "lag",
    "WINDOW_FIRST_VALUE": "first_value",
    "WINDOW_LAST_VALUE": "last_value",
    "WINDOW_NTH_VALUE": "nth_value",
    "WINDOW_FILL": "fill",
}
_BOUNDS = {
    "UNBOUNDED_PRECEDING": ("", "UNBOUNDED PRECEDING"),
    "UNBOUNDED_FOLLOWING": ("", "UNBOUNDED FOLLOWING"),
    **{f"CURRENT_ROW_{m}": (m, "CURRENT ROW") for m in ("ROWS", "RANGE", "GROUPS")},
    **{f"EXPR_PRECEDING_{m}": (m, "PRECEDING") for m in ("ROWS", "RANGE", "GROUPS")},
    **{f"EXPR_FOLLOWING_{m}": (m, "FOLLOWING") for m in ("ROWS", "RANGE", "GROUPS")},
}
_EXCLUSIONS = {"NO_OTHER": "", "CURRENT_ROW": "CURRENT ROW", "GROUP": "GROUP", "TIES": "TIES"}
_DISTINCTIONS = {"NON_DISTINCT": "", "DISTINCT": "DISTINCT"}


def decode_aggregate(node: Json, child: Relation, scope: Scope) -> AggregateCall:
    """An aggregate over ``child``, whose columns ``scope`` resolves."""
    if node.get("expression_class") != "BOUND_AGGREGATE":
        raise Unsupported(f"{node.get('expression_class')} among aggregates")
    _AGGREGATE.check(node)
    name = function_name(node)
    _check_data(name, node)
    orders = node.get("order_bys") or {}
    _ORDERS.check(orders)
    condition = node.get("filter")
    arguments = decode_expressions(node.get("children"), scope)
    return AggregateCall(
        name,
        _with_constants(name, arguments, node, child),
        type_text(node["return_type"]),
        distinct=one_of(_DISTINCTIONS, node.get("aggregate_type"), "aggregate type") != "",
        filter=decode_expression(condition, scope) if condition else None,
        order=decode_sort_keys(orders.get("orders"), scope),
    )


def _check_data(name: str, node: Json) -> None:
    data = node.get("function_data") or {}
    try:
        _DERIVED_DATA.check(data)
    except Unsupported as unknown:
        raise Unsupported(f"aggregate {name}: {unknown}") from None


def _with_constants(
    name: str, arguments: tuple[Expression, ...], node: Json, child: Relation
) -> tuple[Expression, ...]:
    """The arguments, of which those after the first are constants again if they were.

    Where DISTINCT became a grouping, constants became columns of the groups; a separator or a
    fraction must be a constant when the text is bound again.
    """
    restored = arguments[:1] + tuple([_constant_again(a, child) for a in arguments[1:]])
    must_be_constant = bool(node.get("function_data")) or name in _CONSTANT_ARGUMENTS
    if must_be_constant and not all(
        isinstance(_without_casts(argument), Constant) for argument in restored[1:]
    ):
        raise Unsupported(f"aggregate {name} with arguments that are not constants")
    return restored


def _constant_again(argument: Expression, child: Relation) -> Expression:
    if isinstance(argument, ColumnRef):
        return constant_column(child, argument.index) or argument
    return argument


def decode_window(node: Json, scope: Scope) -> WindowCall:
    """A window call of LOGICAL_WINDOW."""
    if node.get("expression_class") != "BOUND_WINDOW":
        raise Unsupported(f"{node.get('expression_class')} among window calls")
    _WINDOW.check(node)
    name = _window_name(node)
    order = decode_sort_keys(node.get("orders"), scope)
    condition = node.get("filters")
    return WindowCall(
        name,
        decode_expressions(node.get("children"), scope),
        type_text(node["return_type"]),
        partition=decode_expressions(node.get("partitions"), scope),
        order=order,
        frame=_frame(node, scope, order),
        distinct=bool(node.get("distinct")),
        ignore_nulls=bool(node.get("ignore_nulls")),
        filter=decode_expression(condition, scope) if condition else None,
        argument_order=decode_sort_keys(node.get("arg_orders"), scope),
    )


def _window_name(node: Json) -> str:
    kind = node["type"]
    if kind not in {"WINDOW_AGGREGATE", "WINDOW_FUNCTION"}:
        return one_of(_WINDOW_NAMES, kind, "window function")
    name = function_name(node)
    _check_data(name, node)
    return "count_star" if name == "count" and not node.get("children") else name


def _frame(node: Json, scope: Scope, order: tuple[SortKey, ...]) -> WindowFrame | None:
    """None for the default: RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW."""
    start_mode, start = _bound(node, "start")
    end_mode, end = _bound(node, "end")
    modes = {start_mode, end_mode} - {""}
    if len(modes) > 1:
        raise Unsupported(f"window frame that mixes {' and '.join(sorted(modes))}")
    mode = modes.pop() if modes else "RANGE"
    frame = WindowFrame(
        mode,
        start,
        end,
        _offset(node.get("start_expr"), scope, mode, order),
        _offset(node.get("end_expr"), scope, mode, order),
        one_of(_EXCLUSIONS, node.get("exclude_clause", "NO_OTHER"), "frame exclusion"),
    )
    return None if frame == WindowFrame("RANGE", "UNBOUNDED PRECEDING", "CURRENT ROW") else frame


def _bound(node: Json, name: str) -> tuple[str, str]:
    value = require(node, name, "window frame")
    try:
        return _BOUNDS[value]
    except (KeyError, TypeError):
        raise Unsupported(f"window frame bound {brief(value)}") from None


def _offset(
    node: Json | None, scope: Scope, mode: str, order: tuple[SortKey, ...]
) -> Expression | None:
    if not node:
        return None
    bound = decode_expression(node, scope)
    return bound if mode != "RANGE" else _range_offset(bound, order)


def _range_offset(bound: Expression, order: tuple[SortKey, ...]) -> Expression:
    """The offset in a RANGE bound, which the binder wrote as ``order key +/- offset``."""
    moved = _without_casts(bound)
    if isinstance(moved, Call) and moved.name in {"+", "-"} and len(moved.arguments) == 2:
        key, offset = moved.arguments
        if len(order) == 1 and _without_casts(key) == _without_casts(order[0].expression):
            return offset
    raise Unsupported("RANGE frame whose bound is not an offset from the sort key")


def _without_casts(expression: Expression) -> Expression:
    while isinstance(expression, Cast):
        expression = expression.child
    return expression
