"""The nouns of the shuffle: which shuffle, whose attempt, which section."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

#: The "edge" of a result section; real edges count from 0.
RESULT_EDGE = -1


@dataclass(frozen=True, slots=True, order=True)
class ShuffleId:
    """One edge of one query, in one generation of it."""

    query: str
    edge: int
    generation: int


@dataclass(frozen=True, slots=True, order=True)
class AttemptId:
    """One attempt of one task; two attempts of a task are never equal in content."""

    stage: int
    index: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionFile:
    """Rows of one edge and partition, as a task left them in a local Parquet file.

    ``path`` is None, and ``size`` (bytes) 0, where there are no rows.
    """

    edge: int
    partition: int
    path: Path | None
    rows: int
    size: int
