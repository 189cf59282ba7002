"""The second end of a query: from the answer to nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator_state.records import WorkerRecord, WorkerStatus
from crossdock.scheduler.faults import dead_workers
from crossdock.scheduler.instructions import (
    Close,
    DrainWorker,
    Instruction,
    Sweep,
    Tick,
)
from crossdock.scheduler.snapshot import COUNTED, Snapshot


def closing(s: Snapshot, now: float) -> Iterator[Instruction]:
    """Drain and sweep; close when no worker can write any more."""
    if s.query.closed:
        return
    lost = tuple(dead_workers(s, now))
    yield from lost
    dying = {x.worker.worker_id for x in lost}
    yield from (
        DrainWorker(w) for w in s.workers if w.status in COUNTED and w.worker_id not in dying
    )
    if not s.query.swept:
        yield Sweep()
    elif all(_over(s, w, now) for w in s.workers):
        yield Close()
    if not all(_over(s, w, now) for w in s.workers):
        yield Tick(_next_look(s, now))


def _over(s: Snapshot, worker: WorkerRecord, now: float) -> bool:
    """The worker can write nothing more, for certain.

    It said goodbye, was seen dead, is past its longest life, or never registered and now may not.
    """
    if worker.status is WorkerStatus.LEFT or worker.left_at or worker.worker_id in s.gone:
        return True
    if worker.status is not WorkerStatus.LOST:
        return False
    return not worker.registered_at or now > worker.life_until + s.limits.skew


def _next_look(s: Snapshot, now: float) -> float:
    """Until a deadline of a worker still out; they say goodbye by themselves, mostly at once."""
    ends = [
        (w.life_until if w.registered_at else w.launch_deadline) - now
        for w in s.workers
        if not _over(s, w, now)
    ]
    return max(0.05, min([s.limits.idle_tick, *(e for e in ends if e > 0)]))
