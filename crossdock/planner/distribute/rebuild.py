"""Rebuilding a fragment with other leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from crossdock.planner.nodes import Relation

_BELOW = ("child", "left", "right", "anchor", "step", "definition", "body")


def with_children(relation: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """``relation`` with each direct child replaced by what ``change`` makes of it."""
    new: dict[str, Any] = {
        name: change(below)
        for name in _BELOW
        if (below := getattr(relation, name, None)) is not None
    }
    if hasattr(relation, "children"):
        new["children"] = tuple(change(child) for child in relation.children)
    return replace(relation, **new) if new else relation


def rebuilt(relation: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """``relation`` with every leaf replaced by ``change(leaf)``."""
    changed = with_children(relation, lambda child: rebuilt(child, change))
    return change(relation) if changed is relation else changed
