"""Operators without a distributed form: one task computes them over gathered inputs."""

from __future__ import annotations

from dataclasses import replace

from crossdock.planner import cost
from crossdock.planner.distribute.context import Context
from crossdock.planner.distribute.drafts import Placed, children, leaves
from crossdock.planner.distribute.exchange import gathered, with_scans
from crossdock.planner.distribute.partitioning import ONE
from crossdock.planner.distribute.rebuild import with_children
from crossdock.planner.nodes import (
    Cte,
    CteRef,
    Filter,
    PositionalJoin,
    Project,
    RecursiveCte,
    Relation,
    Scan,
)

#: Rows assumed of a recursion, for each row it starts with.
_ROUNDS = 10.0


def place_recursive_cte(context: Context, node: RecursiveCte) -> Placed:
    """The recursion itself runs in one task; what does not depend on it is computed before."""
    local = frozenset({node.index})
    relation = replace(
        node,
        anchor=_kept(context, node.anchor, local),
        step=_kept(context, node.step, local),
    )
    columns = tuple(cost.column_of(t) for t in node.types)
    size = cost.Estimate(_ROUNDS * 100.0, columns)
    return Placed(relation, ONE, size).because("a recursive query")


def _kept(context: Context, relation: Relation, local: frozenset[int]) -> Relation:
    """``relation`` with each part that reads no CTE of ``local`` gathered into one task."""
    if not _reads(relation, local):
        return gathered(context, context.place(relation)).relation
    if isinstance(relation, Cte):
        local |= {relation.index}
    if not children(relation):
        return relation
    return with_children(relation, lambda child: _kept(context, child, local))


def _reads(relation: Relation, ctes: frozenset[int]) -> bool:
    return any(isinstance(leaf, CteRef) and leaf.index in ctes for leaf in leaves(relation))


def place_positional_join(context: Context, node: PositionalJoin) -> Placed:
    """Row order is what joins here, and only a scan in one task keeps it."""
    left, right = _ordered(context, node.left), _ordered(context, node.right)
    rows = max(left.size.rows, right.size.rows)
    return Placed(
        replace(node, left=left.relation, right=right.relation),
        ONE,
        cost.Estimate(rows, left.size.columns + right.size.columns),
        tuple(dict.fromkeys(left.reasons + right.reasons)),
    ).because("a positional join")


def _ordered(context: Context, relation: Relation) -> Placed:
    placed = context.place(relation)
    below = placed.relation
    while isinstance(below, Filter | Project):
        below = below.child
    if isinstance(below, Scan):
        return replace(placed, relation=with_scans(context, placed.relation, whole=True), where=ONE)
    return gathered(context, placed)
