"""Verbs on tasks: claim, heartbeat, and every way an attempt ends."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from coordinator_state import changes, rulings
from coordinator_state.changes import Changes
from coordinator_state.ids import Nonce, QueryId, StageId, WorkerId
from coordinator_state.records import (
    Commit,
    ErrorRecord,
    QueryStatus,
    StageRecord,
    TaskRecord,
    TaskStatus,
)
from coordinator_state.sqlite import rows
from coordinator_state.sqlite.database import Database
from coordinator_state.transitions import STAGE_MOVES


class TaskVerbs:
    _database: Database

    def tasks(
        self, query_id: QueryId, stage: StageId, *, status: TaskStatus | None = None
    ) -> Sequence[TaskRecord]:
        with self._database.read() as cx:
            found = rows.get_tasks(cx, query_id, stage, status)
            if not found:
                rows.get_stage(cx, query_id, stage)
            return found

    def get_task(self, query_id: QueryId, stage: StageId, index: int) -> TaskRecord:
        with self._database.read() as cx:
            return rows.get_task(cx, query_id, stage, index)

    def claim_task(
        self, query_id: QueryId, stage: StageId, worker_id: WorkerId, nonce: Nonce, *, now: float
    ) -> TaskRecord | None:
        with self._database.read() as cx:  # idle workers ask often; spare the writers' lock
            if not rulings.has_offer(_claimable(cx, query_id, stage, worker_id)):
                return None
        with self._database.write() as cx:
            current = _claimable(cx, query_id, stage, worker_id)
            while rulings.has_offer(current):
                current, index = _take_offer(cx, current)
                task = rows.get_task(cx, query_id, stage, index)
                if task.status is TaskStatus.PENDING:
                    claim = changes.claimed(
                        worker_id, nonce, generation=current.generation, now=now
                    )
                    return rows.change_task(cx, task, claim)
        return None

    def heartbeat(self, task: TaskRecord, *, phase: str, peak_memory: int = 0) -> QueryStatus:
        with self._database.write() as cx:
            current = _current(cx, task)
            rulings.task_landed("heartbeat", task, current)
            rows.change_task(cx, current, changes.beaten(phase=phase, peak_memory=peak_memory))
            return rows.get_query(cx, task.query_id).status

    def observe_beat(self, task: TaskRecord, *, now: float) -> None:
        with self._database.write() as cx:
            current = _current(cx, task)
            rulings.task_landed("observe_beat", task, current)
            if rulings.beat_is_news(task, current):
                rows.change_task(cx, current, changes.beat_observed(task, now=now))

    def commit_task(
        self,
        task: TaskRecord,
        commit: Commit,
        *,
        bound: Sequence[tuple[StageId, int, int]] = (),
    ) -> TaskRecord:
        with self._database.write() as cx:
            current = _current(cx, task)
            landed = rulings.task_landed("commit_task", task, current)
            rulings.require_running(rows.get_query(cx, task.query_id))
            if landed:
                return current
            return rows.change_task(cx, current, changes.committed(commit, bound))

    def requeue_task(
        self,
        task: TaskRecord,
        error: ErrorRecord,
        *,
        now: float,
        burn: bool = True,
        beat: int | None = None,
    ) -> TaskRecord:
        with self._database.write() as cx:
            current = _current(cx, task)
            if rulings.task_landed("requeue_task", task, current):
                return current
            rulings.require_silent(task, current, beat)
            new = rows.change_task(cx, current, changes.requeued(task, error, now=now, burn=burn))
            _offer(cx, new)
            return new

    def hand_back_task(self, task: TaskRecord, *, now: float, offer: bool = True) -> TaskRecord:
        with self._database.write() as cx:
            current = _current(cx, task)
            if rulings.task_landed("hand_back_task", task, current):
                return current
            new = rows.change_task(cx, current, changes.handed_back(task, now=now))
            if offer:
                _offer(cx, new)
            return new

    def fail_task(self, task: TaskRecord, error: ErrorRecord) -> TaskRecord:
        with self._database.write() as cx:
            current = _current(cx, task)
            if rulings.task_landed("fail_task", task, current):
                return current
            return rows.change_task(cx, current, changes.failed(task, error))

    def rerun_task(self, task: TaskRecord, error: ErrorRecord, *, now: float) -> TaskRecord:
        with self._database.write() as cx:
            current = _current(cx, task)
            if rulings.task_landed("rerun_task", task, current):
                return current
            new = rows.change_task(cx, current, changes.rerun(task, error, now=now))
            stage = rows.get_stage(cx, task.query_id, task.stage)
            if STAGE_MOVES["reopen_stage"].starts_from(stage.status):
                rows.change_stage(cx, stage, changes.REOPENED)
            _offer(cx, new)
            return new


def _current(cx: sqlite3.Connection, task: TaskRecord) -> TaskRecord:
    return rows.get_task(cx, task.query_id, task.stage, task.index)


def _claimable(
    cx: sqlite3.Connection, query_id: QueryId, stage: StageId, worker_id: WorkerId
) -> StageRecord:
    """The stage, once query and worker were found fit for a claim."""
    query = rows.get_query(cx, query_id)
    rulings.require_claimable(query, rows.get_worker(cx, query_id, worker_id))
    return rows.get_stage(cx, query_id, stage)


def _take_offer(cx: sqlite3.Connection, stage: StageRecord) -> tuple[StageRecord, int]:
    """Take the oldest offer, else what the cursor points at."""
    if stage.offers:
        take: Changes = {"offers": stage.offers[1:]}
        return rows.change_stage(cx, stage, take), stage.offers[0]
    return rows.change_stage(cx, stage, changes.CURSOR_MOVED), stage.cursor


def _offer(cx: sqlite3.Connection, task: TaskRecord) -> None:
    stage = rows.get_stage(cx, task.query_id, task.stage)
    if not rulings.is_on_offer(stage, task.index):
        rows.change_stage(cx, stage, {"offers": changes.Append((task.index,))})
