"""Join operators."""

from __future__ import annotations

from typing import Any

from crossdock.errors import Unsupported
from crossdock.planner.decode.expressions import decode_expression
from crossdock.planner.decode.functions import COMPARISONS
from crossdock.planner.decode.rows import placeholders, readable
from crossdock.planner.decode.scope import Scope, columns_without
from crossdock.planner.decode.strict import Json, brief, one_of, shape
from crossdock.planner.nodes import (
    AsofJoin,
    Expression,
    Join,
    JoinCondition,
    JoinKind,
    Relation,
)

_JOIN = shape(
    "join",
    "type children join_type mark_index left_projection_map right_projection_map conditions "
    "mark_types predicate condition",
    delim_flipped=(False,),
)
_CONDITION = shape("join condition", "left right comparison")
_KINDS = {
    **{kind.value: kind.value for kind in JoinKind},
    "RIGHT_SEMI": JoinKind.RIGHT_SEMI.value,
    "RIGHT_ANTI": JoinKind.RIGHT_ANTI.value,
    "OUTER": JoinKind.FULL.value,
}
_LEFT_ONLY = frozenset({JoinKind.SEMI, JoinKind.ANTI, JoinKind.MARK})
_RIGHT_ONLY = frozenset({JoinKind.RIGHT_SEMI, JoinKind.RIGHT_ANTI})
_ASOF_KINDS = frozenset({JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL})


def decode_join(node: Json, left: Relation, right: Relation) -> Join:
    """LOGICAL_COMPARISON_JOIN or LOGICAL_ANY_JOIN over its decoded children."""
    _JOIN.check(node)
    kind = _kind(node)
    conditions, residual = _conditions(node, left, right)
    if kind is JoinKind.MARK:
        _check_mark(node, conditions, residual)
    left_width = 0 if kind in _RIGHT_ONLY else len(left.types)
    right_width = 0 if kind in _LEFT_ONLY else len(right.types)
    return Join(
        kind,
        left,
        right,
        conditions,
        residual,
        _emit(node.get("left_projection_map"), left_width),
        _emit(node.get("right_projection_map"), right_width),
    )


def decode_asof_join(node: Json, left: Relation, right: Relation) -> AsofJoin:
    """LOGICAL_ASOF_JOIN over its decoded children."""
    _JOIN.check(node)
    kind = _kind(node)
    conditions, residual = _conditions(node, left, right)
    if residual or kind not in _ASOF_KINDS:
        raise Unsupported(f"ASOF {kind} JOIN with {len(residual)} further conditions")
    return AsofJoin(
        kind,
        left,
        right,
        conditions,
        _emit(node.get("left_projection_map"), len(left.types)),
        _emit(node.get("right_projection_map"), len(right.types)),
    )


def _kind(node: Json) -> JoinKind:
    return JoinKind(one_of(_KINDS, node.get("join_type", "INNER"), "join type"))


def _emit(positions: Any, width: int) -> tuple[int, ...]:
    if not width:
        return ()
    return tuple(positions) if positions else tuple(range(width))


def _conditions(
    node: Json, left: Relation, right: Relation
) -> tuple[tuple[JoinCondition, ...], tuple[Expression, ...]]:
    """Comparisons of one side with the other, and predicates over both."""
    left_scope, right_scope = readable(left), readable(right)
    both = _both_sides(left, right)
    compared, residual = [], []
    for condition in node.get("conditions") or ():
        _CONDITION.check(condition)
        if condition.get("comparison", "INVALID") == "INVALID":
            if condition.get("right"):
                raise Unsupported(f"join condition {brief(condition)}")
            residual.append(decode_expression(condition["left"], both))
            continue
        operator = one_of(COMPARISONS, condition["comparison"], "join comparison")
        left_key = decode_expression(condition["left"], left_scope)
        right_key = decode_expression(condition["right"], right_scope)
        compared.append(JoinCondition(left_key, operator, right_key))
    for name in ("predicate", "condition"):
        if node.get(name):
            residual.append(decode_expression(node[name], both))
    return tuple(compared), tuple(residual)


def _both_sides(left: Relation, right: Relation) -> Scope:
    width = len(left.types)
    forbidden = placeholders(left) | {width + i for i in placeholders(right)}
    return columns_without(forbidden, width + len(right.types))


def _check_mark(
    node: Json, conditions: tuple[JoinCondition, ...], residual: tuple[Expression, ...]
) -> None:
    """Mark joins are rendered as IN, ANY and EXISTS, whose NULL rules are the engine's.

    Correlation comes as IS [NOT] DISTINCT FROM; all else is the comparison whose NULLs matter.
    """
    if residual:
        raise Unsupported("mark join with a condition over both sides")
    compared = [c for c in conditions if not c.operator.endswith("DISTINCT FROM")]
    if len(compared) > 1 and any(c.operator != "=" for c in compared):
        raise Unsupported("mark join on several comparisons that are not all equalities")
