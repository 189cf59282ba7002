"""Aliases of subselects, and how a child's columns are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

#: Text of a child's output column by position.
Refs = Callable[[int], str]


class Names:
    """Draws aliases t1, t2, ... that are unique in one text."""

    def __init__(self) -> None:
        self._drawn = 0

    def alias(self) -> str:
        self._drawn += 1
        return f"t{self._drawn}"


@dataclass(frozen=True, slots=True)
class Source:
    """Something to select from: its text in FROM and the alias its columns are under."""

    text: str
    alias: str

    def column(self, index: int) -> str:
        return f"{self.alias}.c{index}"

    def columns(self, indexes: Iterable[int]) -> list[str]:
        alias = self.alias
        return [f"{alias}.c{i}" for i in indexes]


def select(columns: Sequence[str], source: str, prefix: str = "SELECT ") -> str:
    """``columns`` as c0, c1, ...; a relation without columns still has rows."""
    listed = ", ".join([f"{text} AS c{i}" for i, text in enumerate(columns)])
    return f"{prefix}{listed or '1 AS c0'} FROM {source}"


def either_side(left: Source, width: int, right: Source) -> Refs:
    """Columns of a join: the left child's ``width`` first, then the right child's."""

    def refs(index: int) -> str:
        return left.column(index) if index < width else right.column(index - width)

    return refs
