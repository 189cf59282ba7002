"""Moving rows: close the fragment as a stage and go on above an edge of the right mode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from crossdock.planner import cost
from crossdock.planner.distribute.context import Context
from crossdock.planner.distribute.drafts import (
    EdgeDraft,
    Placed,
    ScanDraft,
    StageDraft,
    children,
    leaves,
    pending_leaf,
)
from crossdock.planner.distribute.expressions import is_volatile, output_columns, substitute
from crossdock.planner.distribute.partitioning import (
    ONE,
    PENDING,
    SCATTERED,
    Partitioning,
    Spread,
    hashed,
)
from crossdock.planner.distribute.rebuild import rebuilt
from crossdock.planner.nodes import (
    ColumnRef,
    CrossProduct,
    Expression,
    ExpressionRows,
    Filter,
    Input,
    Join,
    OneRow,
    Project,
    Relation,
    Scan,
    TableFunction,
    Values,
)
from crossdock.planner.options import PlannerOptions
from crossdock.planner.plan import ShuffleMode
from crossdock.settings import MOST_PARTITIONS

#: Column bytes a task may read again for itself rather than wait for a stage that sends them.
_REPEATED_SCAN_BYTES = 4 * 1024 * 1024
#: Distinct keys a partition should get on average, so that chance evens the partitions out.
_VALUES_A_PARTITION = 8
_REPEATABLE = (
    Scan,
    Filter,
    Project,
    Join,
    CrossProduct,
    Values,
    OneRow,
    ExpressionRows,
    TableFunction,
)


def close(placed: Placed, prefix_limit: int = 0) -> StageDraft:
    """End the fragment: it becomes a stage."""
    return StageDraft(placed, prefix_limit)


def _above(
    context: Context, stage: StageDraft, mode: ShuffleMode, keys: Sequence[Expression]
) -> Input:
    name = context.sheet.new_name("edge")
    context.sheet.edges[name] = EdgeDraft(name, stage, mode, tuple(keys))
    return Input(name, stage.placed.relation.types)


def pending(context: Context, stage: StageDraft) -> Placed:
    """Another reader of ``stage``, whose exchange is chosen by what stands above it."""
    name = context.sheet.new_name("edge")
    context.sheet.pending[name] = stage
    leaf = Input(name, stage.placed.relation.types)
    return Placed(leaf, PENDING, stage.placed.size)


def again(context: Context, placed: Placed) -> Placed:
    """The same filters and projections over a new reading of the stage below them."""
    below = pending(context, context.sheet.pending[pending_leaf(placed.relation).name])

    def change(_: Relation) -> Relation:
        return below.relation

    return replace(placed, relation=rebuilt(placed.relation, change))


def pending_stage(context: Context, placed: Placed) -> StageDraft:
    return context.sheet.pending[pending_leaf(placed.relation).name]


def _decide(
    context: Context, placed: Placed, mode: ShuffleMode, keys: Sequence[Expression]
) -> None:
    leaf = pending_leaf(placed.relation)
    stage = context.sheet.pending[leaf.name]
    context.sheet.edges[leaf.name] = EdgeDraft(leaf.name, stage, mode, tuple(keys))


def is_single(context: Context, placed: Placed) -> bool:
    """True if one task makes all the rows, here or in the stage they are waited for from."""
    if placed.is_pending:
        return pending_stage(context, placed).placed.is_one
    return placed.is_one


def gathered(context: Context, placed: Placed, reason: str = "", prefix_limit: int = 0) -> Placed:
    """All rows in one task. ``reason`` says why the operator above has no distributed form."""
    if placed.is_one:
        return placed
    if placed.is_pending:
        _decide(context, placed, ShuffleMode.GATHER, ())
        return replace(placed, where=ONE).because(reason)
    stage = close(placed, prefix_limit)
    leaf = _above(context, stage, ShuffleMode.GATHER, ())
    return Placed(leaf, ONE, placed.size).because(reason)


def shuffled(context: Context, placed: Placed, keys: Sequence[Expression]) -> Placed:
    """Rows with equal ``keys`` in one task, and all such tasks used."""
    if placed.is_pending:
        _decide(context, placed, ShuffleMode.HASH, [_below(placed.relation, k) for k in keys])
        return replace(placed, where=hashed(keys))
    stage = close(placed)
    leaf = _above(context, stage, ShuffleMode.HASH, keys)
    return Placed(leaf, hashed(keys), placed.size)


def already_together(context: Context, placed: Placed, keys: Sequence[Expression]) -> Placed | None:
    """``placed`` if rows with equal ``keys`` are in one task, or can be without another shuffle.

    Rows hashed by more than ``keys`` can: the exchange below, not built yet, hashes by fewer. All
    that is done above it in this fragment groups by supersets of what is left, so it stays right.
    """
    if placed.where.within(keys):
        return placed
    wanted = frozenset(keys)
    kept = [i for i, position in enumerate(placed.where.positions) if position & wanted]
    names = [leaf.name for leaf in leaves(placed.relation) if isinstance(leaf, Input)]
    edges = [context.sheet.edges[n] for n in names] if kept and not placed.is_pending else []
    hashes = [edge for edge in edges if edge.mode is ShuffleMode.HASH]
    if not hashes or any(len(e.keys) != len(placed.where.positions) for e in hashes):
        return None
    left = tuple(placed.where.positions[i] for i in kept)
    if not _spreads_well(context, placed, [min(position & wanted, key=repr) for position in left]):
        return None
    for edge in hashes:
        fewer = tuple(edge.keys[i] for i in kept)
        context.sheet.edges[edge.name] = replace(edge, keys=fewer)
    return replace(placed, where=Partitioning(Spread.HASHED, left))


def _spreads_well(context: Context, placed: Placed, keys: Sequence[Expression]) -> bool:
    """False if so few values would leave partitions empty and others too full."""
    values = cost.group_count(placed.size, keys)
    least = _VALUES_A_PARTITION * partition_count(context.options, placed.size.bytes)
    return context.options.forced or values is None or values >= least


def _below(relation: Relation, key: Expression) -> Expression:
    """``key`` over the pending leaf's columns instead of the fragment's output."""
    while True:
        match relation:
            case Filter():
                types = relation.child.types
                values = tuple(ColumnRef(i, types[i]) for i in relation.emit)
                key = substitute(key, values)
                relation = relation.child
            case Project():
                key = substitute(key, relation.expressions)
                relation = relation.child
            case _:
                return key


def scattered(context: Context, placed: Placed) -> Placed:
    """Rows over several tasks, wherever: for operators that work row by row.

    Chosen for pending rows, and for one task's rows that must not be counted once a task.
    """
    if placed.is_pending:
        made = pending_stage(context, placed).placed
        keys = _known_keys(made) or output_columns(made.relation.types)
        _decide(context, placed, ShuffleMode.HASH, keys)
        return replace(placed, where=_risen(placed.relation, hashed(keys)))
    if placed.is_one:
        stage = close(placed)
        keys = output_columns(placed.relation.types)
        return Placed(_above(context, stage, ShuffleMode.HASH, keys), SCATTERED, placed.size)
    return placed


def _risen(relation: Relation, where: Partitioning) -> Partitioning:
    """What ``where``, true of a pending leaf, means for the fragment's output."""
    match relation:
        case Filter():
            return _risen(relation.child, where).emitted(relation.emit)
        case Project():
            return _risen(relation.child, where).projected(relation.expressions)
        case _:
            return where


