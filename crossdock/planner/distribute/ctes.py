"""Common table expressions: read once, they are part of the reader; read more often, a stage."""

from __future__ import annotations

from crossdock.planner.distribute.context import Context
from crossdock.planner.distribute.drafts import Placed, StageDraft, leaves
from crossdock.planner.distribute.exchange import again, close, is_repeatable, pending
from crossdock.planner.nodes import Cte, CteRef


def place_cte(context: Context, node: Cte) -> Placed:
    """A definition that is read more than once is computed once, however its readers differ."""
    readers = sum(
        isinstance(leaf, CteRef) and leaf.index == node.index for leaf in leaves(node.body)
    )
    context.ctes[node.index] = (
        _shared(context, context.place(node.definition)) if readers > 1 else node.definition
    )
    return context.place(node.body)


def _shared(context: Context, definition: Placed) -> Placed | StageDraft:
    """What several readers can each have; nothing is worth a stage that costs next to nothing."""
    if definition.is_pending or (definition.is_one and is_repeatable(context, definition)):
        return definition
    return close(definition)


def place_cte_ref(context: Context, node: CteRef) -> Placed:
    entry = context.ctes[node.index]
    match entry:
        case StageDraft():
            return pending(context, entry)
        case Placed():
            return again(context, entry) if entry.is_pending else entry
        case _:
            return context.place(entry)
