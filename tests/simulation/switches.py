"""Patches of the product's code that switch protective rules of the protocol off."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import msgspec

from coordinator_state import changes, conditions, rulings
from coordinator_state.dynamodb import keys
from coordinator_state.dynamodb.store import DynamoDbStateStore
from coordinator_state.errors import NotFound, StaleAttempt
from crossdock import cleanup, scheduler, worker
from crossdock.aws.capacity import BudgetedLauncher
from crossdock.coordinator import Coordinator, perform
from crossdock.scheduler import capacity, faults, progress
from crossdock.shuffle import inbox, layout
from crossdock.shuffle.collect import Collector
from crossdock.shuffle.inbox import Inbox
from crossdock.worker.attempt import Attempt
from crossdock.worker.starvation import Starvation


def _without(text: str) -> list[Any]:
    """Every condition, without a clause."""
    return [
        patch.object(conditions, name, value.replace(text, ""))
        for name, value in vars(conditions).items()
        if name.isupper() and isinstance(value, str) and text in value
    ]


# -- claims and attempts -------------------------------------------------------------------------
def nonce() -> Sequence[Any]:
    """Every claim draws the same: a refused claim looks like one's own that had landed."""
    return [patch.object(worker, "Nonce", lambda drawn: "same")]


def fence() -> Sequence[Any]:
    """Any attempt may beat, commit and give back; nonce and number cover for each other."""

    def same(mine: Any, current: Any) -> bool:
        return True

    return [
        *_without(" AND #attempt = :attempt AND #nonce = :nonce"),
        patch.object(rulings, "same_attempt", same),
    ]


def object_key() -> Sequence[Any]:
    """Objects are named by their task alone."""
    real = layout.exchange_key
    return [
        patch.object(
            layout,
            "exchange_key",
            lambda query, stage, index, attempt: real(query, stage, index, 0),
        )
    ]


def returned_item() -> Sequence[Any]:
    """A refused write has failed, whatever the item says."""
    real = rulings.task_landed

    def landed(verb: str, mine: Any, current: Any) -> bool:
        if real(verb, mine, current) and verb == "commit_task":
            raise StaleAttempt("refused", current=current)
        return real(verb, mine, current)

    return [patch.object(rulings, "task_landed", landed)]


# -- the consumer --------------------------------------------------------------------------------
def binding() -> Sequence[Any]:
    """A consumer keeps what it has read when the table names another attempt; nor does the
    completion of its stage look at what it was bound to, or a rerun stop those that run.
    """

    def bind(self: Any, records: Any) -> list[Any]:
        new = []
        for record in records:
            key = (int(record.stage), record.index)
            if key not in self._bound and record.commit is not None:
                self._bound[key] = self._producer(record.attempt, record.commit, key[0])
                new.append(inbox.AttemptId(*key, record.attempt))
        return new

    def accept(self: Any, envelope: Any) -> list[Any]:
        producer = self._bound.get((envelope.stage, envelope.index))
        if producer is None:
            return []
        name = (envelope.producer, envelope.object_key)
        taken = self._take(producer, name[0], envelope.edge, envelope.entries)
        return [replace(one, object_key=name[1]) for one in taken]

    return [
        patch.object(Inbox, "bind", bind),
        patch.object(Inbox, "accept", accept),
        patch.object(progress, "stale_bindings", lambda s, stage: None),
        *_unfenced(),
    ]


def _unfenced() -> Sequence[Any]:
    real = faults._rerun

    def rerun(s: Any, producer: Any, error: Any) -> Any:
        return replace(real(s, producer, error), fence=())

    return [patch.object(faults, "_rerun", rerun)]


def generation() -> Sequence[Any]:
    """A lost object's producer runs again, and its consumers keep what they made of the old."""
    real = faults._rerun

    def rerun(s: Any, producer: Any, error: Any) -> Any:
        return replace(real(s, producer, error), reset=())

    return [
        patch.object(faults, "_rerun", rerun),
        patch.object(progress, "stale_bindings", lambda s, stage: None),
    ]


