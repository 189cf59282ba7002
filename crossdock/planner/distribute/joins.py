"""Joins: nothing moves, one side moves, both move, or one side goes everywhere.

A side may be broadcast only if losing its unmatched rows is the join's meaning; a kept side seen by
every task would be reported once a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from crossdock.planner import cost
from crossdock.planner.distribute.context import Context
from crossdock.planner.distribute.drafts import Placed
from crossdock.planner.distribute.exchange import (
    broadcast,
    gathered,
    is_single,
    scattered,
    shuffled,
    task_estimate,
)
from crossdock.planner.distribute.expressions import is_volatile, shift
from crossdock.planner.distribute.partitioning import (
    ONE,
    Partitioning,
    Spread,
    merged_key,
)
from crossdock.planner.nodes import (
    AsofJoin,
    ColumnRef,
    CrossProduct,
    Expression,
    Filter,
    Join,
    JoinCondition,
    JoinKind,
    Operator,
)

_EQUALITIES = ("=", "IS NOT DISTINCT FROM")
#: What waiting for one more stage costs, as bytes moved instead.
_STAGE_BYTES = 8 * 1024 * 1024
_RIGHT_MAY_BE_LOST = frozenset(
    {
        JoinKind.INNER,
        JoinKind.LEFT,
        JoinKind.SEMI,
        JoinKind.ANTI,
        JoinKind.SINGLE,
        JoinKind.MARK,
    }
)
_LEFT_MAY_BE_LOST = frozenset(
    {JoinKind.INNER, JoinKind.RIGHT, JoinKind.RIGHT_SEMI, JoinKind.RIGHT_ANTI}
)


class Pair(NamedTuple):
    """An equality: two expressions of one type, each over its own side."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Sides:
    """A binary node's placed children and what the node says about joining them."""

    node: Join | CrossProduct | AsofJoin
    kind: JoinKind
    left: Placed
    right: Placed
    conditions: tuple[JoinCondition, ...] = ()

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Equalities whose two sides may be hashed.

        A mark join's ``=`` may not: one NULL anywhere on the right turns FALSE into NULL
        everywhere, so only its null-safe (correlation) equalities separate the work.
        """
        usable = ("IS NOT DISTINCT FROM",) if self.kind is JoinKind.MARK else _EQUALITIES
        return tuple(
            Pair(c.left, c.right)
            for c in self.conditions
            if c.operator in usable
            and c.left.type == c.right.type
            and not is_volatile((c.left, c.right))
        )

    @property
    def may_lose_left(self) -> bool:
        """True if left rows without a match do not show."""
        return self.kind in _LEFT_MAY_BE_LOST

    @property
    def may_lose_right(self) -> bool:
        return self.kind in _RIGHT_MAY_BE_LOST

    @property
    def may_broadcast_left(self) -> bool:
        """An ASOF join's left rows must each see every candidate on the right."""
        return self.may_lose_left and not isinstance(self.node, AsofJoin)

    @property
    def emit(self) -> tuple[int, ...]:
        """Output columns as positions in left + right."""
        shown = len(self.left.relation.types)
        node = self.node
        if isinstance(node, CrossProduct):
            return tuple(range(shown + len(self.right.relation.types)))
        right = tuple(shown + i for i in node.right_emit)
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI, JoinKind.MARK):
            return node.left_emit
        if self.kind in (JoinKind.RIGHT_SEMI, JoinKind.RIGHT_ANTI):
            return right
        return node.left_emit + right


class Option(NamedTuple):
    """One right way to bring the sides together, and the bytes it moves."""

    bytes: float
    name: str  # "hash", "broadcast left", "broadcast right"
    pairs: tuple[Pair, ...] = ()  # hash: the keys, in order
    move_left: bool = True
    move_right: bool = True


def place_join(context: Context, node: Join) -> Placed:
    left, right = context.place(node.left), context.place(node.right)
    return _joined(context, Sides(node, node.kind, left, right, node.conditions))


