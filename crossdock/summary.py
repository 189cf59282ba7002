"""What is remembered of a query once its items are gone: the figures of its receipt.

Written as one object when the query closes, because tasks and workers are purged then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from coordinator_state.errors import NotFound
from coordinator_state.ids import QueryId
from coordinator_state.records import (
    ErrorRecord,
    QueryRecord,
    QueryStatus,
    StageRecord,
    TaskRecord,
    WorkerRecord,
)
from coordinator_state.store import StateStore
from crossdock.errors import ObjectExists, ObjectNotFound
from crossdock.platform.ports import Objects
from crossdock.shuffle.layout import receipt_key


class StageSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stage: sums over the committed attempts of its tasks."""

    stage: int
    status: str
    tasks: int
    committed: int = 0
    attempts: int = 0  # claims, the lost ones included
    failures: int = 0
    handbacks: int = 0
    rows_in: int = 0
    bytes_in: int = 0
    rows_out: int = 0
    bytes_out: int = 0
    seconds: float = 0.0  # claim to commit, summed over tasks
    longest: float = 0.0  # seconds of the slowest task
    peak_memory: int = 0  # bytes, of the largest task


class Summary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One query, ended."""

    query_id: str
    status: QueryStatus
    sql: str = ""
    exchange: str = ""
    created_at: float
    ended_at: float | None = None
    result_rows: int = 0
    error: ErrorRecord | None = None
    stages: tuple[StageSummary, ...] = ()
    workers: int = 0  # launches that registered
    worker_seconds: float = 0.0  # registered to left, summed
    worker_usage: dict[str, int] = {}  # requests by kind, summed over workers
    coordinator_usage: dict[str, int] = {}  # requests by kind, of turns and sweeps


def summarize_stage(stage: StageRecord, tasks: Sequence[TaskRecord]) -> StageSummary:
    commits = [t.commit for t in tasks if t.commit is not None]
    return StageSummary(
        stage=stage.stage,
        status=stage.status.value,
        tasks=stage.tasks,
        committed=len(commits),
        attempts=sum(t.attempt for t in tasks),
        failures=sum(t.failures for t in tasks),
        handbacks=sum(t.handbacks for t in tasks),
        rows_in=sum(c.rows_in for c in commits),
        bytes_in=sum(c.bytes_in for c in commits),
        rows_out=sum(c.rows_out for c in commits),
        bytes_out=sum(c.bytes_out for c in commits),
        seconds=sum(c.seconds for c in commits),
        longest=max((c.seconds for c in commits), default=0.0),
        peak_memory=max((c.peak_memory for c in commits), default=0),
    )


def summarize(
    query: QueryRecord,
    stages: Iterable[StageSummary],
    workers: Sequence[WorkerRecord],
    coordinator_usage: Mapping[str, int],
) -> Summary:
    usage: Counter[str] = Counter()
    for worker in workers:
        usage.update(worker.usage)
    started = [w for w in workers if w.registered_at]
    return Summary(
        query_id=query.query_id,
        status=query.status,
        sql=query.sql,
        exchange=query.exchange,
        created_at=query.created_at,
        ended_at=query.ended_at,
        result_rows=query.result_rows,
        error=query.error,
        stages=tuple(stages),
        workers=len(started),
        worker_seconds=sum(max(0.0, w.left_at - w.registered_at) for w in started if w.left_at),
        worker_usage=dict(usage),
        coordinator_usage=dict(coordinator_usage),
    )


def collect(store: StateStore, query: QueryRecord, coordinator_usage: Mapping[str, int]) -> Summary:
    """Read the figures of a query that is not purged yet."""
    stages = [
        summarize_stage(stage, store.tasks(query.query_id, stage.stage))
        for stage in store.stages(query.query_id)
    ]
    return summarize(query, stages, store.workers(query.query_id), coordinator_usage)


def keep(objects: Objects, summary: Summary) -> None:
    """Write the receipt object; the first writer wins, for it saw no less."""
    try:
        objects.put(receipt_key(QueryId(summary.query_id)), msgspec.json.encode(summary))
    except ObjectExists:
        return


def recall(store: StateStore, objects: Objects, query_id: QueryId) -> Summary:
    """The figures of any query, running, ended or closed.

    Raises ``coordinator_state.errors.NotFound`` when nothing of it is known any more.
    """
    query = store.get_query(query_id)
    if not query.closed:
        return collect(store, query, query.coordinator_usage)
    try:
        return msgspec.json.decode(objects.get(receipt_key(query_id)), type=Summary)
    except ObjectNotFound:
        raise NotFound(f"the receipt of query {query_id} has been removed") from None
