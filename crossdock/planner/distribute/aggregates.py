"""Aggregates: in place where rows already lie by group, else in two halves, else by group key.

The two halves exchange the engine's own aggregate states, so that a group costs one row a task
however many rows it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from crossdock.planner import cost
from crossdock.planner.aggregate_states import state_is_carried
from crossdock.planner.distribute.context import Context
from crossdock.planner.distribute.drafts import Placed
from crossdock.planner.distribute.exchange import (
    again,
    already_together,
    close,
    gathered,
    is_single,
    pending,
    scattered,
    shuffled,
    task_estimate,
)
from crossdock.planner.distribute.expressions import is_volatile, output_columns
from crossdock.planner.distribute.partitioning import Partitioning
from crossdock.planner.distribute.sets import concatenated
from crossdock.planner.nodes import (
    Aggregate,
    AggregateCall,
    ColumnRef,
    Constant,
    Distinct,
    Expression,
    FinalAggregate,
    PartialAggregate,
    Project,
    SetOperation,
)

#: A product that overflows in one part is infinite, and infinity times another part's zero is NaN.
_UNSAFE_STATES = frozenset({"product"})
#: Sets beyond which rows had better be moved once, to one task.
_MOST_SETS = 16
#: States of all tasks together that are not worth a shuffle of their own.
_SMALL_BYTES = 4 * 1024 * 1024


def place_aggregate(context: Context, node: Aggregate) -> Placed:
    return _aggregated(context, context.place(node.child), node)


def _aggregated(context: Context, child: Placed, node: Aggregate) -> Placed:
    keys = _keys_in_every_set(node)
    if is_single(context, child):
        return _whole(gathered(context, child), node)
    if child.is_pending and not node.groups and _is_light(context, child):
        return _whole(gathered(context, child), node)
    if is_volatile(node.groups):
        return _whole(gathered(context, child, "a group key that changes when repeated"), node)
    if keys and (near := already_together(context, child, keys)):
        return _whole(near, node)
    if keys and (child.is_pending or not _halves_save(node, child)):
        return _whole(shuffled(context, child, keys), node)
    if _has_halves(node):
        return _in_halves(context, child, node)
    if keys:
        return _whole(shuffled(context, child, keys), node)
    if _is_one_distinct(node):
        return _over_distinct(context, child, node)
    if 0 < len(node.sets) <= _MOST_SETS:
        return _set_by_set(context, child, node)
    return _whole(gathered(context, child, _why_gathered(node)), node)


def _is_light(context: Context, child: Placed) -> bool:
    """True if rows that must move anyway may as well move to one task."""
    return not context.options.forced and child.size.bytes <= _SMALL_BYTES


def _keys_in_every_set(node: Aggregate) -> tuple[Expression, ...]:
    """Group keys that no grouping set blanks: rows equal in them may be aggregated together."""
    shared = set(range(len(node.groups))).intersection(*map(set, node.sets))
    return tuple(group for i, group in enumerate(node.groups) if i in shared)


def _why_gathered(node: Aggregate) -> str:
    names = sorted({a.name for a in node.aggregates if not _has_state(a)})
    if node.sets and not names:
        return "many repeated grouping sets without a common key"
    kind = "many grouping sets without a common key" if node.sets else "an aggregate without groups"
    return f"{kind} of what has no partial form: {', '.join(names)}"


# -- one aggregate over whole groups ---------------------------------------------------------------


def _whole(child: Placed, node: Aggregate) -> Placed:
    """The aggregate as it stands, over rows that lie by group."""
    return replace(
        child,
        relation=replace(node, child=child.relation),
        where=_grouped_where(child.where, node),
        size=_size(child, node),
    )


def _grouped_where(where: Partitioning, node: Aggregate) -> Partitioning:
    """Keys are now output columns, if every set has them."""
    shared = set(_keys_in_every_set(node))
    places = [(i, g) for i, g in enumerate(node.groups) if g in shared]
    return where.map(lambda member: [ColumnRef(i, g.type) for i, g in places if g == member])


def _size(child: Placed, node: Aggregate) -> cost.Estimate:
    size = cost.grouped(child.size, node.groups, node.aggregates)
    columns = size.columns + tuple(cost.column_of("BIGINT") for _ in node.groupings)
    return cost.Estimate(size.rows * max(len(node.sets), 1), columns)


# -- two halves ------------------------------------------------------------------------------------


def _has_state(call: AggregateCall) -> bool:
    if call.distinct or call.order or call.within_group or call.name in _UNSAFE_STATES:
        return False
    types = [argument.type for argument in call.arguments]
    return state_is_carried(call.name, types, constant_arguments(call))


def _has_halves(node: Aggregate) -> bool:
    """True if states can be combined by (keys, grouping id); equal sets share one id."""
    sets = [frozenset(s) for s in node.sets]
    return len(set(sets)) == len(sets) and all(map(_has_state, node.aggregates))


def _halves_save(node: Aggregate, child: Placed) -> bool:
    """False if footers say that groups are about as many as rows: states would be dearer."""
    if node.sets or not _has_halves(node):
        return _has_halves(node)
    groups = cost.group_count(child.size, node.groups)
    if groups is None:
        return True
    return groups * _partial_size(child, node).width < child.size.bytes


def _partial_size(child: Placed, node: Aggregate) -> cost.Estimate:
    whole = cost.grouped(child.size, node.groups, node.aggregates)
    keys = whole.columns[: len(node.groups)]
    identity = (cost.column_of("BIGINT"),) if _with_grouping_id(node) else ()
    states = tuple(cost.state_column() for _ in node.aggregates)
    return cost.Estimate(whole.rows * max(len(node.sets), 1), keys + identity + states)


def _with_grouping_id(node: Aggregate) -> bool:
    full = tuple(range(len(node.groups)))
    return bool(node.groupings) or any(tuple(sorted(s)) != full for s in node.sets)


def _in_halves(context: Context, child: Placed, node: Aggregate) -> Placed:
    if child.is_pending:
        child = scattered(context, child)
    with_id = _with_grouping_id(node)
    first = PartialAggregate(child.relation, node.groups, node.aggregates, node.sets, with_id)
    partial = replace(child, relation=first, size=_partial_size(child, node))
    keys = output_columns(first.types)[: len(node.groups) + with_id]
    few = not keys or _is_small(context, child, node)
    met = gathered(context, partial) if few else shuffled(context, partial, keys)
    final = FinalAggregate(
        met.relation,
        len(node.groups),
        node.aggregates,
        tuple(g.type for g in node.groups),
        node.groupings,
        with_id,
    )
    shown = range(len(node.groups))
    where = met.where.emitted(shown)
    return replace(met, relation=final, where=where, size=_size(child, node))


def constant_arguments(call: AggregateCall) -> tuple[str, ...]:
    """SQL text of each argument that is a constant, "" for the others."""
    return tuple(a.sql if isinstance(a, Constant) else "" for a in call.arguments)


def _is_small(context: Context, child: Placed, node: Aggregate) -> bool:
    """True if one task finishes sooner than several would start, by what footers tell of groups."""
    if context.options.forced:
        return False
    groups = cost.group_count(child.size, node.groups)
    sent = child.size.rows if groups is None else groups * task_estimate(context, child)
    rows = min(sent, child.size.rows) * max(len(node.sets), 1)
    return rows * _partial_size(child, node).width <= _SMALL_BYTES


# -- sets that share no key ------------------------------------------------------------------------


def _set_by_set(context: Context, child: Placed, node: Aggregate) -> Placed:
    """Each grouping set as an aggregate of its own over rows that are computed once."""
    if not child.is_pending:
        child = pending(context, close(child))
    parts = []
    for place, wanted in enumerate(node.sets):
        rows = again(context, child) if place else child
        groups = tuple(node.groups[i] for i in wanted)
        one = replace(node, child=rows.relation, groups=groups, sets=(), groupings=())
        parts.append(_widened(_aggregated(context, rows, one), node, wanted))
    union = SetOperation("UNION", True, tuple(part.relation for part in parts))
    return concatenated(context, parts, union)


def _widened(part: Placed, node: Aggregate, wanted: tuple[int, ...]) -> Placed:
    """One set's rows with the columns of all: NULL for what it blanks, and its GROUPING values."""
    types = part.relation.types
    places = {group: place for place, group in enumerate(wanted)}
    columns: list[Expression] = [
        ColumnRef(places[i], group.type)
        if i in places
        else Constant(f"CAST(NULL AS {group.type})", group.type)
        for i, group in enumerate(node.groups)
    ]
    columns += [ColumnRef(i, types[i]) for i in range(len(wanted), len(types))]
    columns += [_grouping(entry, wanted) for entry in node.groupings]
    return replace(
        part,
        relation=Project(part.relation, tuple(columns)),
        where=part.where.projected(columns),
        size=cost.projected(part.size, tuple(columns)),
    )


