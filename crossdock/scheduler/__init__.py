"""The scheduler: what to do next for a query, decided from one look at it.

Pure: no I/O, no clock and no randomness of its own. The coordinator loads a ``Snapshot``, calls
``decide`` and performs the instructions, each of which is a compare-and-set on what was read.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinator_state.ids import StageId
from coordinator_state.records import QueryStatus, StageStatus, TaskStatus, WorkerStatus
from crossdock.scheduler.capacity import retry_launch_at, scale, set_capacity, shares
from crossdock.scheduler.closing import closing
from crossdock.scheduler.endings import reason_to_end
from crossdock.scheduler.faults import (
    dead_workers,
    forgotten_offers,
    lost_producers,
    overdue_idlers,
    reported_stages,
    running_tasks,
    silent_idlers,
)
from crossdock.scheduler.instructions import Instruction, Tick
from crossdock.scheduler.progress import activations, completions, seems_complete
from crossdock.scheduler.snapshot import Limits, Snapshot

__all__ = ["Instruction", "Limits", "Snapshot", "decide", "unread"]


def decide(state: Snapshot, now: float) -> tuple[Instruction, ...]:
    """Everything worth doing on what was read, in the order to do it; a ``Tick`` comes last.

    ``now`` is the coordinator's clock, in seconds. Answers the same for the same arguments.
    """
    if state.query.status is not QueryStatus.RUNNING:
        return tuple(closing(state, now))
    end = None if state.query.committing else reason_to_end(state, now)
    if end is not None:
        return (end,)
    return tuple(_running(state, now))


def unread(state: Snapshot, now: float) -> frozenset[StageId]:
    """Stages whose task lists ``decide`` still needs, given those read so far."""
    if state.query.status is not QueryStatus.RUNNING:
        return frozenset()
    # In a plan of many stages most wait untouched; reading those each time was most of a turn.
    wanted = {s.stage for s in state.active() if not state.untouched(s)}
    if wanted <= state.tasks.keys():
        for stage in state.active():
            if seems_complete(state, stage):
                wanted.update(stage.upstream)
        if state.final.status is StageStatus.COMPLETE:
            wanted.add(state.final.stage)
        for stage_id in reported_stages(state):
            wanted.update((stage_id, *state.consumers[stage_id]))
        if overdue_idlers(state, now):
            wanted.update(s.stage for s in state.stages)
    return frozenset(wanted - state.tasks.keys())


def _running(s: Snapshot, now: float) -> Iterator[Instruction]:
    yield from dead_workers(s, now)
    yield from running_tasks(s, now)
    yield from silent_idlers(s, now)
    yield from lost_producers(s)
    yield from activations(s)
    yield from completions(s)
    yield from forgotten_offers(s, now)
    parts = shares(s)
    yield from set_capacity(parts)
    yield from scale(s, parts, now)
    yield Tick(_delay(s, now))


def _delay(s: Snapshot, now: float) -> float:
    """Until the next thing that only time brings; never under 50 ms."""
    due = [s.limits.idle_tick]
    if any(s.with_status(TaskStatus.RUNNING)):
        due.append(s.query.lease_seconds / 3)
    due.extend(w.launch_deadline - now for w in s.workers if w.status is WorkerStatus.LAUNCHING)
    retry = retry_launch_at(s)
    if retry > now:
        due.append(retry - now)
    if s.query.deadline_at is not None:
        due.append(s.query.deadline_at - now)
    return max(0.05, min(due))