def place_asof_join(context: Context, node: AsofJoin) -> Placed:
    left, right = context.place(node.left), context.place(node.right)
    return _joined(context, Sides(node, node.kind, left, right, node.conditions))


def place_cross_product(context: Context, node: CrossProduct) -> Placed:
    left, right = context.place(node.left), context.place(node.right)
    return _joined(context, Sides(node, JoinKind.INNER, left, right))


def _joined(context: Context, sides: Sides) -> Placed:
    if is_single(context, sides.left) and is_single(context, sides.right):
        return _in_one_task(context, sides, "")
    options = _options(context, sides)
    if not options:
        return _in_one_task(context, sides, f"{sides.kind.value} join without an equality")
    best = min(options, key=lambda option: option.bytes)
    if best.name == "hash":
        return _hash_join(context, sides, best)
    return _broadcast_join(context, sides, best.name == "broadcast right")


def _in_one_task(context: Context, sides: Sides, reason: str) -> Placed:
    left, right = gathered(context, sides.left), gathered(context, sides.right)
    return _assembled(replace(sides, left=left, right=right), ONE).because(reason)


# -- choosing --------------------------------------------------------------------------------------


def _options(context: Context, sides: Sides) -> list[Option]:
    """Allowed ways, the preferred first among equally dear ones."""
    hashes = _hash_options(sides)
    broadcasts = _broadcast_options(context, sides, forced=not hashes)
    return [*broadcasts, *hashes]


def _hash_options(sides: Sides) -> list[Option]:
    pairs = sides.pairs
    if not pairs:
        return []
    left, right = sides.left.size.bytes, sides.right.size.bytes
    options = []
    for chosen in (
        _keys_of(sides.left.where, pairs, [p.left for p in pairs]),
        _keys_of(sides.right.where, pairs, [p.right for p in pairs]),
    ):
        if chosen is not None:
            move_left = not _is_hashed_by(sides.left.where, [p.left for p in chosen])
            move_right = not _is_hashed_by(sides.right.where, [p.right for p in chosen])
            moved = (left + _STAGE_BYTES) * move_left + (right + _STAGE_BYTES) * move_right
            options.append(Option(moved, "hash", chosen, move_left, move_right))
    return [*options, Option(left + right + 2 * _STAGE_BYTES, "hash", pairs)]


def _keys_of(
    where: Partitioning, pairs: Sequence[Pair], own: Sequence[Expression]
) -> tuple[Pair, ...] | None:
    """The pairs a side is already hashed by, in its order; None if it is not."""
    if where.spread is not Spread.HASHED or not where.positions:
        return None
    chosen = []
    for position in where.positions:
        found = [pair for pair, key in zip(pairs, own, strict=True) if key in position]
        if not found:
            return None
        chosen.append(found[0])
    return tuple(chosen)


def _is_hashed_by(where: Partitioning, keys: Sequence[Expression]) -> bool:
    """True if a side is hashed by exactly ``keys``, in this order."""
    return (
        where.spread is Spread.HASHED
        and len(where.positions) == len(keys)
        and all(key in position for key, position in zip(keys, where.positions, strict=True))
    )


def _broadcast_options(context: Context, sides: Sides, *, forced: bool) -> list[Option]:
    """Broadcasts of a side small enough; with ``forced``, when nothing else is right, of any."""
    limit = context.options.broadcast_bytes
    options = []
    for name, allowed, sent, kept in (
        ("broadcast right", sides.may_lose_right, sides.right, sides.left),
        ("broadcast left", sides.may_broadcast_left, sides.left, sides.right),
    ):
        if allowed and (forced or (limit and sent.size.bytes <= limit)):
            # Pending rows have to be moved anyway before they can meet anything.
            waiting = kept.size.bytes if kept.is_pending else 0.0
            copies = sent.size.bytes * task_estimate(context, kept)
            options.append(Option(copies + waiting + _STAGE_BYTES, name))
    return options


