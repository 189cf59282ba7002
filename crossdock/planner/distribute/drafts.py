"""Stages and edges while they are being drawn; ``planner.stages`` numbers and prints them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

from crossdock.planner.cost import Estimate
from crossdock.planner.distribute.partitioning import Partitioning, Spread
from crossdock.planner.nodes import CteRef, Expression, Filter, Input, Project, Relation, Scan
from crossdock.planner.plan import ShuffleMode
from crossdock.planner.splits import ScanWork


@dataclass(frozen=True, slots=True)
class Placed:
    """A relation inside the stage being built, and what is known of where its rows are."""

    relation: Relation
    where: Partitioning
    size: Estimate
    reasons: tuple[str, ...] = ()  # one-task rules that applied in this stage

    @property
    def is_one(self) -> bool:
        return self.where.is_one

    @property
    def is_pending(self) -> bool:
        return self.where.spread is Spread.PENDING

    def because(self, reason: str) -> Placed:
        """With one more reason, if it is one."""
        if not reason or reason in self.reasons:
            return self
        return replace(self, reasons=(*self.reasons, reason))


@dataclass(frozen=True, slots=True, eq=False)
class StageDraft:
    """A closed fragment. Identity is the object: two equal fragments are two stages."""

    placed: Placed
    prefix_limit: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class EdgeDraft:
    """One exchange; ``keys`` are over the producer's output columns."""

    name: str
    producer: StageDraft
    mode: ShuffleMode
    keys: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ScanDraft:
    """A scan in a fragment; ``whole`` means each task reads all of it."""

    scan: Scan
    work: ScanWork
    whole: bool


@dataclass(slots=True)
class Sheet:
    """All drafts of one plan, by the name their leaf carries in a fragment."""

    edges: dict[str, EdgeDraft] = field(default_factory=dict)
    scans: dict[str, ScanDraft] = field(default_factory=dict)
    #: Stages whose output a leaf will read, once its exchange is chosen.
    pending: dict[str, StageDraft] = field(default_factory=dict)
    _names: int = 0

    def new_name(self, stem: str) -> str:
        self._names += 1
        return f"{stem}_{self._names}"


@cache
def members_below(kind: Any) -> tuple[tuple[str, ...], str]:
    """Members of a relation's class that hold one relation, and the one that holds several."""
    names = {field.name for field in fields(kind)}
    single = ("child", "left", "right", "anchor", "definition", "step", "body")
    return tuple(
        name for name in single if name in names
    ), "children" if "children" in names else ""


def children(relation: Relation) -> tuple[Relation, ...]:
    """The relations directly below, left to right."""
    match relation:
        case Input() | Scan() | CteRef():
            return ()
        case _:
            kind: Any = type(relation)
            single, several = members_below(kind)
            found = [getattr(relation, name) for name in single]
            return (*found, *getattr(relation, several)) if several else tuple(found)


def leaves(relation: Relation) -> Iterator[Relation]:
    """Relations without children, left to right."""
    below = children(relation)
    if not below:
        yield relation
    for child in below:
        yield from leaves(child)


def pending_leaf(relation: Relation) -> Input:
    """The leaf of a pending fragment: only filters and projections stand above it."""
    while isinstance(relation, Filter | Project):
        relation = relation.child
    if not isinstance(relation, Input):
        raise AssertionError(f"not a pending fragment: {type(relation).__name__}")
    return relation