def deduplication() -> Sequence[Any]:
    """Entries are taken as often as they come; each copy has a file of its own."""

    def take(self: Any, producer: Any, attempt: Any, edge: int, entries: Any) -> list[Any]:
        wanted = []
        for entry in entries:
            if isinstance(entry, inbox.ProducerEnd):
                producer.counts[edge] = entry.count
                continue
            sequence = entry.sequence
            while sequence in producer.accepted[edge]:
                sequence += 1000
            producer.accepted[edge].add(sequence)
            section = inbox.IndexEntry(
                edge, 0, entry.offset, entry.length, entry.rows, entry.checksum
            )
            wanted.append(inbox._wanted(producer, attempt, edge, sequence, section))
        return wanted

    def complete(self: Any) -> bool:
        return all(c is not None and len(self.accepted[e]) >= c for e, c in self.counts.items())

    return [
        patch.object(Inbox, "_take", take),
        patch.object(inbox._Producer, "complete", property(complete)),
    ]


def counted_end() -> Sequence[Any]:
    """A producer's end ends it, whatever it counted."""

    def complete(self: Any) -> bool:
        return all(count is not None for count in self.counts.values())

    return [patch.object(inbox._Producer, "complete", property(complete))]


def empty_poll() -> Sequence[Any]:
    """What a first poll after all have committed did not bring, does not come."""

    def complete(self: Any) -> bool:
        return len(self._bound) == sum(self.producers.values())

    return [patch.object(Inbox, "complete", property(complete))]


def healing() -> Sequence[Any]:
    """The table is never read again."""
    return [patch.object(Collector, "_heal", lambda self, pool: False)]


def healing_by_progress() -> Sequence[Any]:
    """Any message counts as progress, one known before too."""
    real = Collector._use

    def use(self: Any, pool: Any, messages: Any) -> bool:
        real(self, pool, messages)
        return bool(messages)

    return [patch.object(Collector, "_use", use)]


# -- the producer --------------------------------------------------------------------------------
def publish_after_commit() -> Sequence[Any]:
    """Sections are announced before the commit; readers drop them, and find them by healing."""
    real_send, real_publish = Attempt._send, Attempt._publish

    def send(self: Any, commit: Any, collected: Any) -> Any:
        if commit.object_key and self._stage.outputs:
            real_publish(self, commit.object_key)
        return real_send(self, commit, collected)

    return [
        patch.object(Attempt, "_send", send),
        patch.object(Attempt, "_publish", lambda self, key: None),
    ]


# -- stages and turns ----------------------------------------------------------------------------
def sealed_list() -> Sequence[Any]:
    """A stage with any committed task is complete."""

    def seems(s: Any, stage: Any) -> bool:
        tasks = s.tasks.get(stage.stage) or ()
        return stage.status == "ACTIVE" and any(t.status == "COMMITTED" for t in tasks)

    return [
        patch.object(progress, "seems_complete", seems),
        patch.object(rulings, "require_all_committed", lambda stage, missing: None),
    ]


def turn_lease() -> Sequence[Any]:
    """Anybody may take a turn at any time."""
    return [
        patch.object(conditions, "BEGIN_TURN", conditions._VISIBLE),
        patch.object(conditions, "END_TURN", conditions._VISIBLE),
    ]


def wake() -> Sequence[Any]:
    """A turn ends although somebody knocked while it ran."""
    return _without(" AND #wake = :wake")


def tick_numbers() -> Sequence[Any]:
    """Every alarm that rings sets the next one."""

    def on_tick(self: Any, query_id: Any, number: int, **rest: Any) -> Any:
        result = self.turns(query_id, **rest)
        if not result.finished:
            self._control.tick(query_id, number + 1, delay=result.delay)
        return result

    return [patch.object(Coordinator, "on_tick", on_tick)]


