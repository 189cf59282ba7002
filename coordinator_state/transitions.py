"""Every legal move of a query, stage, task and worker: verb, the states it starts from, its end.

The one source of truth: ``sqlite`` checks these tables, ``conditions`` writes DynamoDB expressions
from them, docs/task-states.md draws them, and a test compares the three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Generic, TypeVar

from coordinator_state.errors import IllegalTransition
from coordinator_state.records import QueryStatus, StageStatus, TaskStatus, WorkerStatus

S = TypeVar("S", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Move(Generic[S]):
    """One verb's step; ``target`` None leaves the status as it is."""

    verb: str
    sources: frozenset[S]
    target: S | None

    def starts_from(self, status: S) -> bool:
        return status in self.sources


def _table(*moves: tuple[str, tuple[S, ...], S | None]) -> Mapping[str, Move[S]]:
    return MappingProxyType({v: Move(v, frozenset(sources), to) for v, sources, to in moves})


#: The end of a query is one move whose target the caller names, hence None.
QUERY_MOVES: Mapping[str, Move[QueryStatus]] = _table(
    ("end_query", (QueryStatus.RUNNING,), None),
    ("mark_swept", (QueryStatus.SUCCEEDED, QueryStatus.FAILED, QueryStatus.CANCELLED), None),
    ("close_query", (QueryStatus.SUCCEEDED, QueryStatus.FAILED, QueryStatus.CANCELLED), None),
)

STAGE_MOVES: Mapping[str, Move[StageStatus]] = _table(
    ("activate_stage", (StageStatus.WAITING,), StageStatus.ACTIVE),
    ("complete_stage", (StageStatus.ACTIVE,), StageStatus.COMPLETE),
    ("skip_stage", (StageStatus.WAITING, StageStatus.ACTIVE), StageStatus.SKIPPED),
    # A WAITING stage has nothing to reset: it stays WAITING, so a barrier is not broken.
    (
        "reset_stage",
        (StageStatus.ACTIVE, StageStatus.COMPLETE, StageStatus.SKIPPED),
        StageStatus.ACTIVE,
    ),
    # What rerun_task does to the stage of the task it takes back.
    ("reopen_stage", (StageStatus.ACTIVE, StageStatus.COMPLETE), StageStatus.ACTIVE),
)

TASK_MOVES: Mapping[str, Move[TaskStatus]] = _table(
    ("claim_task", (TaskStatus.PENDING,), TaskStatus.RUNNING),
    ("heartbeat", (TaskStatus.RUNNING,), None),
    ("observe_beat", (TaskStatus.RUNNING,), None),
    ("commit_task", (TaskStatus.RUNNING,), TaskStatus.COMMITTED),
    ("requeue_task", (TaskStatus.RUNNING,), TaskStatus.PENDING),
    ("hand_back_task", (TaskStatus.RUNNING,), TaskStatus.PENDING),
    ("fail_task", (TaskStatus.RUNNING,), TaskStatus.FAILED),
    ("rerun_task", (TaskStatus.COMMITTED,), TaskStatus.PENDING),
    ("reset_stage", tuple(TaskStatus), TaskStatus.PENDING),
    ("skip_stage", (TaskStatus.PENDING, TaskStatus.RUNNING), TaskStatus.SKIPPED),
)

WORKER_MOVES: Mapping[str, Move[WorkerStatus]] = _table(
    ("register_worker", (WorkerStatus.LAUNCHING,), WorkerStatus.ACTIVE),
    (
        "drain_worker",
        (WorkerStatus.LAUNCHING, WorkerStatus.ACTIVE),
        WorkerStatus.DRAINING,
    ),
    (
        "leave_worker",
        (WorkerStatus.LAUNCHING, WorkerStatus.ACTIVE, WorkerStatus.DRAINING),
        WorkerStatus.LEFT,
    ),
    (
        "lose_worker",
        (WorkerStatus.LAUNCHING, WorkerStatus.ACTIVE, WorkerStatus.DRAINING),
        WorkerStatus.LOST,
    ),
)


def landed(move: Move[S], status: S, what: str, *, current: object) -> bool:
    """True if ``what`` already is where ``move`` ends, False if the move may be made.

    Raises:
        IllegalTransition: the move neither starts nor ends at ``status``.
    """
    if move.starts_from(status):
        return False
    if status is move.target:
        return True
    allowed = ", ".join(sorted(move.sources))
    raise IllegalTransition(
        f"{move.verb} of {what}: it is {status}, the move starts from {allowed}", current=current
    )