def _grouping(entry: tuple[int, ...], wanted: tuple[int, ...]) -> Constant:
    """The value of a GROUPING call: a bit for each blanked group, the first one highest."""
    bits = "".join("0" if group in wanted else "1" for group in entry)
    return Constant(f"CAST({int(bits or '0', 2)} AS BIGINT)", "BIGINT")


# -- DISTINCT without groups -----------------------------------------------------------------------


def _is_one_distinct(node: Aggregate) -> bool:
    """True if all calls are DISTINCT over the same arguments and nothing else tells them apart."""
    first = node.aggregates[0] if node.aggregates else None
    return (
        first is not None
        and not node.groups
        and all(
            a.distinct and a.arguments == first.arguments and not (a.filter or a.order)
            for a in node.aggregates
        )
        and not is_volatile(first.arguments)
        and all(map(_has_state, _without_distinct(node.aggregates)))
    )


def _without_distinct(calls: Sequence[AggregateCall]) -> tuple[AggregateCall, ...]:
    return tuple(
        replace(
            call,
            distinct=False,
            arguments=tuple(ColumnRef(i, a.type) for i, a in enumerate(call.arguments)),
        )
        for call in calls
    )


def _over_distinct(context: Context, child: Placed, node: Aggregate) -> Placed:
    """Each value once, by value over all tasks; then the plain aggregates in two halves."""
    if child.is_pending:
        child = scattered(context, child)
    arguments = node.aggregates[0].arguments
    projected = Project(child.relation, arguments)
    columns = output_columns(projected.types)
    local = replace(
        child,
        relation=Distinct(projected, columns),
        size=cost.projected(child.size, arguments),
    )
    met = shuffled(context, local, columns)
    once = replace(met, relation=Distinct(met.relation, columns))
    plain = replace(node, aggregates=_without_distinct(node.aggregates))
    return _in_halves(context, once, plain)
