"""The coordinator: turns of a query. It keeps nothing between turns; the state store is its memory.

Any process may take a turn of any query, and any turn continues where another died.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from coordinator_state.errors import NotFound, Refused, StateError
from coordinator_state.ids import QueryId, WorkerId
from coordinator_state.records import (
    CANCELLED,
    ErrorRecord,
    QueryRecord,
    QueryStatus,
    WorkerRecord,
    WorkerStatus,
)
from crossdock import scheduler
from crossdock.cleanup import Medium
from crossdock.coordinator.perform import Outcome, Performer, Scene, Terms
from crossdock.platform.ports import Clock, Control, Ids, Launcher, Meter
from crossdock.scheduler import Limits, Snapshot
from crossdock.scheduler.instructions import Tick
from crossdock.scheduler.snapshot import OFF

__all__ = ["Coordinator", "Terms", "TurnResult"]

_log = logging.getLogger(__name__)

#: Looks per turn; a query that still moves after so many gets its next turn at once.
MAX_LOOKS = 100
#: Turns without a pause between them.
MAX_TURNS = 10
#: After an instruction that must wait (no capacity, a listing that lags).
LATER_SECONDS = 0.1
#: While other queries have all workers.
CROWDED_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """How a turn left the query."""

    query: QueryRecord | None  # None: held by another turn, or nothing of the query is left
    held: bool = False  # somebody else has the turn and was told to look again
    delay: float = 0.0  # seconds until the next turn is due at the latest; 0: at once
    looks: int = 0

    @property
    def finished(self) -> bool:
        """Nothing is left to do for the query, ever."""
        return not self.held and (self.query is None or self.query.closed)


class Coordinator:
    """Takes turns. Threads may share one; the turn lease keeps them apart per query."""

    def __init__(
        self,
        medium: Medium,
        *,
        launcher: Launcher,
        control: Control,
        clock: Clock,
        ids: Ids,
        limits: Limits,
        terms: Terms | None = None,
        meter: Meter | None = None,
        turn_seconds: float = 10.0,
        room: Callable[[], int] | None = None,
        patience: Callable[[], float] = lambda: CROWDED_SECONDS,
    ) -> None:
        """``limits.budget`` is for queries that name none; ``turn_seconds`` is a turn's lease.

        ``room`` says how many launches all queries together have left; None: enough. ``patience``:
        seconds until a query that found none asks again.
        """
        self._medium = medium
        self._store = medium.store
        self._launcher = launcher
        self._control = control
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self._meter = meter
        self._turn_seconds = turn_seconds
        self._patience = patience
        # What the query's item does not count yet: requests made after a turn's last write.
        self._unsaved: dict[QueryId, Counter[str]] = {}
        self._performer = Performer(
            medium, launcher, clock=clock, ids=ids, terms=terms or Terms(), room=room
        )

    def turn(self, query_id: QueryId) -> TurnResult:
        """Do all that can be done now. If another turn holds the query: knock and leave.

        A turn that ends the query stops there, with delay 0, so that the answer does not wait for
        the sweep.
        """
        baseline = Counter(self._counts())
        result: TurnResult | None = None
        try:
            result = self._turn(query_id, baseline)
        finally:
            if result is None or not result.finished:
                self._unsaved.setdefault(query_id, Counter()).update(self._spent(baseline))
            else:
                self._unsaved.pop(query_id, None)
        return result

    def _turn(self, query_id: QueryId, baseline: Counter[str]) -> TurnResult:
        holder = self._ids.nonce()
        now = self._clock.now()
        try:
            query = self._store.begin_turn(
                query_id, holder, now=now, until=now + self._turn_seconds
            )
            if query is None:
                return TurnResult(query=None, held=True, delay=LATER_SECONDS)
            try:
                return self._held(query, holder, baseline)
            except BaseException:
                self._abandon(query_id, holder)
                raise
        except NotFound:
            return TurnResult(query=None)

    def turns(self, query_id: QueryId, *, until: float = math.inf) -> TurnResult:
        """Turns, one after the other, until one allows a pause; none is begun after ``until``."""
        for _ in range(MAX_TURNS):
            result = self.turn(query_id)
            if result.finished or result.held or result.delay > 0:
                break
            if self.is_late(until):
                break
        return result

    def on_knock(self, query_id: QueryId, *, until: float = math.inf) -> TurnResult:
        """Something changed: take turns; bring the alarm forward if one is due before long."""
        result = self.turns(query_id, until=until)
        soon = result.delay < self._limits.idle_tick
        if result.query is not None and not result.finished and soon:
            self._set_alarm(query_id, result.query.tick, result.delay)
        return result

    def is_late(self, until: float) -> bool:
        return self._clock.now() >= until

    def pass_on(self, query_id: QueryId, alarms: Collection[int]) -> None:
        """For a process that has no time left: say again what it was told."""
        for number in alarms:
            self._control.tick(query_id, number, delay=0.0)
        self._control.notify(query_id)

    def on_ended(self, query_id: QueryId, worker_ids: Collection[WorkerId]) -> None:
        """The platform tells that these run no more: say their goodbye, which they could not.

        Their tasks are given away by the next turn, and the query need not wait for the end of
        their lives to be closed. Repeating is no error.
        """
        try:
            for worker in self._store.workers(query_id):
                if worker.worker_id in worker_ids:
                    self._bury(worker)
        except NotFound:
            return  # closed, and forgotten or just being so

    def _bury(self, worker: WorkerRecord) -> None:
        """LOST, because only so many losses in a row are borne; and gone for good, if it came."""
        query_id, worker_id = worker.query_id, worker.worker_id
        try:
            if worker.status not in OFF:
                self._store.lose_worker(query_id, worker_id)
            if worker.registered_at and not worker.left_at:
                now = self._clock.now()
                self._store.leave_worker(query_id, worker_id, now=now, usage=worker.usage)
        except Refused:
            return  # it said its goodbye itself, just now

    def revive(self, query_id: QueryId) -> None:
        """Send the live alarm again, in case it died; one too many is recognised as stale."""
        self._control.tick(query_id, self._store.get_query(query_id).tick, delay=0.0)

    def on_tick(
        self, query_id: QueryId, number: int, *, until: float = math.inf
    ) -> TurnResult | None:
        """A numbered alarm: take a turn, ask for the next alarm. None: not the live alarm."""
        try:
            if self._store.get_query(query_id).tick != number:
                return None
        except NotFound:
            return None
        result = self.turns(query_id, until=until)
        if not result.finished:
            self._set_alarm(query_id, number, result.delay)
        return result

    def _set_alarm(self, query_id: QueryId, number: int, delay: float) -> None:
        """The next alarm, after the live one, which is ``number``: that one is stale from now on.

        Sent first, moved second: dying in between leaves two alarms, of which one is stale.
        Looked at before: of an alarm that rang twice each would send the next one, both of those
        would ring at the same moment, and so on for as long as the query lives.
        """
        try:
            if self._store.get_query(query_id).tick != number:
                return
            self._control.tick(query_id, number + 1, delay=delay)
            self._store.advance_tick(query_id, expected=number)
        except NotFound:
            return  # closed and forgotten meanwhile; the alarm will find nothing

    def _held(self, query: QueryRecord, holder: str, baseline: Counter[str]) -> TurnResult:
        looks = 0
        until = self._clock.now() + self._turn_seconds / 2
        while True:
            outcome, delay = self._look(query, baseline)
            looks += 1
            if query.closed:
                self._store.end_turn(query.query_id, holder, wake=query.wake)
                return TurnResult(query=query, looks=looks)
            if outcome is Outcome.MOVED and looks < MAX_LOOKS and self._clock.now() < until:
                query = self._store.get_query(query.query_id)
                continue
            if outcome in (Outcome.MOVED, Outcome.ENDED):
                delay = 0.0
            released = self._release(query, holder, baseline)
            current = self._store.get_query(query.query_id)
            if released or current.turn_holder != holder:
                return TurnResult(query=current, delay=delay, looks=looks)
            query = current  # somebody knocked: what he saw may be newer than what we read

    def _release(self, query: QueryRecord, holder: str, baseline: Counter[str]) -> bool:
        """Release the turn; the write that does so adds up what it has asked for."""
        counts = self._counts()
        usage = self._unsaved.get(query.query_id, Counter()) + self._spent(baseline)
        released = self._store.end_turn(query.query_id, holder, wake=query.wake, usage=usage)
        if released:
            self._unsaved.pop(query.query_id, None)
            baseline.clear()
            baseline.update(counts)
        return released

    def _abandon(self, query_id: QueryId, holder: str) -> None:
        """Let the next turn begin now, not when this one's lease has run out."""
        try:
            wake = self._store.get_query(query_id).wake
            self._store.end_turn(query_id, holder, wake=wake)
        except StateError as error:
            _log.warning("query %s: its turn lapses by itself: %s", query_id, error)

    def _look(self, query: QueryRecord, baseline: Counter[str]) -> tuple[Outcome, float]:
        """Load, decide, perform. The delay is meant for a turn that ends with this look."""
        now = self._clock.now()
        snapshot = self._load(query, now)
        usage = Counter(query.coordinator_usage) + self._spent(baseline)
        usage.update(self._unsaved.get(query.query_id, Counter()))
        scene = Scene(query=query, stages=snapshot.stages, now=now, coordinator_usage=usage)
        delay = self._limits.idle_tick
        overall = Outcome.QUIET
        for instruction in scheduler.decide(snapshot, now):
            if isinstance(instruction, Tick):
                delay = min(delay, instruction.delay)  # what must wait may be due sooner
            outcome = self._performer.perform(scene, instruction)
            if outcome is Outcome.ENDED:
                return outcome, 0.0
            if outcome is Outcome.LATER:
                delay = min(delay, LATER_SECONDS)
            elif outcome is Outcome.CROWDED:
                delay = min(delay, self._patience())
            elif outcome is Outcome.MOVED:
                overall = outcome
        return overall, delay

    def _load(self, query: QueryRecord, now: float) -> Snapshot:
        """Read what ``decide`` asks for."""
        query_id = query.query_id
        limits = replace(self._limits, budget=query.workers or self._limits.budget)
        stages = self._store.stages(query_id)
        if not stages and not query.closed:
            # This turn slept, and others brought the query to its end meanwhile.
            raise NotFound(f"query {query_id} was purged")
        snapshot = Snapshot(query=query, stages=stages, limits=limits)
        snapshot = self._with_tasks(snapshot, now)
        workers, gone = self._workers(query_id)
        return self._with_tasks(replace(snapshot, workers=workers, gone=gone), now)

    def _workers(self, query_id: QueryId) -> tuple[Sequence[WorkerRecord], frozenset[WorkerId]]:
        """Workers, and those known dead."""
        workers = self._store.workers(query_id)
        watched = [w.worker_id for w in workers if w.status is not WorkerStatus.LEFT]
        gone = frozenset(map(WorkerId, self._launcher.gone(watched))) if watched else frozenset()
        if gone:
            # Most of them said goodbye between the two looks.
            workers = self._store.workers(query_id)
        return workers, gone

    def _with_tasks(self, snapshot: Snapshot, now: float) -> Snapshot:
        while missing := scheduler.unread(snapshot, now):
            read = {s: self._store.tasks(snapshot.query.query_id, s) for s in sorted(missing)}
            snapshot = replace(snapshot, tasks={**snapshot.tasks, **read})
        return snapshot

    def _counts(self) -> Mapping[str, int]:
        return self._meter.usage() if self._meter else {}

    def _spent(self, baseline: Mapping[str, int]) -> Counter[str]:
        """Requests made since; approximate when threads of one process take turns at once."""
        spent = Counter(self._counts())
        spent.subtract(baseline)
        return +spent

    def cancel(self, query_id: QueryId, error: ErrorRecord | None = None) -> QueryRecord:
        """End it CANCELLED, unless it ended before; returns the record as it stands.

        Cancelling again, or after the last commit won, changes nothing and is no error.
        """
        record = self._store.end_query(
            query_id, QueryStatus.CANCELLED, now=self._clock.now(), error=error or CANCELLED
        )
        self._control.notify(query_id)
        return record