# -- capacity ------------------------------------------------------------------------------------
def launching_records() -> Sequence[Any]:
    """A worker is written down when it registers, not before its launch."""
    real = DynamoDbStateStore.register_worker

    def register(self: Any, query_id: Any, worker_id: Any, *, now: float, life_until: float) -> Any:
        if self._table.get(keys.worker_key(query_id, worker_id)) is None:
            record = perform.WorkerRecord(
                query_id=query_id, worker_id=worker_id, launched_at=now, launch_deadline=now + 1
            )
            real_add(self, record)
        return real(self, query_id, worker_id, now=now, life_until=life_until)

    real_add = DynamoDbStateStore.add_worker
    real_leave = DynamoDbStateStore.leave_worker

    def leave(self: Any, query_id: Any, worker_id: Any, **rest: Any) -> None:
        try:
            real_leave(self, query_id, worker_id, **rest)
        except NotFound:
            return

    return [
        patch.object(DynamoDbStateStore, "add_worker", lambda self, worker: None),
        patch.object(DynamoDbStateStore, "register_worker", register),
        patch.object(DynamoDbStateStore, "leave_worker", leave),
        _budget_off(),
    ]


def _budget_off() -> Any:
    return patch.object(
        BudgetedLauncher, "launch", lambda self, launches: self._launcher.launch(launches)
    )


def lowest_first() -> Sequence[Any]:
    """Consumers are claimed first, and start however many tasks upstream are unfinished."""
    return [
        patch.object(
            worker, "sorted", lambda things, key: sorted(things, key=key, reverse=True), create=True
        ),
        *_early_starts(),
    ]


def _early_starts() -> Sequence[Any]:
    def shares(s: Any) -> Any:
        active = [x for x in s.stages if x.status == "ACTIVE"]
        return tuple(
            capacity.Share(x, x.tasks, min(s.unfinished(x), s.limits.budget)) for x in active
        )

    return [patch.object(scheduler, "shares", shares)]


def starved() -> Sequence[Any]:
    """A consumer waits for its input, whoever needs its slot."""
    return [patch.object(Starvation, "check", lambda self: None), *lowest_first()]


def not_offered() -> Sequence[Any]:
    """What was handed back for want of input is offered again at once."""
    real = DynamoDbStateStore.hand_back_task

    def hand_back(self: Any, task: Any, *, now: float, offer: bool = True) -> Any:
        return real(self, task, now=now, offer=True)

    return [patch.object(DynamoDbStateStore, "hand_back_task", hand_back), *lowest_first()]


def bounded_handback() -> Sequence[Any]:
    real = worker._Run._write_down

    def write_down(self: Any, task: Any, verdict: Any) -> None:
        real(self, msgspec.structs.replace(task, handbacks=0), verdict)

    return [patch.object(worker._Run, "_write_down", write_down), *not_offered()]


# -- leases --------------------------------------------------------------------------------------
def coordinators_clock() -> Sequence[Any]:
    """A lease is counted from what the worker's clock said at the claim."""
    real = changes.beat_observed

    def observed(task: Any, *, now: float) -> Any:
        return {**real(task, now=now), "beat_seen_at": task.claimed_at}

    return [patch.object(changes, "beat_observed", observed)]


def launch_tells_the_time() -> Sequence[Any]:
    """A worker believes its own clock."""
    return [patch.object(worker, "LaunchClock", lambda clock, launch: clock)]


# -- the end -------------------------------------------------------------------------------------
def two_ends() -> Sequence[Any]:
    """A query is closed as soon as it was swept, whoever still works for it."""
    closing = sys.modules["crossdock.scheduler.closing"]  # the package has a function of that name
    return [patch.object(closing, "_over", lambda s, worker, now: True)]


def ledger_first() -> Sequence[Any]:
    """Queues are made without a word of it; listings may lag."""
    return [patch.object(DynamoDbStateStore, "own", lambda self, entries: None)]


def confirmed_release() -> Sequence[Any]:
    """The second sweep is left out: closing believes the first."""
    real = cleanup.sweep

    def sweep(medium: Any, query: Any) -> int:
        return 0 if query.swept else real(medium, query)

    return [patch.object(cleanup, "sweep", sweep)]


def result_manifest() -> Sequence[Any]:
    """The answer is whatever lies under the result's prefix."""

    def result_keys(objects: Any, query: Any) -> tuple[str, ...]:
        return tuple(o.key for o in objects.list(layout.result_prefix(query.query_id)))

    return [patch.object(cleanup, "result_keys", result_keys)]


def one_end() -> Sequence[Any]:
    """The last to end a query has its way."""
    return [patch.object(conditions, "END_QUERY", conditions._VISIBLE)]
