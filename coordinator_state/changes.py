"""What each verb writes, as data: field -> new value, ``Increment``, ``Append`` or ``Tally``.

Both stores write exactly these: SQLite applies them to the record it holds under its lock, DynamoDB
sends them as one update expression. A change never depends on a field another writer may have moved
since it was read; where it must, it is one of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from coordinator_state import schema
from coordinator_state.ids import Nonce, StageId, WorkerId
from coordinator_state.records import (
    Commit,
    ErrorRecord,
    QueryRecord,
    QueryStatus,
    StageRecord,
    StageStatus,
    TableChange,
    TaskRecord,
    TaskStatus,
    WorkerStatus,
)

R = TypeVar("R", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Increment:
    """Add to a number."""

    by: int = 1


@dataclass(frozen=True, slots=True)
class Append:
    """Add at the end of a tuple."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """Add to a mapping of counts."""

    counts: Mapping[str, int]


Changes = Mapping[str, object]


def apply(record: R, changes: Changes) -> R:
    """The record after ``changes``."""
    values: dict[str, object] = {}
    for field, change in changes.items():
        if isinstance(change, Increment):
            values[field] = getattr(record, field) + change.by
        elif isinstance(change, Append):
            values[field] = (*getattr(record, field), *change.items)
        elif isinstance(change, Tally):
            values[field] = dict(Counter(getattr(record, field)) + Counter(change.counts))
        else:
            values[field] = change
    return msgspec.structs.replace(record, **values)


def cut(text: str, limit: int) -> str:
    """At most ``limit`` characters, the last one an ellipsis if something was lost."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cut_error(error: ErrorRecord | None) -> ErrorRecord | None:
    if error is None or len(error.message) <= schema.MAX_ERROR_CHARS:
        return error
    message = cut(error.message, schema.MAX_ERROR_CHARS)
    return msgspec.structs.replace(error, message=message)


# -- query -------------------------------------------------------------------------------------
def new_query(query: QueryRecord) -> QueryRecord:
    """The query as it is first written."""
    return msgspec.structs.replace(query, sql=cut(query.sql, schema.MAX_SQL_CHARS))


def ended(
    status: QueryStatus,
    *,
    now: float,
    result: Sequence[str],
    result_key: str,
    result_rows: int,
    error: ErrorRecord | None,
    table: TableChange | None = None,
) -> Changes:
    """Raises ``ValueError`` for RUNNING, or a manifest too long for the query item."""
    if status is QueryStatus.RUNNING:
        raise ValueError("a query cannot end RUNNING")
    if len(result) > schema.MAX_RESULT_KEYS:
        raise ValueError(
            f"{len(result)} result keys do not fit a query item (at most "
            f"{schema.MAX_RESULT_KEYS}); write the manifest as an object and pass result_key"
        )
    return {
        "status": status,
        "ended_at": now,
        "result": tuple(result),
        "result_key": result_key,
        "result_rows": result_rows,
        "manifest": table.record.manifest if table else "",
        "error": cut_error(error),
    }


def turn_begun(holder: str, *, until: float) -> Changes:
    return {"turn_holder": holder, "turn_until": until}


def turn_ended(usage: Mapping[str, int]) -> Changes:
    """``usage``: requests by kind that the query's item does not count yet."""
    released: Changes = {"turn_holder": "", "turn_until": 0.0}
    return {**released, "coordinator_usage": Tally(usage)} if usage else released


def new_tasks(query: QueryRecord, stage: StageRecord) -> Sequence[TaskRecord]:
    """The stage's sealed task list, all PENDING."""
    return [
        TaskRecord(
            query_id=query.query_id,
            stage=stage.stage,
            index=index,
            pending_since=query.created_at,
        )
        for index in range(stage.tasks)
    ]


KNOCKED: Changes = {"wake": Increment()}
COMMIT_BEGUN: Changes = {"committing": True}
TICKED: Changes = {"tick": Increment()}
SWEPT: Changes = {"swept": True}
CLOSED: Changes = {"closed": True}
PURGED: Changes = {"purged": True}


