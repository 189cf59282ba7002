"""What the scheduler may ask of the shell. Each is a compare-and-set on what was read.

Every instruction is safe to repeat and safe to be refused: a refusal means that somebody else (a
worker, another coordinator) moved the item first, and the next look decides anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator_state.ids import StageId
from coordinator_state.records import ErrorRecord, QueryStatus, TaskRecord, WorkerRecord


@dataclass(frozen=True, slots=True)
class PrepareQueues:
    """Own, then make, the queues of these consumer stages; before any producer may publish."""

    stages: tuple[StageId, ...]


@dataclass(frozen=True, slots=True)
class ActivateStage:
    stage: StageId


@dataclass(frozen=True, slots=True)
class CompleteStage:
    stage: StageId


@dataclass(frozen=True, slots=True)
class SkipStage:
    """Nobody needs more of its output: every reader has committed, or is skipped itself."""

    stage: StageId


@dataclass(frozen=True, slots=True)
class SetCapacity:
    stage: StageId
    admitted: int
    desired: int


@dataclass(frozen=True, slots=True)
class LaunchWorkers:
    """Start ``count`` workers, counted for ``stage``."""

    count: int
    stage: StageId


@dataclass(frozen=True, slots=True)
class DrainWorker:
    worker: WorkerRecord


@dataclass(frozen=True, slots=True)
class LoseWorker:
    worker: WorkerRecord
    why: str


@dataclass(frozen=True, slots=True)
class ObserveBeat:
    task: TaskRecord


@dataclass(frozen=True, slots=True)
class RequeueTask:
    """Fence the running attempt and offer the task again, at the cost of a failure.

    ``beat``: only if the attempt has not beaten since; None: in any case.
    """

    task: TaskRecord
    error: ErrorRecord
    beat: int | None = None


@dataclass(frozen=True, slots=True)
class OfferAgain:
    stage: StageId
    indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RerunProducer:
    """The object of a committed attempt is lost.

    ``reset`` lists the stages to take back first (consumers and their descendants, upstream
    first) under a new generation of the producer's shuffles; empty: no committed task was bound to
    the attempt, so a new attempt is enough and only ``fence`` (running consumers) is taken back.
    """

    task: TaskRecord
    error: ErrorRecord
    generation: int
    reset: tuple[StageId, ...]
    fence: tuple[TaskRecord, ...]


@dataclass(frozen=True, slots=True)
class ResetStages:
    """Committed tasks of ``reset`` are bound to attempts that no longer stand."""

    producer: StageId
    generation: int
    reset: tuple[StageId, ...]


@dataclass(frozen=True, slots=True)
class EndQuery:
    """FAILED or CANCELLED, with the reason in words."""

    status: QueryStatus
    error: ErrorRecord


@dataclass(frozen=True, slots=True)
class FinishQuery:
    """SUCCEEDED with the ordered manifest of result objects."""

    result: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """Delete what the ended query owns, and say so."""


@dataclass(frozen=True, slots=True)
class Close:
    """Every worker is known dead or past its life: sweep again and, if clean, close."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Nothing more to do now; look again in ``delay`` seconds at the latest."""

    delay: float


Instruction = (
    PrepareQueues
    | ActivateStage
    | CompleteStage
    | SkipStage
    | SetCapacity
    | LaunchWorkers
    | DrainWorker
    | LoseWorker
    | ObserveBeat
    | RequeueTask
    | OfferAgain
    | RerunProducer
    | ResetStages
    | EndQuery
    | FinishQuery
    | Sweep
    | Close
    | Tick
)
