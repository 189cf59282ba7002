"""Order and limits: a task sends no more than the answer can use, one task decides."""

from __future__ import annotations

from dataclasses import replace

from crossdock.planner.distribute.context import Context
from crossdock.planner.distribute.drafts import Placed
from crossdock.planner.distribute.exchange import gathered, is_single, scattered
from crossdock.planner.nodes import Limit, LimitBound, Order, Sample, TopN


def place_order(context: Context, node: Order) -> Placed:
    child = gathered(context, context.place(node.child))
    return replace(
        child,
        relation=replace(node, child=child.relation),
        where=child.where.emitted(node.emit),
        size=child.size.emitted(node.emit),
    )


def place_top_n(context: Context, node: TopN) -> Placed:
    child = context.place(node.child)
    if not child.is_one and not child.is_pending:
        child = _locally_first(child, node)
    child = gathered(context, child)
    return replace(
        child,
        relation=replace(node, child=child.relation),
        where=child.where.emitted(node.emit),
        size=child.size.emitted(node.emit).scaled(min(child.size.rows, node.limit)),
    )


def _locally_first(child: Placed, node: TopN) -> Placed:
    """The rows of each task that may be among the first; the offset is counted once, at the end."""
    limit = node.limit + node.offset
    columns = tuple(range(len(child.relation.types)))
    return replace(
        child,
        relation=replace(node, child=child.relation, limit=limit, offset=0, emit=columns),
        size=child.size.scaled(min(child.size.rows, float(limit))),
    )


def place_limit(context: Context, node: Limit) -> Placed:
    if isinstance(node.child, Order):
        return _limit_ordered(context, node, node.child)
    child = context.place(node.child)
    enough = _enough(node)
    if not child.is_one and not child.is_pending and enough is not None:
        child = _locally(child, enough)
        child = gathered(context, child, prefix_limit=enough)
    else:
        child = gathered(context, child, _why_gathered(node))
    return _limited(child, node)


def _limit_ordered(context: Context, node: Limit, order: Order) -> Placed:
    """Each task sorts and sends what may be among the first; a percentage needs them all."""
    child = context.place(order.child)
    enough = _enough(node)
    if enough is not None and not child.is_one and not child.is_pending:
        columns = tuple(range(len(child.relation.types)))
        first = replace(order, child=child.relation, emit=columns)
        child = _locally(replace(child, relation=first), enough)
    child = gathered(context, child, _why_gathered(node))
    sorted_rows = replace(
        child,
        relation=replace(order, child=child.relation),
        size=child.size.emitted(order.emit),
    )
    return _limited(sorted_rows, node)


def _enough(node: Limit) -> int | None:
    """Rows of one task that surely suffice, skipped ones included; None if only all do."""
    limit, offset = node.limit, node.offset
    if limit is None or limit.rows is None:
        return None
    if offset is None:
        return limit.rows
    return None if offset.rows is None else limit.rows + offset.rows


def _why_gathered(node: Limit) -> str:
    bounds = [bound for bound in (node.limit, node.offset) if bound is not None]
    return "" if all(b.rows is not None for b in bounds) else "a limit that depends on all rows"


def _locally(child: Placed, rows: int) -> Placed:
    return replace(
        child,
        relation=Limit(child.relation, LimitBound(rows=rows), None),
        size=child.size.scaled(min(child.size.rows, float(rows))),
    )


def _limited(child: Placed, node: Limit) -> Placed:
    rows = node.limit.rows if node.limit and node.limit.rows is not None else child.size.rows
    return replace(
        child,
        relation=replace(node, child=child.relation),
        size=child.size.scaled(min(child.size.rows, float(rows))),
    )


def place_sample(context: Context, node: Sample) -> Placed:
    """Row-by-row percentages are sampled where rows are; a fixed number or a seed is not."""
    child = context.place(node.child)
    if not _is_row_by_row(node.clause) or is_single(context, child):
        child = gathered(context, child, "a sample of a fixed size or seed")
    elif child.is_pending:
        child = scattered(context, child)
    return replace(child, relation=replace(node, child=child.relation))


def _is_row_by_row(clause: str) -> bool:
    text = clause.upper()
    return (
        text.startswith(("BERNOULLI", "SYSTEM"))
        and ("PERCENT" in text or "%" in text)
        and "REPEATABLE" not in text
    )