# -- stage -------------------------------------------------------------------------------------
ACTIVATED: Changes = {"status": StageStatus.ACTIVE}
STAGE_SKIPPED: Changes = {"status": StageStatus.SKIPPED, "offers": (), "desired": 0}
NEW_GENERATION: Changes = {"generation": Increment()}
#: ``reopened`` moves so that a ``complete_stage`` decided before the reset is refused.
STAGE_RESET: Changes = {
    "status": StageStatus.ACTIVE,
    "cursor": 0,
    "offers": (),
    "committed": 0,
    "reopened": Increment(),
}
#: A committed task was taken back; see ``STAGE_RESET`` for ``reopened``.
REOPENED: Changes = {
    "status": StageStatus.ACTIVE,
    "committed": 0,
    "reopened": Increment(),
}
CURSOR_MOVED: Changes = {"cursor": Increment()}


def completed(tasks: int) -> Changes:
    return {"status": StageStatus.COMPLETE, "offers": (), "committed": tasks}


# -- task --------------------------------------------------------------------------------------
def claimed(worker_id: WorkerId, nonce: Nonce, *, generation: int, now: float) -> Changes:
    return {
        "status": TaskStatus.RUNNING,
        "attempt": Increment(),
        "nonce": nonce,
        "worker_id": worker_id,
        "generation": generation,
        "beat": 1,
        "beat_seen": -1,
        "beat_seen_at": 0.0,
        "claimed_at": now,
        "phase": "claim",
        "peak_memory": 0,
    }


def beaten(*, phase: str, peak_memory: int) -> Changes:
    return {"beat": Increment(), "phase": phase, "peak_memory": peak_memory}


def beat_observed(task: TaskRecord, *, now: float) -> Changes:
    return {"beat_seen": task.beat, "beat_seen_at": now}


def committed(commit: Commit, bound: Sequence[tuple[StageId, int, int]]) -> Changes:
    return {
        "status": TaskStatus.COMMITTED,
        "commit": commit,
        "bound": tuple(bound),
        "error": None,
        "phase": "",
        "peak_memory": commit.peak_memory,
    }


def _pending(task: TaskRecord, now: float) -> dict[str, object]:
    """Back to PENDING. The nonce stays: it tells a repeated write that it has landed already."""
    return {
        "status": TaskStatus.PENDING,
        "worker_id": WorkerId(""),
        "pending_since": now,
        "lost_attempts": Append((task.attempt,)),
    }


def requeued(task: TaskRecord, error: ErrorRecord, *, now: float, burn: bool) -> Changes:
    return {**_pending(task, now), "failures": Increment(int(burn)), "error": cut_error(error)}


def handed_back(task: TaskRecord, *, now: float) -> Changes:
    return {**_pending(task, now), "handbacks": Increment(), "phase": ""}


def failed(task: TaskRecord, error: ErrorRecord) -> Changes:
    return {
        "status": TaskStatus.FAILED,
        "failures": Increment(),
        "error": cut_error(error),
        "lost_attempts": Append((task.attempt,)),
    }


def rerun(task: TaskRecord, error: ErrorRecord, *, now: float) -> Changes:
    """A failure is burned, so a medium that loses every object ends the query and does not loop."""
    return {
        **_pending(task, now),
        "failures": Increment(),
        "error": cut_error(error),
        "commit": None,
        "bound": (),
        "phase": "",
    }


def reset(task: TaskRecord, *, now: float) -> Changes:
    """The attempt moves although nobody claimed: whatever older attempts still send is refused."""
    changes = {
        **_pending(task, now),
        "attempt": Increment(),
        "commit": None,
        "bound": (),
        "phase": "",
    }
    if task.status not in (TaskStatus.RUNNING, TaskStatus.COMMITTED):
        del changes["lost_attempts"]  # noted when that attempt ended, or there was none
    return changes


def skipped(task: TaskRecord) -> Changes:
    lost = (task.attempt,) if task.status is TaskStatus.RUNNING else ()
    return {"status": TaskStatus.SKIPPED, "lost_attempts": Append(lost)}


# -- worker ------------------------------------------------------------------------------------
def registered(*, now: float, life_until: float) -> Changes:
    return {"status": WorkerStatus.ACTIVE, "registered_at": now, "life_until": life_until}


DRAINED: Changes = {"status": WorkerStatus.DRAINING}
LOST: Changes = {"status": WorkerStatus.LOST}


def left(*, now: float, usage: Mapping[str, int]) -> Changes:
    return {"status": WorkerStatus.LEFT, **left_late(now=now, usage=usage)}


def left_late(*, now: float, usage: Mapping[str, int]) -> Changes:
    """Goodbye of a worker that was given up: it stays LOST; what it used is kept all the same."""
    return {"left_at": now, "usage": dict(usage)}


def used(usage: Mapping[str, int]) -> Changes:
    return {"usage": dict(usage)}
