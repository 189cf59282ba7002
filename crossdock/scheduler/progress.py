"""Activation and completion of stages, and the end of a query that went well."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator_state.ids import StageId
from coordinator_state.records import StageRecord, StageStatus, TaskStatus
from crossdock.scheduler.faults import reset_after, stale_bindings
from crossdock.scheduler.instructions import (
    ActivateStage,
    CompleteStage,
    FinishQuery,
    Instruction,
    PrepareQueues,
    SkipStage,
)
from crossdock.scheduler.snapshot import DONE, Snapshot


def activations(s: Snapshot) -> Iterator[Instruction]:
    """``batch``: a stage whose input is complete. ``s3qs``: every stage, consumers first.

    Consumers first, because an ACTIVE consumer stage is the proof that its queues exist, and a
    producer may publish as soon as its own stage is ACTIVE.
    """
    waiting = [x for x in s.stages if x.status is StageStatus.WAITING]
    if s.query.exchange == "batch":
        yield from (ActivateStage(x.stage) for x in waiting if s.ready(x))
        return
    consumers = tuple(x.stage for x in waiting if x.upstream)
    if consumers:
        yield PrepareQueues(consumers)
    yield from (ActivateStage(x.stage) for x in reversed(waiting))


def seems_complete(s: Snapshot, stage: StageRecord) -> bool:
    """Every task of the sealed list is committed."""
    tasks = s.tasks.get(stage.stage)
    return (
        stage.status is StageStatus.ACTIVE
        and tasks is not None
        and len(tasks) == stage.tasks
        and all(t.status is TaskStatus.COMMITTED for t in tasks)
    )


def early_stops(s: Snapshot) -> tuple[StageId, ...]:
    """Unfinished stages whose output nobody needs any more, readers before what they read.

    It follows from nothing but *committed* readers: one that is merely on its way may fail, and
    want rows again.
    """
    unneeded = {x.stage for x in s.stages if x.status is StageStatus.SKIPPED}
    found = []
    for stage in reversed(s.stages):
        readers = s.consumers[stage.stage]
        if stage.status in DONE or not readers or seems_complete(s, stage):
            continue
        if all(reader in unneeded or _had_enough(s, stage, reader) for reader in readers):
            unneeded.add(stage.stage)
            found.append(stage.stage)
    return tuple(found)


def _had_enough(s: Snapshot, stage: StageRecord, reader: StageId) -> bool:
    """Every task of the reader committed, with rows of ``stage`` that still stand."""
    record = s.by_stage[reader]
    if not stage.prefix_limit:
        return False
    return seems_complete(s, record) and stale_bindings(s, record) is None


def completions(s: Snapshot) -> Iterator[Instruction]:
    """Complete stages in plan order; when the last one is, the query has its result."""
    stopped = early_stops(s)
    yield from (SkipStage(stage) for stage in stopped)
    done = {x.stage for x in s.stages if x.status in DONE}.union(stopped)
    for stage in s.stages:
        if not seems_complete(s, stage) or not done.issuperset(stage.upstream):
            continue
        stale = stale_bindings(s, stage)
        if stale is not None:
            yield reset_after(s, stale)
            return
        done.add(stage.stage)
        yield CompleteStage(stage.stage)
    if len(done) == len(s.stages):
        yield _finish(s)


def _finish(s: Snapshot) -> FinishQuery:
    commits = [t.commit for t in s.tasks.get(s.final.stage, ()) if t.commit is not None]
    return FinishQuery(
        result=tuple(c.object_key for c in commits if c.object_key),
        rows=sum(c.rows_out for c in commits),
    )
