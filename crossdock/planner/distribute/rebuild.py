"""Rebuilding a fragment with other leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from crossdock.planner.distribute.drafts import members_below
from crossdock.planner.nodes import Relation


def with_children(relation: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """``relation`` with each direct child replaced by what ``change`` makes of it."""
    kind: Any = type(relation)
    single, several = members_below(kind)
    new: dict[str, Any] = {name: change(getattr(relation, name)) for name in single}
    if several:
        new[several] = tuple([change(child) for child in getattr(relation, several)])
    return replace(relation, **new) if new else relation


def rebuilt(relation: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """``relation`` with every leaf replaced by ``change(leaf)``."""
    changed = with_children(relation, lambda child: rebuilt(child, change))
    return change(relation) if changed is relation else changed
