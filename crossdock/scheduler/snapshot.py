"""What the scheduler looks at: one query as read from the state store, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from coordinator_state.ids import StageId, WorkerId
from coordinator_state.records import (
    QueryRecord,
    StageRecord,
    StageStatus,
    TaskRecord,
    TaskStatus,
    WorkerRecord,
    WorkerStatus,
)
from crossdock.remedies import LOCAL

#: A stage of these needs no more work.
DONE = frozenset({StageStatus.COMPLETE, StageStatus.SKIPPED})
#: A worker of these may claim, now or as soon as it registers.
COUNTED = frozenset({WorkerStatus.LAUNCHING, WorkerStatus.ACTIVE})
#: A worker of these runs no task any more, or its tasks have been given away.
OFF = frozenset({WorkerStatus.LEFT, WorkerStatus.LOST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The scheduler's numbers; times in seconds."""

    budget: int  # workers at once
    skew: float = 5.0  # added to the lease: coordinators' clocks may differ by this
    pending_seconds: float = 5.0  # PENDING beyond the cursor for so long: offered again
    launch_losses: int = 5  # launches in a row that never registered: the query fails
    worker_losses: int = 20  # workers in a row that died: the query fails
    capacity_seconds: float = 120.0  # without any worker for so long: the query fails
    max_reruns: int = 16  # attempts of one producer beyond which a lost object is final
    memory_setting: str = LOCAL.memory  # what errors advise to raise
    idle_tick: float = 5.0  # look again after this when nothing is due sooner


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One query. ``tasks`` holds the task lists read so far; see ``unread`` in ``__init__``."""

    query: QueryRecord
    stages: Sequence[StageRecord]
    tasks: Mapping[StageId, Sequence[TaskRecord]] = field(default_factory=dict)
    workers: Sequence[WorkerRecord] = ()
    gone: frozenset[WorkerId] = frozenset()  # known for certain to run no more
    limits: Limits

    @cached_property
    def by_stage(self) -> Mapping[StageId, StageRecord]:
        return {s.stage: s for s in self.stages}

    @cached_property
    def consumers(self) -> Mapping[StageId, tuple[StageId, ...]]:
        """Stages reading each stage's output, ascending."""
        return {
            p.stage: tuple(s.stage for s in self.stages if p.stage in s.upstream)
            for p in self.stages
        }

    @cached_property
    def worker_by_id(self) -> Mapping[WorkerId, WorkerRecord]:
        return {w.worker_id: w for w in self.workers}

    @property
    def final(self) -> StageRecord:
        """The stage that makes the result; producers precede consumers, so it is the last."""
        return self.stages[-1]

    def active(self) -> Iterator[StageRecord]:
        return (s for s in self.stages if s.status is StageStatus.ACTIVE)

    def ready(self, stage: StageRecord) -> bool:
        """Every stage it reads is complete, or has made as many rows as it may want."""
        return not any(self._waits_for(up) for up in stage.upstream)

    def _waits_for(self, up: StageId) -> bool:
        """A reader of ``up`` still waits for tasks of it."""
        stage = self.by_stage[up]
        return stage.status not in DONE and self.needed(stage) > self._leading(stage)

    def needed(self, stage: StageRecord) -> int:
        """How many tasks, from the first one on, surely suffice its readers: all, but for a limit.

        Counted on rows that are committed; what runs or waits before them is needed all the same,
        because readers take the first tasks in order.
        """
        if not stage.prefix_limit:
            return stage.tasks
        rows = 0
        for task in self.tasks.get(stage.stage, ()):
            rows += task.commit.rows_out if task.commit is not None else 0
            if rows >= stage.prefix_limit:
                return task.index + 1
        return stage.tasks

    def _leading(self, stage: StageRecord) -> int:
        """How many tasks, from the first one on, are committed without a gap."""
        tasks = self.tasks.get(stage.stage, ())
        gap = (t.index for t in tasks if t.status is not TaskStatus.COMMITTED)
        return next(gap, len(tasks))

    def ancestors(self, stage: StageId) -> frozenset[StageId]:
        """Stages upstream at any distance."""
        return self._upstream(stage, lambda up: True)

    def awaited(self, stage: StageId) -> frozenset[StageId]:
        """Stages upstream, at any distance, whose tasks it still waits for."""
        return self._upstream(stage, self._waits_for)

    def _upstream(self, stage: StageId, counts: Callable[[StageId], bool]) -> frozenset[StageId]:
        found: set[StageId] = set()
        todo = list(self.by_stage[stage].upstream)
        while todo:
            one = todo.pop()
            if one not in found and counts(one):
                found.add(one)
                todo.extend(self.by_stage[one].upstream)
        return frozenset(found)

    def descendants(self, stage: StageId) -> tuple[StageId, ...]:
        """Stages downstream at any distance, upstream ones first."""
        return tuple(s.stage for s in self.stages if stage in self.ancestors(s.stage))

    def unfinished(self, stage: StageRecord) -> int:
        """Tasks that still need a slot; a stage whose tasks were not read counts whole."""
        if stage.status in DONE:
            return 0
        tasks = self.tasks.get(stage.stage)
        if tasks is None:
            return stage.tasks
        wanted = tasks[: self.needed(stage)]
        return sum(t.status in (TaskStatus.PENDING, TaskStatus.RUNNING) for t in wanted)

    @cached_property
    def in_vain(self) -> frozenset[WorkerId]:
        """Workers at tasks beyond the last row that anybody wants."""
        return frozenset(
            task.worker_id
            for stage in self.active()
            if stage.prefix_limit
            for task in self.tasks.get(stage.stage, ())[self.needed(stage) :]
            if task.status is TaskStatus.RUNNING
        )

    def untouched(self, stage: StageRecord) -> bool:
        """No task of the stage was ever on offer, so all of them are PENDING, read or not."""
        return stage.status is StageStatus.ACTIVE and not (
            stage.admitted or stage.cursor or stage.offers
        )

    def with_status(self, status: TaskStatus) -> Iterator[TaskRecord]:
        """Tasks of unfinished stages in that status, by stage and index."""
        for stage in self.stages:
            if stage.status is StageStatus.ACTIVE:
                yield from (t for t in self.tasks.get(stage.stage, ()) if t.status is status)

    def live(self) -> Iterator[WorkerRecord]:
        """Workers that may still claim."""
        return (w for w in self.workers if w.status in COUNTED)

    @cached_property
    def unstarted(self) -> Sequence[WorkerRecord]:
        """Ended workers that never registered, launched after the newest one that did.

        LOST ones were launched in vain; LEFT ones were refused by the platform.
        """
        started = max((w.launched_at for w in self.workers if w.registered_at), default=-1.0)
        return [
            w
            for w in self.workers
            if not w.registered_at and w.launched_at > started and w.status in OFF
        ]
