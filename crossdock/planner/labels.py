"""What a fragment does, for people, and whether its row order matters."""

from __future__ import annotations

from collections.abc import Iterator

from crossdock.planner.distribute.drafts import children
from crossdock.planner.nodes import (
    Aggregate,
    AsofJoin,
    CrossProduct,
    Distinct,
    ExpressionRows,
    FinalAggregate,
    Join,
    Limit,
    Order,
    PartialAggregate,
    PositionalJoin,
    RecursiveCte,
    Relation,
    Sample,
    Scan,
    SetOperation,
    TableFunction,
    TopN,
    Unnest,
    Values,
    Window,
)

_NAMES: dict[type[Relation], str] = {
    Aggregate: "aggregate",
    AsofJoin: "asof join",
    CrossProduct: "cross product",
    Distinct: "distinct",
    ExpressionRows: "values",
    FinalAggregate: "final aggregate",
    Limit: "limit",
    Order: "order",
    PartialAggregate: "partial aggregate",
    PositionalJoin: "positional join",
    RecursiveCte: "recursion",
    Sample: "sample",
    TopN: "top n",
    Unnest: "unnest",
    Values: "values",
    Window: "window",
}


def parts_of(relation: Relation) -> Iterator[Relation]:
    """``relation`` and all below it, inputs first."""
    for child in children(relation):
        yield from parts_of(child)
    yield relation


def label_of(relation: Relation) -> str:
    """What the fragment does, in order: ``scan lineitem, semi join, partial aggregate``."""
    named = [_name(part) for part in parts_of(relation)]
    return ", ".join(dict.fromkeys(name for name in named if name)) or "compute"


def _name(part: Relation) -> str:
    match part:
        case Scan():
            return f"scan {part.table}"
        case TableFunction():
            return part.name
        case Join():
            return f"{part.kind.value.lower()} join"
        case SetOperation():
            return f"{part.kind.lower()} all" if part.all else part.kind.lower()
        case _:
            return _NAMES.get(type(part), "")


def order_matters(relation: Relation) -> bool:
    """True if rows must not change places inside the fragment or in its output."""
    return any(isinstance(part, Order | TopN | PositionalJoin) for part in parts_of(relation))


def is_sequential(relation: Relation) -> bool:
    """True if the order of the input's own rows decides what the fragment gives."""
    return any(isinstance(part, PositionalJoin) for part in parts_of(relation))
