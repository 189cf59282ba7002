"""Grouping: whole, partial (engine states) and final."""

from __future__ import annotations

from collections.abc import Sequence

from crossdock.planner.nodes import (
    Aggregate,
    ColumnRef,
    Expression,
    FinalAggregate,
    PartialAggregate,
)
from crossdock.planner.render.expressions import render_expression
from crossdock.planner.render.names import Names, Source, select


def aggregate(relation: Aggregate, source: Source, names: Names) -> str:
    """Groups, aggregates, GROUPING values."""
    source, keys = _group_columns(relation.groups, source, len(relation.child.types), names)
    columns = list(keys)
    columns += [render_expression(call, source.column) for call in relation.aggregates]
    columns += [f"grouping({', '.join(keys[i] for i in entry)})" for entry in relation.groupings]
    return select(columns, source.text) + _group_by(keys, relation.sets)


def partial_aggregate(relation: PartialAggregate, source: Source, names: Names) -> str:
    """Groups, the grouping id if asked for, and one engine state an aggregate."""
    source, keys = _group_columns(relation.groups, source, len(relation.child.types), names)
    columns = list(keys)
    if relation.with_grouping_id:
        columns.append(f"grouping_id({', '.join(keys)})" if keys else "CAST(0 AS BIGINT)")
    columns += [
        f"{render_expression(call, source.column)} EXPORT_STATE" for call in relation.aggregates
    ]
    return select(columns, source.text) + _group_by(keys, relation.sets)


def final_aggregate(relation: FinalAggregate, source: Source) -> str:
    """Combine the states of equal keys; GROUPING values come from the carried grouping id."""
    states = relation.groups + (1 if relation.with_grouping_id else 0)
    keys = source.columns(range(states))
    columns = keys[: relation.groups]
    columns += [
        f"finalize(combine_aggr({source.column(states + i)}))"
        for i in range(len(relation.aggregates))
    ]
    identity = source.column(relation.groups)
    columns += [_grouping(entry, relation.groups, identity) for entry in relation.groupings]
    return select(columns, source.text) + _group_by(keys, ())


def _group_columns(
    groups: Sequence[Expression], source: Source, width: int, names: Names
) -> tuple[Source, list[str]]:
    """The group keys as plain columns of a source, which GROUPING and grouping sets need.

    Keys that are computed, or given twice, are computed once in a subselect, after the child's
    columns.
    """
    plain = all(isinstance(group, ColumnRef) for group in groups)
    if plain and len(set(groups)) == len(groups):
        return source, [render_expression(group, source.column) for group in groups]
    columns = source.columns(range(width))
    columns += [render_expression(group, source.column) for group in groups]
    alias = names.alias()
    wrapped = Source(f"({select(columns, source.text)}) AS {alias}", alias)
    return wrapped, wrapped.columns(range(width, width + len(groups)))


def _group_by(keys: Sequence[str], sets: Sequence[Sequence[int]]) -> str:
    if sets:
        listed = ", ".join(f"({', '.join(keys[i] for i in entry)})" for entry in sets)
        return f" GROUP BY GROUPING SETS ({listed})"
    return f" GROUP BY {', '.join(keys)}" if keys else ""


def _grouping(entry: Sequence[int], groups: int, identity: str) -> str:
    """GROUPING(...) from the id, whose bits are the groups, the first one highest."""
    bits = [
        f"((({identity} >> {groups - 1 - group}) & 1) << {len(entry) - 1 - place})"
        for place, group in enumerate(entry)
    ]
    return f"CAST({' | '.join(bits) or '0'} AS BIGINT)"
