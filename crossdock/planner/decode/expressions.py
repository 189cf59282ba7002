"""Bound expressions: plan JSON to ``nodes.Expression``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crossdock.errors import Unsupported
from crossdock.planner.decode.constants import decode_constant
from crossdock.planner.decode.functions import decode_function
from crossdock.planner.decode.scope import Scope
from crossdock.planner.decode.strict import Json, brief, one_of, shape
from crossdock.planner.decode.types import type_text
from crossdock.planner.nodes import (
    Case,
    Conjunction,
    Expression,
    Operator,
    SortKey,
)

_REFERENCE = shape("BOUND_REF", "expression_class type return_type index")
_CONSTANT = shape("BOUND_CONSTANT", "expression_class type value")
_CONJUNCTION = shape("BOUND_CONJUNCTION", "expression_class type children")
_CASE = shape("BOUND_CASE", "expression_class type return_type case_checks else_expr")
_CASE_CHECK = shape("case branch", "when_expr then_expr")
_OPERATOR = shape("BOUND_OPERATOR", "expression_class type return_type children")
_ORDER = shape("sort key", "type null_order expression")

_CONJUNCTIONS = {"CONJUNCTION_AND": "AND", "CONJUNCTION_OR": "OR"}
_OPERATORS = {
    "OPERATOR_NOT": "NOT",
    "OPERATOR_IS_NULL": "IS NULL",
    "OPERATOR_IS_NOT_NULL": "IS NOT NULL",
    "OPERATOR_COALESCE": "COALESCE",
    "OPERATOR_TRY": "TRY",
    "COMPARE_IN": "IN",
    "COMPARE_NOT_IN": "NOT IN",
}
_DIRECTIONS = {"ASCENDING": "", "DESCENDING": "DESC"}
_NULL_ORDERS = {"NULLS LAST": "", "NULLS FIRST": "FIRST"}


def decode_expression(node: Json, scope: Scope) -> Expression:
    """An expression over what ``scope`` resolves. Raises ``Unsupported`` for anything unknown."""
    decode = _CLASSES.get(node.get("expression_class", ""))
    if decode is None:
        raise Unsupported(f"expression {node.get('expression_class')} ({node.get('type')})")
    return decode(node, scope)


def decode_expressions(nodes: Any, scope: Scope) -> tuple[Expression, ...]:
    """Several; ``nodes`` may be absent."""
    return tuple([decode_expression(node, scope) for node in nodes or ()])


def decode_sort_keys(nodes: Any, scope: Scope) -> tuple[SortKey, ...]:
    """Sort keys of ORDER BY; ``nodes`` may be absent."""
    return tuple([_decode_sort_key(node, scope) for node in nodes or ()])


def _decode_sort_key(node: Json, scope: Scope) -> SortKey:
    _ORDER.check(node)
    return SortKey(
        decode_expression(node["expression"], scope),
        descending=one_of(_DIRECTIONS, node.get("type"), "sort direction") == "DESC",
        nulls_first=one_of(_NULL_ORDERS, node.get("null_order"), "null order") == "FIRST",
    )


def _reference(node: Json, scope: Scope) -> Expression:
    _REFERENCE.check(node)
    return scope.resolve(node.get("index", 0), type_text(node["return_type"]))


def _constant(node: Json, scope: Scope) -> Expression:
    _CONSTANT.check(node)
    return decode_constant(node["value"])


def _conjunction(node: Json, scope: Scope) -> Expression:
    _CONJUNCTION.check(node)
    operator = one_of(_CONJUNCTIONS, node["type"], "conjunction")
    return Conjunction(operator, decode_expressions(node["children"], scope))


def _case(node: Json, scope: Scope) -> Expression:
    _CASE.check(node)
    branches = []
    for check in node["case_checks"]:
        _CASE_CHECK.check(check)
        when = decode_expression(check["when_expr"], scope)
        branches.append((when, decode_expression(check["then_expr"], scope)))
    otherwise = decode_expression(node["else_expr"], scope)
    return Case(tuple(branches), otherwise, type_text(node["return_type"]))


def _operator(node: Json, scope: Scope) -> Expression:
    _OPERATOR.check(node)
    name = one_of(_OPERATORS, node["type"], "operator")
    children = decode_expressions(node["children"], scope)
    if name in {"NOT", "IS NULL", "IS NOT NULL", "TRY"} and len(children) != 1:
        raise Unsupported(f"{name} of {brief(len(children))} values")
    return Operator(name, children, type_text(node["return_type"]))


def _function(node: Json, scope: Scope) -> Expression:
    return decode_function(node, scope, decode_expression)


_CLASSES: dict[str, Callable[[Json, Scope], Expression]] = {
    "BOUND_REF": _reference,
    "BOUND_FUNCTION": _function,
    "BOUND_CONSTANT": _constant,
    "BOUND_CONJUNCTION": _conjunction,
    "BOUND_CASE": _case,
    "BOUND_OPERATOR": _operator,
}
