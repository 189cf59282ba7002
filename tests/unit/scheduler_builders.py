"""Short spellings of records, so that scheduler tests read as tables."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator_state.ids import Nonce, QueryId, StageId, WorkerId
from coordinator_state.records import (
    Commit,
    ErrorRecord,
    QueryRecord,
    QueryStatus,
    StageRecord,
    StageStatus,
    TaskRecord,
    TaskStatus,
    WorkerRecord,
    WorkerStatus,
)
from crossdock.scheduler import Instruction, Limits, Snapshot, decide

QUERY = QueryId("q")
NOW = 1000.0
LEASE = 30.0
SKEW = 5.0
LIMITS = Limits(budget=4, skew=SKEW)

_STATES = {
    ".": TaskStatus.PENDING,
    "R": TaskStatus.RUNNING,
    "C": TaskStatus.COMMITTED,
    "F": TaskStatus.FAILED,
}


def query(**fields: object) -> QueryRecord:
    values: dict[str, object] = {"created_at": NOW - 10, "lease_seconds": LEASE, **fields}
    return QueryRecord(query_id=QUERY, **values)  # type: ignore[arg-type]


def ended(status: QueryStatus = QueryStatus.SUCCEEDED, **fields: object) -> QueryRecord:
    return query(status=status, **fields)


def stage(
    number: int,
    tasks: int,
    *upstream: int,
    status: StageStatus = StageStatus.ACTIVE,
    depth: int | None = None,
    **fields: object,
) -> StageRecord:
    """``cursor`` and ``admitted`` default to all tasks: nothing is left to the cursor."""
    values: dict[str, object] = {"admitted": tasks, "cursor": tasks, **fields}
    return StageRecord(
        query_id=QUERY,
        stage=StageId(number),
        status=status,
        depth=(1 if upstream else 0) if depth is None else depth,
        upstream=tuple(map(StageId, upstream)),
        tasks=tasks,
        **values,  # type: ignore[arg-type]
    )


def task(number: int, index: int, state: str, **fields: object) -> TaskRecord:
    """``state``: ``.`` pending, ``R`` running on w<index>, ``C`` committed, ``F`` failed."""
    status = _STATES[state]
    values: dict[str, object] = {
        "pending_since": NOW - 1,
        "claimed_at": NOW - 1 if state != "." else 0.0,
        "attempt": 0 if state == "." else 1,
        **fields,
    }
    if status is TaskStatus.RUNNING:
        values.setdefault("worker_id", WorkerId(f"w{index}"))
        values.setdefault("nonce", Nonce("n"))
        values.setdefault("beat", 1)
    if status is TaskStatus.COMMITTED:
        values.setdefault("commit", Commit(object_key=f"o{index}", rows_out=10))
    return TaskRecord(
        query_id=QUERY,
        stage=StageId(number),
        index=index,
        status=status,
        **values,  # type: ignore[arg-type]
    )


def worker(name: str, status: WorkerStatus = WorkerStatus.ACTIVE, **fields: object) -> WorkerRecord:
    started = status in (WorkerStatus.ACTIVE, WorkerStatus.DRAINING)
    values: dict[str, object] = {
        "launched_at": NOW - 5,
        "launch_deadline": NOW + 25,
        "life_until": NOW + 900,
        "registered_at": NOW - 4 if started else 0.0,
        **fields,
    }
    return WorkerRecord(
        query_id=QUERY,
        worker_id=WorkerId(name),
        status=status,
        **values,  # type: ignore[arg-type]
    )


def workers(active: int = 0, launching: int = 0) -> list[WorkerRecord]:
    """Active ones are w0, w1, ...: those that run tasks 0, 1, ... of a stage."""
    ready = [worker(f"w{i}", launched_at=NOW - 5 + i / 100) for i in range(active)]
    coming = [
        worker(f"x{i}", WorkerStatus.LAUNCHING, launched_at=NOW - 1 + i / 100)
        for i in range(launching)
    ]
    return ready + coming


def snapshot(
    stages: Sequence[StageRecord],
    tasks: dict[int, str | Sequence[TaskRecord]] | None = None,
    *,
    of: QueryRecord | None = None,
    on: Sequence[WorkerRecord] = (),
    gone: Sequence[str] = (),
    limits: Limits = LIMITS,
) -> Snapshot:
    """``tasks`` maps stages to states such as ``"CR.."``, or to records."""
    lists = {
        StageId(number): (
            [task(number, i, c) for i, c in enumerate(given)] if isinstance(given, str) else given
        )
        for number, given in (tasks or {}).items()
    }
    return Snapshot(
        query=of or query(),
        stages=stages,
        tasks=lists,
        workers=on,
        gone=frozenset(map(WorkerId, gone)),
        limits=limits,
    )


def decided(state: Snapshot, *kinds: type, now: float = NOW) -> list[Instruction]:
    """Instructions of those kinds, in order."""
    return [i for i in decide(state, now) if isinstance(i, kinds)]


LOST = ErrorRecord(kind="ExchangeLost", message="gone", retryable=True, subject="0/0/1")
