"""Leases, dead workers, forgotten offers and lost exchange objects."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator_state.ids import StageId
from coordinator_state.records import (
    ErrorRecord,
    StageRecord,
    StageStatus,
    TaskRecord,
    TaskStatus,
    WorkerRecord,
    WorkerStatus,
)
from crossdock.scheduler.instructions import (
    Instruction,
    LoseWorker,
    ObserveBeat,
    OfferAgain,
    RequeueTask,
    RerunProducer,
    ResetStages,
)
from crossdock.scheduler.snapshot import OFF, Snapshot
from crossdock.scheduler.subjects import named_producer


def dead_workers(s: Snapshot, now: float) -> Iterator[LoseWorker]:
    """Workers seen dead, never registered in time, or past their longest life."""
    for worker in s.workers:
        if worker.status in OFF:
            continue
        if worker.worker_id in s.gone:
            yield LoseWorker(worker, "seen dead")
        elif worker.status is WorkerStatus.LAUNCHING and now > worker.launch_deadline:
            yield LoseWorker(worker, "did not register in time")
        elif not worker.registered_at and now > worker.launch_deadline:
            yield LoseWorker(worker, "drained before it registered")
        elif worker.life_until and now > worker.life_until + s.limits.skew:
            yield LoseWorker(worker, "past its longest life")


def running_tasks(s: Snapshot, now: float) -> Iterator[Instruction]:
    """Give away what a dead or silent worker holds; note the beats of the others."""
    for task in s.with_status(TaskStatus.RUNNING):
        worker = s.worker_by_id.get(task.worker_id)
        if worker is None or worker.status in OFF or worker.worker_id in s.gone:
            yield RequeueTask(task, _vanished(s, task, "its worker ended"))
        elif task.beat == task.beat_seen:
            silent = now - task.beat_seen_at
            if silent > s.query.lease_seconds + s.limits.skew:
                why = f"its worker was silent for {silent:.0f} s"
                # Refused if a beat came meanwhile: then the worker goes after this task.
                yield RequeueTask(task, _vanished(s, task, why), beat=task.beat)
                yield LoseWorker(worker, why)
        elif _worth_noting(s, task, now):
            yield ObserveBeat(task)


def _worth_noting(s: Snapshot, task: TaskRecord, now: float) -> bool:
    """Spares short tasks the write. A claim stamped by a wrong clock is noted at once."""
    return task.beat_seen >= 0 or abs(now - task.claimed_at) > s.query.lease_seconds / 3


def _vanished(s: Snapshot, task: TaskRecord, why: str) -> ErrorRecord:
    if task.phase == "fragment":
        return ErrorRecord(
            kind="OutOfMemory",
            message=f"{why} inside its fragment, probably out of memory (last seen at "
            f"{task.peak_memory / 2**20:.0f} MiB); raise {s.limits.memory_setting}, or partitions",
            retryable=True,
            subject=f"{task.stage}/{task.index}",
        )
    return ErrorRecord(
        kind="WorkerLost",
        message=f"{why} in phase {task.phase or 'claim'}",
        retryable=True,
        subject=f"{task.stage}/{task.index}",
    )


def silent_idlers(s: Snapshot, now: float) -> Iterator[LoseWorker]:
    """Workers that hold nothing and take nothing though work has been on offer for a lease.

    Without this a worker that died between two tasks would count as accepting for its whole life.
    """
    idlers = overdue_idlers(s, now)
    if not idlers:
        return
    patience = s.query.lease_seconds + s.limits.skew
    if now - _last_return(s) <= patience:
        # Who gave that task back is not recorded: it may be the one that looks idle.
        return
    last: dict[str, float] = {}
    for tasks in s.tasks.values():
        for t in tasks:
            end = t.claimed_at + (t.commit.seconds if t.commit else 0.0)
            last[t.worker_id] = max(last.get(t.worker_id, 0.0), end)
    for worker in idlers:
        if now - last.get(worker.worker_id, 0.0) > patience:
            yield LoseWorker(worker, "takes no task though there are some")


def _last_return(s: Snapshot) -> float:
    """When a task was last requeued or handed back."""
    tasks = (t for tasks in s.tasks.values() for t in tasks)
    return max((t.pending_since for t in tasks if t.lost_attempts), default=0.0)


def overdue_idlers(s: Snapshot, now: float) -> tuple[WorkerRecord, ...]:
    """Workers that look idle for longer than a lease while offered tasks wait."""
    patience = s.query.lease_seconds + s.limits.skew
    overdue = any(
        now - t.pending_since > patience and t.index < s.by_stage[t.stage].admitted
        for t in s.with_status(TaskStatus.PENDING)
    )
    if not overdue:
        return ()
    busy = {t.worker_id for t in s.with_status(TaskStatus.RUNNING)}
    return tuple(
        w
        for w in s.workers
        if w.status is WorkerStatus.ACTIVE
        and w.worker_id not in busy
        and now - w.registered_at > patience
    )


def forgotten_offers(s: Snapshot, now: float) -> Iterator[OfferAgain]:
    """PENDING tasks behind the cursor that nobody will be given.

    A claim may move the cursor and die; a task handed back for want of input was not offered
    again, and is only when no task upstream of it, at any distance, is still unserved.
    """
    for stage in s.active():
        indexes = tuple(
            t.index for t in s.tasks.get(stage.stage, ()) if _forgotten(s, stage, t, now)
        )
        if indexes and not _starving(s, stage):
            yield OfferAgain(stage.stage, indexes)


def _forgotten(s: Snapshot, stage: StageRecord, task: TaskRecord, now: float) -> bool:
    if task.status is not TaskStatus.PENDING:
        return False
    if task.index >= stage.cursor or task.index in stage.offers:
        return False
    return task.handbacks > 0 or now - task.pending_since > s.limits.pending_seconds


def _starving(s: Snapshot, stage: StageRecord) -> bool:
    above = [s.by_stage[up] for up in s.awaited(stage.stage)]
    return any(
        s.untouched(up) or any(t.status is TaskStatus.PENDING for t in s.tasks.get(up.stage, ()))
        for up in above
        if up.status is StageStatus.ACTIVE
    )


def lost_producers(s: Snapshot) -> Iterator[RerunProducer | ResetStages]:
    """Run committed attempts again whose objects consumers report lost."""
    seen: set[tuple[StageId, int, int]] = set()
    for reporter in _reporters(s):
        named = named_producer(reporter.error)
        if named is None or named in seen or named[0] not in s.tasks:
            continue
        seen.add(named)
        stage, index, attempt = named
        producer = s.tasks[stage][index]
        if producer.status is TaskStatus.COMMITTED and producer.attempt == attempt:
            if s.by_stage[stage].status is StageStatus.SKIPPED:
                yield _restart_skipped(s, stage)
            else:
                yield _rerun(s, producer, reporter.error or ErrorRecord(kind="", message=""))


def _reporters(s: Snapshot) -> Iterator[TaskRecord]:
    yield from s.with_status(TaskStatus.PENDING)
    yield from s.with_status(TaskStatus.RUNNING)


def reported_stages(s: Snapshot) -> frozenset[StageId]:
    """Stages whose attempts are reported lost by tasks that were read."""
    named = (named_producer(t.error) for t in _reporters(s))
    return frozenset(n[0] for n in named if n is not None and n[0] in s.by_stage)


def _rerun(s: Snapshot, producer: TaskRecord, error: ErrorRecord) -> RerunProducer:
    name = (producer.stage, producer.index, producer.attempt)
    readers = [t for c in s.consumers[producer.stage] for t in s.tasks.get(c, ())]
    bound = any(t.status is TaskStatus.COMMITTED and name in t.bound for t in readers)
    running = tuple(t for t in readers if t.status is TaskStatus.RUNNING)
    return RerunProducer(
        task=producer,
        error=error,
        generation=s.by_stage[producer.stage].generation,
        reset=s.descendants(producer.stage) if bound else (),
        # A running consumer may have read the old attempt and would mix it with the new one.
        fence=() if bound else running,
    )


def _restart_skipped(s: Snapshot, stage: StageId) -> ResetStages:
    """A stage that was stopped early has no task left to run again: it starts anew, and so does
    what was skipped upstream of it, and all that read any of them.
    """
    above = {up for up in s.ancestors(stage) if s.by_stage[up].status is StageStatus.SKIPPED}
    roots = above | {stage}
    reset = tuple(x.stage for x in s.stages if x.stage in roots or roots & s.ancestors(x.stage))
    return ResetStages(stage, s.by_stage[stage].generation, reset)


def stale_bindings(s: Snapshot, stage: StageRecord) -> StageId | None:
    """A producer stage to which committed tasks of ``stage`` are wrongly bound, if any.

    It happens when a consumer commits between the look that found nobody bound to a lost attempt
    and the write that takes that attempt back.
    """
    current = {
        (up, t.index): t.attempt if t.status is TaskStatus.COMMITTED else -1
        for up in stage.upstream
        for t in s.tasks.get(up, ())
    }
    for task in s.tasks.get(stage.stage, ()):
        if task.status is not TaskStatus.COMMITTED:
            continue
        for up, index, attempt in task.bound:
            if current.get((up, index), attempt) != attempt:
                return up
    return None


def reset_after(s: Snapshot, producer: StageId) -> ResetStages:
    return ResetStages(producer, s.by_stage[producer].generation, s.descendants(producer))
