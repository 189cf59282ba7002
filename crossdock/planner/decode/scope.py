"""What the positions in a bound expression refer to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from crossdock.errors import Unsupported
from crossdock.planner.nodes import ColumnRef, Expression


@dataclass(frozen=True, slots=True)
class Scope:
    """Resolves a reference's (position, type); ``depth`` counts enclosing lambdas."""

    resolve: Callable[[int, str], Expression]
    depth: int = 0


#: Positions are the child's output columns.
CHILD_COLUMNS = Scope(ColumnRef)


def columns_without(forbidden: frozenset[int], columns: int) -> Scope:
    """The child's ``columns`` output columns, some of which carry no value that could be read."""

    def resolve(index: int, type_name: str) -> Expression:
        if index in forbidden:
            raise Unsupported("row identifiers (rowid) of a table")
        if index >= columns:
            raise Unsupported(f"reference to column {index} of {columns}")
        return ColumnRef(index, type_name)

    return Scope(resolve)
