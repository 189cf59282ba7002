"""Rows of the SQLite store: records in and out of one connection, in whatever transaction it has.

A record is one msgpack value; columns beside it are only what statements search by.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from coordinator_state.changes import Changes, apply
from coordinator_state.errors import NotFound
from coordinator_state.ids import QueryId, StageId, WorkerId
from coordinator_state.records import (
    QueryRecord,
    StageRecord,
    TableRecord,
    TaskRecord,
    TaskStatus,
    WorkerRecord,
)
from coordinator_state.schema import LISTING_CLOSED, LISTING_OPEN, LISTING_PURGED

R = TypeVar("R", bound=msgspec.Struct)

encode = msgspec.msgpack.Encoder().encode
_decode_query = msgspec.msgpack.Decoder(QueryRecord).decode
_decode_stage = msgspec.msgpack.Decoder(StageRecord).decode
_decode_table = msgspec.msgpack.Decoder(TableRecord).decode
_decode_task = msgspec.msgpack.Decoder(TaskRecord).decode
_decode_worker = msgspec.msgpack.Decoder(WorkerRecord).decode


def _listing(query: QueryRecord) -> str:
    if query.purged:
        return LISTING_PURGED
    return LISTING_CLOSED if query.closed else LISTING_OPEN


# -- query -------------------------------------------------------------------------------------
def find_query(cx: sqlite3.Connection, query_id: QueryId) -> QueryRecord | None:
    row = cx.execute("SELECT record FROM queries WHERE query_id = ?", (query_id,)).fetchone()
    return None if row is None else _decode_query(row[0])


def get_query(cx: sqlite3.Connection, query_id: QueryId) -> QueryRecord:
    """Raises ``NotFound``."""
    query = find_query(cx, query_id)
    if query is None:
        raise NotFound(f"no query {query_id}")
    return query


def insert_query(cx: sqlite3.Connection, query: QueryRecord) -> None:
    cx.execute(
        "INSERT INTO queries (query_id, status, listing, record) VALUES (?, ?, ?, ?)",
        (query.query_id, query.status, _listing(query), encode(query)),
    )


def change_query(cx: sqlite3.Connection, query: QueryRecord, changes: Changes) -> QueryRecord:
    new = apply(query, changes)
    cx.execute(
        "UPDATE queries SET status = ?, listing = ?, record = ? WHERE query_id = ?",
        (new.status, _listing(new), encode(new), new.query_id),
    )
    return new


def listed(cx: sqlite3.Connection, listing: str) -> Sequence[QueryId]:
    """Ids under one listing, oldest first."""
    rows = cx.execute(
        "SELECT query_id FROM queries WHERE listing = ? ORDER BY query_id", (listing,)
    )
    return [QueryId(row[0]) for row in rows]


def decode_queries(rows: Sequence[tuple[bytes]]) -> Sequence[QueryRecord]:
    return [_decode_query(row[0]) for row in rows]


# -- tables ------------------------------------------------------------------------------------
def find_table(cx: sqlite3.Connection, name: str) -> TableRecord | None:
    row = cx.execute("SELECT record FROM tables WHERE name = ?", (name.lower(),)).fetchone()
    return None if row is None else _decode_table(row[0])


def get_tables(cx: sqlite3.Connection) -> Sequence[TableRecord]:
    return [_decode_table(row[0]) for row in cx.execute("SELECT record FROM tables ORDER BY name")]


def put_table(cx: sqlite3.Connection, table: TableRecord) -> None:
    cx.execute(
        "INSERT OR REPLACE INTO tables (name, record) VALUES (?, ?)",
        (table.name.lower(), encode(table)),
    )


# -- stages ------------------------------------------------------------------------------------
def get_stage(cx: sqlite3.Connection, query_id: QueryId, stage: StageId) -> StageRecord:
    """Raises ``NotFound``."""
    row = cx.execute(
        "SELECT record FROM stages WHERE query_id = ? AND stage = ?", (query_id, stage)
    ).fetchone()
    if row is None:
        raise NotFound(f"no stage {stage} of query {query_id}")
    return _decode_stage(row[0])


def get_stages(cx: sqlite3.Connection, query_id: QueryId) -> Sequence[StageRecord]:
    rows = cx.execute("SELECT record FROM stages WHERE query_id = ? ORDER BY stage", (query_id,))
    return [_decode_stage(row[0]) for row in rows]


def insert_stages(cx: sqlite3.Connection, stages: Sequence[StageRecord]) -> None:
    cx.executemany(
        "INSERT INTO stages (query_id, stage, record) VALUES (?, ?, ?)",
        [(stage.query_id, stage.stage, encode(stage)) for stage in stages],
    )


def change_stage(cx: sqlite3.Connection, stage: StageRecord, changes: Changes) -> StageRecord:
    new = apply(stage, changes)
    cx.execute(
        "UPDATE stages SET record = ? WHERE query_id = ? AND stage = ?",
        (encode(new), new.query_id, new.stage),
    )
    return new


# -- tasks -------------------------------------------------------------------------------------
def get_task(cx: sqlite3.Connection, query_id: QueryId, stage: StageId, index: int) -> TaskRecord:
    """Raises ``NotFound``."""
    row = cx.execute(
        "SELECT record FROM tasks WHERE query_id = ? AND stage = ? AND task = ?",
        (query_id, stage, index),
    ).fetchone()
    if row is None:
        raise NotFound(f"no task {stage}.{index} of query {query_id}")
    return _decode_task(row[0])


def get_tasks(
    cx: sqlite3.Connection, query_id: QueryId, stage: StageId, status: TaskStatus | None = None
) -> Sequence[TaskRecord]:
    sql = "SELECT record FROM tasks WHERE query_id = ? AND stage = ? ORDER BY task"
    parameters: tuple[object, ...] = (query_id, stage)
    if status is not None:
        sql = sql.replace("ORDER", "AND status = ? ORDER")
        parameters = (query_id, stage, status)
    return [_decode_task(row[0]) for row in cx.execute(sql, parameters)]


def count_tasks_not(
    cx: sqlite3.Connection, query_id: QueryId, stage: StageId, status: TaskStatus
) -> int:
    row = cx.execute(
        "SELECT count(*) FROM tasks WHERE query_id = ? AND stage = ? AND status <> ?",
        (query_id, stage, status),
    ).fetchone()
    count: int = row[0]
    return count


def insert_tasks(cx: sqlite3.Connection, tasks: Sequence[TaskRecord]) -> None:
    cx.executemany(
        "INSERT INTO tasks (query_id, stage, task, status, record) VALUES (?, ?, ?, ?, ?)",
        [(t.query_id, t.stage, t.index, t.status, encode(t)) for t in tasks],
    )


def change_task(cx: sqlite3.Connection, task: TaskRecord, changes: Changes) -> TaskRecord:
    new = apply(task, changes)
    cx.execute(
        "UPDATE tasks SET status = ?, record = ? WHERE query_id = ? AND stage = ? AND task = ?",
        (new.status, encode(new), new.query_id, new.stage, new.index),
    )
    return new


# -- workers -----------------------------------------------------------------------------------
def find_worker(
    cx: sqlite3.Connection, query_id: QueryId, worker_id: WorkerId
) -> WorkerRecord | None:
    row = cx.execute(
        "SELECT record FROM workers WHERE query_id = ? AND worker_id = ?", (query_id, worker_id)
    ).fetchone()
    return None if row is None else _decode_worker(row[0])


def get_worker(cx: sqlite3.Connection, query_id: QueryId, worker_id: WorkerId) -> WorkerRecord:
    """Raises ``NotFound``."""
    worker = find_worker(cx, query_id, worker_id)
    if worker is None:
        raise NotFound(f"no worker {worker_id} of query {query_id}")
    return worker


def get_workers(cx: sqlite3.Connection, query_id: QueryId) -> Sequence[WorkerRecord]:
    rows = cx.execute(
        "SELECT record FROM workers WHERE query_id = ? ORDER BY launched_at, worker_id",
        (query_id,),
    )
    return [_decode_worker(row[0]) for row in rows]


def insert_worker(cx: sqlite3.Connection, worker: WorkerRecord) -> None:
    cx.execute(
        "INSERT INTO workers (query_id, worker_id, launched_at, record) VALUES (?, ?, ?, ?)",
        (worker.query_id, worker.worker_id, worker.launched_at, encode(worker)),
    )


def change_worker(cx: sqlite3.Connection, worker: WorkerRecord, changes: Changes) -> WorkerRecord:
    new = apply(worker, changes)
    cx.execute(
        "UPDATE workers SET record = ? WHERE query_id = ? AND worker_id = ?",
        (encode(new), new.query_id, new.worker_id),
    )
    return new
