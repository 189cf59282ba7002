"""How many workers each stage should have, and what to launch or drain for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from coordinator_state.ids import StageId
from coordinator_state.records import (
    StageRecord,
    StageStatus,
    TaskStatus,
    WorkerStatus,
)
from crossdock.scheduler.instructions import (
    DrainWorker,
    Instruction,
    LaunchWorkers,
    SetCapacity,
)
from crossdock.scheduler.snapshot import DONE, Snapshot

#: First wait after a refused launch; doubles with each further one.
REFUSED_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Share:
    """A stage's part of the budget."""

    stage: StageRecord
    admitted: int  # tasks that may be claimed
    desired: int  # workers wanted


def shares(s: Snapshot) -> tuple[Share, ...]:
    """Slots go to stages whose input is complete, lowest depth first; what is left starts early.

    A consumer that starts early waits for tasks upstream of it. It gets only slots beyond all
    unfinished tasks upstream, at any distance, so that waiting never keeps those from running.
    """
    free = s.limits.budget
    result: list[Share] = []
    order = sorted((x for x in s.stages if x.status not in DONE), key=lambda x: (x.depth, x.stage))
    for stage in (x for x in order if s.ready(x)):
        left = s.unfinished(stage)
        if stage.status is StageStatus.ACTIVE:
            result.append(Share(stage, stage.tasks, min(left, free)))
        free = max(0, free - left)
    for stage in (x for x in order if not s.ready(x)):
        left = s.unfinished(stage)
        if stage.status is StageStatus.ACTIVE:
            early = min(stage.tasks, free)
            result.append(Share(stage, max(stage.admitted, early), min(left, early)))
        free = max(0, free - left)
    return tuple(result)


def set_capacity(parts: tuple[Share, ...]) -> Iterator[SetCapacity]:
    for part in parts:
        if part.admitted > part.stage.admitted or part.desired != part.stage.desired:
            yield SetCapacity(part.stage.stage, part.admitted, part.desired)


def scale(s: Snapshot, parts: tuple[Share, ...], now: float) -> Iterator[Instruction]:
    """Launch what is missing, never more than pending work; drain the newest beyond what is wanted.

    After a refused launch it waits, longer after each, before it asks for capacity again. A worker
    at a task that nobody needs will take no other for a while, so it does not count.
    """
    wanted = sum(p.desired for p in parts)
    free = [w for w in s.live() if w.worker_id not in s.in_vain]
    accepting = sum(w.status is WorkerStatus.ACTIVE for w in free)
    launching = len(free) - accepting
    pending = {p.stage.stage: _claimable(s, p) for p in parts}
    room = s.limits.budget - len(free) - len(s.in_vain)
    missing = min(wanted - accepting - launching, sum(pending.values()) - launching, room)
    if missing > 0:
        if now >= retry_launch_at(s):
            yield from _launches(parts, pending, missing)
        return
    surplus = accepting + launching - max(wanted, _upcoming(s))
    if surplus > 0:
        newest = sorted(free, key=lambda w: (w.launched_at, w.worker_id), reverse=True)
        yield from (DrainWorker(w) for w in newest[:surplus])


def _claimable(s: Snapshot, part: Share) -> int:
    """Tasks of the share that wait for a worker and may be claimed."""
    if part.stage.stage not in s.tasks and s.untouched(part.stage):
        return min(part.admitted, part.stage.tasks)
    tasks = s.tasks.get(part.stage.stage, ())
    return sum(t.status is TaskStatus.PENDING and t.index < part.admitted for t in tasks)


def _launches(
    parts: tuple[Share, ...], pending: dict[StageId, int], missing: int
) -> Iterator[LaunchWorkers]:
    """Count launches for the stages that have the work, lowest first."""
    for part in parts:
        count = min(missing, pending[part.stage.stage], part.desired)
        if count > 0:
            missing -= count
            yield LaunchWorkers(count, part.stage.stage)


def _upcoming(s: Snapshot) -> int:
    """Workers that a stage still to come will want: not worth draining and launching again."""
    widest = max((x.tasks for x in s.stages if x.status not in DONE and not s.ready(x)), default=0)
    return min(widest, s.limits.budget)


def retry_launch_at(s: Snapshot) -> float:
    """When to ask again for capacity that was refused; 0 when none was."""
    refused = [w.launched_at for w in s.unstarted if w.status is WorkerStatus.LEFT]
    if not refused:
        return 0.0
    times = len(set(refused))
    return float(max(refused) + min(s.limits.idle_tick, REFUSED_SECONDS * 2**times))