# -- building --------------------------------------------------------------------------------------


def _hash_join(context: Context, sides: Sides, option: Option) -> Placed:
    left, right = sides.left, sides.right
    if option.move_left:
        if sides.may_lose_left:
            left = _without_null_keys(left, sides, [p.left for p in option.pairs])
        left = shuffled(context, left, [p.left for p in option.pairs])
    if option.move_right:
        if sides.may_lose_right:
            right = _without_null_keys(right, sides, [p.right for p in option.pairs])
        right = shuffled(context, right, [p.right for p in option.pairs])
    moved = replace(sides, left=left, right=right)
    return _assembled(moved, _hash_join_where(moved, option.pairs))


def _without_null_keys(side: Placed, sides: Sides, keys: Sequence[Expression]) -> Placed:
    """Rows that ``=`` can never match stay at home instead of crowding the partition of NULL."""
    strict = {c.left for c in sides.conditions if c.operator == "="}
    strict |= {c.right for c in sides.conditions if c.operator == "="}
    tested = tuple(
        Operator("IS NOT NULL", (key,), "BOOLEAN")
        for key in keys
        if key in strict
        and not (isinstance(key, ColumnRef) and not side.size.columns[key.index].may_be_null)
    )
    if not tested or side.is_pending:
        return side
    columns = tuple(range(len(side.relation.types)))
    return replace(side, relation=Filter(side.relation, tested, columns))


def _hash_join_where(sides: Sides, pairs: Sequence[Pair]) -> Partitioning:
    by = len(sides.left.relation.types)
    left, right = sides.left.where, _shifted(sides.right.where, by)
    if sides.kind is JoinKind.INNER:
        both = zip(left.positions, right.positions, strict=True)
        joint = Partitioning(Spread.HASHED, tuple(mine | other for mine, other in both))
        return joint.with_equal((p.left, shift(p.right, by)) for p in sides.pairs)
    if sides.kind is JoinKind.FULL:
        merged = (frozenset(merged_key(p.left, shift(p.right, by))) for p in pairs)
        return Partitioning(Spread.HASHED, tuple(merged))
    return left if sides.kind in _RIGHT_MAY_BE_LOST else right


def _shifted(where: Partitioning, by: int) -> Partitioning:
    return where.map(lambda member: (shift(member, by),))


def _broadcast_join(context: Context, sides: Sides, to_the_left: bool) -> Placed:
    """Send one side to wherever the other's rows are; the other's partitioning stays true."""
    kept, sent = (sides.left, sides.right) if to_the_left else (sides.right, sides.left)
    if kept.is_pending:
        kept = gathered(context, kept) if is_single(context, kept) else scattered(context, kept)
    sent = gathered(context, sent) if kept.is_one else broadcast(context, sent)
    moved = (
        replace(sides, left=kept, right=sent)
        if to_the_left
        else replace(sides, left=sent, right=kept)
    )
    by = len(sides.left.relation.types)
    where = kept.where if to_the_left else _shifted(kept.where, by)
    if sides.kind is JoinKind.INNER:
        where = where.with_equal((p.left, shift(p.right, by)) for p in sides.pairs)
    return _assembled(moved, where)


def _assembled(sides: Sides, where: Partitioning) -> Placed:
    node = replace(sides.node, left=sides.left.relation, right=sides.right.relation)
    equal = [c for c in sides.conditions if c.operator in _EQUALITIES]
    size = (
        cost.crossed(sides.left.size, sides.right.size)
        if isinstance(sides.node, CrossProduct)
        else cost.joined(sides.kind, sides.left.size, sides.right.size, equal)
    ).emitted(sides.emit)
    if sides.kind is JoinKind.MARK:
        size = replace(size, columns=(*size.columns, cost.column_of("BOOLEAN")))
    reasons = tuple(dict.fromkeys(sides.left.reasons + sides.right.reasons))
    return Placed(node, where.emitted(sides.emit), size, reasons)