def _known_keys(placed: Placed) -> tuple[Expression, ...]:
    """One expression a position, the plainest, of a hashed stage output; none if one is lost."""
    if not all(placed.where.positions):
        return ()
    return tuple(min(position, key=repr) for position in placed.where.positions)


def broadcast(context: Context, placed: Placed) -> Placed:
    """All rows in every task of the stage that is being built around the result.

    What each task can cheaply make for itself (constants, small scans) is repeated instead.
    """
    if placed.is_pending:
        _decide(context, placed, ShuffleMode.BROADCAST, ())
        return placed
    if is_repeatable(context, placed):
        return replace(placed, relation=with_scans(context, placed.relation, whole=True))
    leaf = _above(context, close(placed), ShuffleMode.BROADCAST, ())
    return Placed(leaf, placed.where, placed.size)


def is_repeatable(context: Context, placed: Placed) -> bool:
    """True if every task may compute the fragment itself, with equal rows and at little cost."""
    if is_volatile(placed.relation) or not _is_built_of_repeatable(placed.relation):
        return False
    found = [leaf for leaf in leaves(placed.relation) if isinstance(leaf, Scan)]
    scanned = sum(context.sheet.scans[scan.source].work.bytes for scan in found)
    return not found or (not context.options.forced and scanned <= _REPEATED_SCAN_BYTES)


def _is_built_of_repeatable(relation: Relation) -> bool:
    return isinstance(relation, _REPEATABLE) and all(
        _is_built_of_repeatable(child) for child in children(relation)
    )


def with_scans(context: Context, relation: Relation, *, whole: bool) -> Relation:
    """The same fragment over scans that each task reads whole, or that are cut among the tasks."""

    def change(leaf: Relation) -> Relation:
        if not isinstance(leaf, Scan) or context.sheet.scans[leaf.source].whole == whole:
            return leaf
        draft = context.sheet.scans[leaf.source]
        name = context.sheet.new_name("scan")
        context.sheet.scans[name] = ScanDraft(draft.scan, draft.work, whole)
        return replace(leaf, source=name)

    return rebuilt(relation, change)


def task_estimate(context: Context, placed: Placed) -> int:
    """About how many tasks will run the stage being built around ``placed``."""
    if placed.is_one:
        return 1
    if placed.where.spread is Spread.SPLIT:
        drafts = [
            context.sheet.scans[leaf.source]
            for leaf in leaves(placed.relation)
            if isinstance(leaf, Scan)
        ]
        return max(sum(d.work.natural_tasks(context.options) for d in drafts if not d.whole), 1)
    return partition_count(context.options, placed.size.bytes)


def partition_count(options: PlannerOptions, size: float) -> int:
    """Partitions a shuffle of ``size`` bytes is cut into: as many for each worker."""
    if options.partitions:
        return options.partitions
    rounds = math.ceil(size / options.partition_bytes / options.workers)
    return min(options.workers * max(rounds, 1), max(MOST_PARTITIONS, options.workers))
