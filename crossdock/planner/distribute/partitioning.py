"""What is known about where rows are: the property distribution tracks through a fragment.

``HASHED`` holds one ``Position`` per hash key: the set of expressions over the current output, any
of which has the hashed value (none, if the key is no longer shown). Keeping equals together lets
one shuffle serve several operators (``a.k = b.k`` of an inner join makes ``b.k`` as good a key as
``a.k``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from crossdock.planner.distribute.expressions import renumber
from crossdock.planner.nodes import ColumnRef, Expression, Operator

Position = frozenset[Expression]


class Spread(StrEnum):
    """Over how many tasks a fragment's rows are spread, and by what."""

    ONE = "one"  # one task has them all
    SPLIT = "split"  # tasks follow the splits of scans
    HASHED = "hashed"  # tasks own partitions; keys may be unknown (no positions)
    PENDING = "pending"  # another stage's output, its exchange not chosen yet


@dataclass(frozen=True, slots=True)
class Partitioning:
    spread: Spread
    positions: tuple[Position, ...] = ()

    @property
    def is_one(self) -> bool:
        return self.spread is Spread.ONE

    def map(self, change: Callable[[Expression], Iterable[Expression]]) -> Partitioning:
        """The property after an operator that re-states each member as ``change`` says.

        A position that loses all its members stays, empty: the rows are where they were, though
        no output column shows by what.
        """
        moved = tuple(
            frozenset(new for member in position for new in change(member))
            for position in self.positions
        )
        return Partitioning(self.spread, moved)

    def emitted(self, emit: Sequence[int]) -> Partitioning:
        """After an operator that outputs the columns ``emit`` only."""
        places = {column: place for place, column in reversed(tuple(enumerate(emit)))}

        def change(member: Expression) -> tuple[Expression, ...]:
            moved = renumber(member, places)
            return () if moved is None else (moved,)

        return self.map(change)

    def projected(self, expressions: Sequence[Expression]) -> Partitioning:
        """After a projection to ``expressions``."""
        places = {
            e.index: place
            for place, e in reversed(tuple(enumerate(expressions)))
            if isinstance(e, ColumnRef)
        }

        def change(member: Expression) -> tuple[Expression, ...]:
            same = [ColumnRef(i, e.type) for i, e in enumerate(expressions) if e == member]
            moved = renumber(member, places)
            return (*same, moved) if moved is not None else tuple(same)

        return self.map(change)

    def with_equal(self, pairs: Iterable[tuple[Expression, Expression]]) -> Partitioning:
        """After an inner join on ``left = right``: each side stands for the other.

        Only expressions of one type do: equal values of two types hash differently.
        """
        positions = self.positions
        for left, right in pairs:
            if left.type == right.type:
                both = frozenset((left, right))
                positions = tuple(p | both if p & both else p for p in positions)
        return Partitioning(self.spread, positions)

    def within(self, keys: Iterable[Expression]) -> bool:
        """True if rows equal in ``keys`` are surely in one task."""
        if self.spread is Spread.ONE:
            return True
        wanted = frozenset(keys)
        return bool(self.positions) and all(position & wanted for position in self.positions)


ONE = Partitioning(Spread.ONE)
SPLIT = Partitioning(Spread.SPLIT)
PENDING = Partitioning(Spread.PENDING)
#: In partitions, by keys that no output column shows.
SCATTERED = Partitioning(Spread.HASHED)


def hashed(keys: Iterable[Expression]) -> Partitioning:
    """Partitioned by ``keys``, in this order."""
    return Partitioning(Spread.HASHED, tuple(frozenset((key,)) for key in keys))


def merged_key(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    """What a full join's USING column may look like: the key of whichever side has the row.

    Three tables merge into one COALESCE of three, so nested ones are spread out.
    """
    first, second = _alternatives(left), _alternatives(right)
    return (
        Operator("COALESCE", first + second, left.type),
        Operator("COALESCE", second + first, left.type),
    )


def _alternatives(key: Expression) -> tuple[Expression, ...]:
    if isinstance(key, Operator) and key.name == "COALESCE":
        return key.children
    return (key,)
