"""Queries of one task that the client process runs itself, recorded like any other.

They have a query item, a stage, a task and a receipt; no plan object, queue or exchange object.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from coordinator_state.errors import Refused
from coordinator_state.ids import Nonce, QueryId, StageId, WorkerId
from coordinator_state.records import (
    Commit,
    ErrorRecord,
    QueryRecord,
    QueryStatus,
    TaskRecord,
    WorkerRecord,
)
from coordinator_state.store import StateStore
from crossdock import cleanup
from crossdock.cleanup import Medium
from crossdock.local.process import BEAT_SECONDS, LIFE_SECONDS
from crossdock.planner.plan import StagePlan
from crossdock.platform.ports import Clock, Ids
from crossdock.submit import QueryOptions, query_record, stage_records
from crossdock.worker.heartbeat import Heartbeat

_log = logging.getLogger(__name__)

_ONLY = StageId(0)


@dataclass(frozen=True, slots=True)
class OwnTask:
    """The claimed task of a query this process runs."""

    task: TaskRecord
    heartbeat: Heartbeat
    started: float


def begin(
    store: StateStore,
    plan: StagePlan,
    options: QueryOptions,
    *,
    clock: Clock,
    ids: Ids,
    on_cancel: Callable[[], None] | None,
) -> OwnTask:
    """Write the query and claim its task; ``on_cancel`` is called if another process ends it."""
    query_id, worker_id = QueryId(ids.query_id()), WorkerId(ids.worker_id())
    now = clock.now()
    store.create_query(
        query_record(query_id, plan, options, now=now, key=""), stage_records(query_id, plan)
    )
    store.activate_stage(query_id, _ONLY)
    store.set_capacity(query_id, _ONLY, admitted=1, desired=1)
    store.add_worker(_worker(query_id, worker_id, now))
    store.register_worker(query_id, worker_id, now=now, life_until=now + LIFE_SECONDS)
    task = store.claim_task(query_id, _ONLY, worker_id, Nonce(ids.nonce()), now=now)
    if task is None:
        raise Refused(f"the task of query {query_id} is not on offer")
    heartbeat = Heartbeat(
        store,
        task,
        every=BEAT_SECONDS,
        seconds_left=LIFE_SECONDS,
        life_seconds=LIFE_SECONDS,
        on_stop=on_cancel,
    )
    heartbeat.phase = "fragment"
    heartbeat.start()
    return OwnTask(task, heartbeat, time.monotonic())


def end(
    medium: Medium,
    own: OwnTask,
    status: QueryStatus,
    *,
    rows: int,
    error: ErrorRecord | None,
    now: float,
    expires_at: float,
) -> QueryRecord:
    """End and close the query; the record as it stands, for another process may have ended it."""
    own.heartbeat.finish()
    task, store = own.task, medium.store
    if status is QueryStatus.SUCCEEDED:
        _commit(store, own, rows)
    store.end_query(task.query_id, status, now=now, result_rows=rows, error=error)
    store.leave_worker(task.query_id, task.worker_id, now=now, usage={})
    store.mark_swept(task.query_id)
    query = store.get_query(task.query_id)
    cleanup.close(medium, query, coordinator_usage={}, expires_at=expires_at)
    return query


def _worker(query_id: QueryId, worker_id: WorkerId, now: float) -> WorkerRecord:
    return WorkerRecord(
        query_id=query_id,
        worker_id=worker_id,
        worker_class="in process",
        launched_at=now,
        launch_deadline=now + LIFE_SECONDS,
        life_until=now + LIFE_SECONDS,
    )


def _commit(store: StateStore, own: OwnTask, rows: int) -> None:
    seconds = time.monotonic() - own.started
    commit = Commit(rows_out=rows, seconds=seconds, peak_memory=own.heartbeat.measure())
    try:
        store.commit_task(own.task, commit)
        store.complete_stage(own.task.query_id, own.task.stage)
    except Refused as refusal:
        _log.info("query %s ended before its task did: %s", own.task.query_id, refusal)
