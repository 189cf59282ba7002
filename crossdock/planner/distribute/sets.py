"""Rows compared as wholes: DISTINCT and the set operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from crossdock.planner import cost
from crossdock.planner.distribute.context import Context
from crossdock.planner.distribute.drafts import Placed
from crossdock.planner.distribute.exchange import (
    already_together,
    gathered,
    is_single,
    scattered,
    shuffled,
    with_scans,
)
from crossdock.planner.distribute.expressions import is_volatile, output_columns
from crossdock.planner.distribute.partitioning import ONE, SCATTERED, SPLIT, Partitioning, Spread
from crossdock.planner.nodes import Distinct, Filter, Project, Relation, Scan, SetOperation


def place_distinct(context: Context, node: Distinct) -> Placed:
    child = context.place(node.child)
    if is_single(context, child) or not node.targets or is_volatile(node.targets):
        return _distinct(gathered(context, child), node)
    if near := already_together(context, child, node.targets):
        return _distinct(near, node)
    if not child.is_pending:
        child = _distinct(child, node)  # fewer rows to move
    return _distinct(shuffled(context, child, node.targets), node)


def _distinct(child: Placed, node: Distinct) -> Placed:
    known = cost.group_count(child.size, node.targets)
    size = child.size if known is None else child.size.scaled(known)
    return replace(child, relation=replace(node, child=child.relation), size=size)


def place_set_operation(context: Context, node: SetOperation) -> Placed:
    parts = [context.place(child) for child in node.children]
    if all(is_single(context, part) for part in parts):
        return _combined([gathered(context, part) for part in parts], node, ONE)
    if node.kind == "UNION" and node.all:
        return concatenated(context, parts, node)
    if not _lie_alike(parts):
        keys = output_columns(node.types)
        once = node.kind == "UNION"
        parts = [
            shuffled(context, _once(part) if once and not part.is_pending else part, keys)
            for part in parts
        ]
    return _combined(parts, node, _common_where(parts))


def _once(part: Placed) -> Placed:
    columns = output_columns(part.relation.types)
    return replace(part, relation=Distinct(part.relation, columns))


def concatenated(context: Context, parts: Sequence[Placed], node: SetOperation) -> Placed:
    """UNION ALL moves nothing: the tasks of one child follow those of the other, or, where both
    are in partitions, each task has its share of both.
    """
    settled = [
        _cut_once(context, part) if part.is_one and _is_plain_scan(part.relation) else part
        for part in parts
    ]
    settled = [p if p.where.spread is Spread.SPLIT else _spread(context, p) for p in settled]
    if all(part.where.spread is Spread.SPLIT for part in settled):
        return _combined(settled, node, SPLIT)
    return _combined(settled, node, _common_where(settled) if _lie_alike(settled) else SCATTERED)


def _spread(context: Context, part: Placed) -> Placed:
    return scattered(context, part) if part.is_one or part.is_pending else part


def _cut_once(context: Context, part: Placed) -> Placed:
    """A scan too small to cut, as a scan of one split."""
    relation = with_scans(context, part.relation, whole=False)
    return replace(part, relation=relation, where=SPLIT)


def _is_plain_scan(relation: Relation) -> bool:
    while isinstance(relation, Filter | Project):
        relation = relation.child
    return isinstance(relation, Scan)


def _lie_alike(parts: Sequence[Placed]) -> bool:
    """True if equal rows of different parts are in one task already."""
    first = parts[0].where
    return (
        bool(first.positions)
        and all(
            part.where.spread is Spread.HASHED and len(part.where.positions) == len(first.positions)
            for part in parts
        )
        and all(_common_where(parts).positions)
    )


def _common_where(parts: Sequence[Placed]) -> Partitioning:
    """Keys that hold for the rows of every part."""
    shared = [
        frozenset.intersection(*places)
        for places in zip(*(part.where.positions for part in parts), strict=True)
    ]
    return Partitioning(Spread.HASHED, tuple(shared))


def _combined(parts: Sequence[Placed], node: SetOperation, where: Partitioning) -> Placed:
    rows = sum(part.size.rows for part in parts)
    widest = max((part.size for part in parts), key=lambda size: size.width)
    columns = tuple(replace(c, distinct=None, low=None, high=None) for c in widest.columns)
    reasons = tuple(dict.fromkeys(reason for part in parts for reason in part.reasons))
    relation = replace(node, children=tuple(part.relation for part in parts))
    return Placed(relation, where, cost.Estimate(rows, columns), reasons)
