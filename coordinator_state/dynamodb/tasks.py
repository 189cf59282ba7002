"""Verbs on tasks: claim, heartbeat, and every way an attempt ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinator_state import changes, conditions, rulings
from coordinator_state.changes import Changes
from coordinator_state.dynamodb import keys
from coordinator_state.dynamodb.items import Update, decode
from coordinator_state.dynamodb.stages import StageVerbs
from coordinator_state.dynamodb.table import ConditionFailed, Key
from coordinator_state.ids import Nonce, QueryId, StageId, WorkerId
from coordinator_state.records import (
    Commit,
    ErrorRecord,
    QueryStatus,
    StageRecord,
    TaskRecord,
    TaskStatus,
)

_TAKE_OFFER = Update("REMOVE #offers[0]", {})


class TaskVerbs(StageVerbs):
    def tasks(
        self, query_id: QueryId, stage: StageId, *, status: TaskStatus | None = None
    ) -> Sequence[TaskRecord]:
        found = self.tasks_of(keys.read_stage(self._table, query_id, stage))
        return [task for task in found if status is None or task.status is status]

    def get_task(self, query_id: QueryId, stage: StageId, index: int) -> TaskRecord:
        return keys.read_task(self._table, query_id, stage, index)

    def claim_task(
        self, query_id: QueryId, stage: StageId, worker_id: WorkerId, nonce: Nonce, *, now: float
    ) -> TaskRecord | None:
        """One batch read, then two writes: take an offer or move the cursor, and claim the task.

        Query and worker are read, not asserted with the claim: a task claimed just after its query
        ended is told so by its first heartbeat, and its commit is no part of any result.
        """
        current = self._claimable(query_id, stage, worker_id)
        while rulings.has_offer(current):
            current, index = self._take(current)
            if index is None:
                continue
            claim = changes.claimed(worker_id, nonce, generation=current.generation, now=now)
            key = keys.task_key(query_id, stage, index)
            try:
                return decode(self._table.update(key, conditions.CLAIM_TASK, claim), TaskRecord)
            except ConditionFailed as refusal:
                name = TaskRecord(query_id=query_id, stage=stage, index=index)
                task = keys.found_task(refusal.item, name)
                if rulings.claim_landed(task, nonce):
                    return task
        return None

    def heartbeat(self, task: TaskRecord, *, phase: str, peak_memory: int = 0) -> QueryStatus:
        beat = changes.beaten(phase=phase, peak_memory=peak_memory)
        self._change("heartbeat", task, conditions.HEARTBEAT, beat)
        return keys.read_query(self._table, task.query_id).status

    def observe_beat(self, task: TaskRecord, *, now: float) -> None:
        note = changes.beat_observed(task, now=now)
        self._change("observe_beat", task, conditions.OBSERVE_BEAT, note, {"beat": task.beat})

    def commit_task(
        self,
        task: TaskRecord,
        commit: Commit,
        *,
        bound: Sequence[tuple[StageId, int, int]] = (),
    ) -> TaskRecord:
        change = changes.committed(commit, bound)
        committed = self._change("commit_task", task, conditions.COMMIT_TASK, change)
        # After the write: the result manifest settles what counts, this only stops the worker.
        rulings.require_running(keys.read_query(self._table, task.query_id))
        return committed

    def requeue_task(
        self,
        task: TaskRecord,
        error: ErrorRecord,
        *,
        now: float,
        burn: bool = True,
        beat: int | None = None,
    ) -> TaskRecord:
        condition = conditions.REQUEUE_TASK if beat is None else conditions.REQUEUE_SILENT_TASK
        change = changes.requeued(task, error, now=now, burn=burn)
        try:
            values = {**_fence(task), "beat": beat}
            item = self._table.update(_key(task), condition, change, values)
            requeued = decode(item, TaskRecord)
        except ConditionFailed as refusal:
            requeued = keys.found_task(refusal.item, task)
            if not rulings.task_landed("requeue_task", task, requeued):
                rulings.require_silent(task, requeued, beat)
        self.offer(task.query_id, task.stage, (task.index,))
        return requeued

    def hand_back_task(self, task: TaskRecord, *, now: float, offer: bool = True) -> TaskRecord:
        change = changes.handed_back(task, now=now)
        pending = self._change("hand_back_task", task, conditions.HAND_BACK_TASK, change)
        if offer:
            self.offer(task.query_id, task.stage, (task.index,))
        return pending

    def fail_task(self, task: TaskRecord, error: ErrorRecord) -> TaskRecord:
        change = changes.failed(task, error)
        return self._change("fail_task", task, conditions.FAIL_TASK, change)

    def rerun_task(self, task: TaskRecord, error: ErrorRecord, *, now: float) -> TaskRecord:
        """The stage is reopened before and after, so that dying between leaves nothing COMPLETE.

        Before: a stage that is ACTIVE with all tasks committed is completed again by the next turn.
        After: a ``complete_stage`` that read the task while it was committed is refused.
        """
        current = self.get_task(task.query_id, task.stage, task.index)
        rulings.task_landed("rerun_task", task, current)  # a stale report must not reopen anything
        self.reopen(task.query_id, task.stage)
        change = changes.rerun(task, error, now=now)
        pending = self._change("rerun_task", task, conditions.RERUN_TASK, change)
        self.reopen(task.query_id, task.stage)
        self.offer(task.query_id, task.stage, (task.index,))
        return pending

    def _change(
        self,
        verb: str,
        task: TaskRecord,
        condition: str,
        change: Changes,
        values: Mapping[str, object] | None = None,
    ) -> TaskRecord:
        """One fenced write. Refused or unanswered, the item that comes back decides.

        Raises:
            StaleAttempt: the attempt is not the caller's any more.
            NotFound: the query was purged.
        """
        try:
            bound = {**_fence(task), **(values or {})}
            return decode(self._table.update(_key(task), condition, change, bound), TaskRecord)
        except ConditionFailed as refusal:
            current = keys.found_task(refusal.item, task)
            rulings.task_landed(verb, task, current)
            return current

    def _claimable(self, query_id: QueryId, stage: StageId, worker_id: WorkerId) -> StageRecord:
        """The stage, once query and worker were found fit for a claim; one request."""
        wanted = (
            keys.query_key(query_id),
            keys.worker_key(query_id, worker_id),
            keys.stage_key(query_id, stage),
        )
        found = self._table.get_many(wanted)
        query = keys.found_query(found.get(wanted[0]), query_id)
        worker = keys.found_worker(found.get(wanted[1]), query_id, worker_id)
        rulings.require_claimable(query, worker)
        return keys.found_stage(found.get(wanted[2]), query_id, stage)

    def _take(self, stage: StageRecord) -> tuple[StageRecord, int | None]:
        """The stage as it is now, and the oldest offer, else what the cursor pointed at.

        A claimer that dies after this leaves a PENDING task that is not on offer; the coordinator
        offers it again.
        """
        key = keys.stage_key(stage.query_id, stage.stage)
        try:
            if stage.offers:
                item = self._table.express(
                    key, conditions.TAKE_OFFER, _TAKE_OFFER, returns="ALL_OLD"
                )
                taken = decode(item, StageRecord)
                return changes.apply(taken, {"offers": taken.offers[1:]}), taken.offers[0]
            item = self._table.update(key, conditions.MOVE_CURSOR, changes.CURSOR_MOVED)
        except ConditionFailed as refusal:
            return keys.found_stage(refusal.item, stage.query_id, stage.stage), None
        moved = decode(item, StageRecord)
        return moved, moved.cursor - 1


def _key(task: TaskRecord) -> Key:
    return keys.task_key(task.query_id, task.stage, task.index)


def _fence(task: TaskRecord) -> Mapping[str, object]:
    return {"attempt": task.attempt, "nonce": task.nonce}
