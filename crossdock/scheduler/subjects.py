"""How an error record names a producer attempt, so that the coordinator can run it again."""

from __future__ import annotations

from coordinator_state.ids import StageId
from coordinator_state.records import ErrorRecord

#: The kind of an error record that reports a committed exchange object lost or corrupt.
EXCHANGE_LOST = "ExchangeLost"


def producer_subject(stage: int, index: int, attempt: int) -> str:
    return f"{stage}/{index}/{attempt}"


def named_producer(error: ErrorRecord | None) -> tuple[StageId, int, int] | None:
    """(stage, index, attempt) that the error reports lost; None for any other error."""
    if error is None or error.kind != EXCHANGE_LOST:
        return None
    parts = error.subject.split("/")
    if len(parts) != 3 or not all(p.isdecimal() for p in parts):
        return None
    stage, index, attempt = map(int, parts)
    return StageId(stage), index, attempt
