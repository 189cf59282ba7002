"""Frozen nodes to SQL text.

Every relation becomes a SELECT whose output columns are c0, c1, ... in order; nesting is by
subselect, so that no name of the user's can collide and no column order is left to ``SELECT *``.
"""

from __future__ import annotations

from crossdock.errors import Unsupported
from crossdock.planner.nodes import Relation
from crossdock.planner.render.expressions import render_expression
from crossdock.planner.render.names import Names
from crossdock.planner.render.relations import render_relation

__all__ = ["render", "render_expression"]


def render(relation: Relation) -> str:
    """One SELECT with columns c0, c1, ...; the same text for the same relation every time.

    Raises ``Unsupported`` for what has no SQL form, or is nested too deeply.
    """
    try:
        return render_relation(relation, Names())
    except RecursionError:
        raise Unsupported("the plan is nested too deeply") from None
