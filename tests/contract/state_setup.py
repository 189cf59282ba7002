"""Records and steps the tests of the state stores share."""

from __future__ import annotations

from typing import Any

from coordinator_state.dynamodb import DynamoDbStateStore
from coordinator_state.ids import Nonce, QueryId, StageId, WorkerId
from coordinator_state.records import (
    Commit,
    ErrorRecord,
    QueryRecord,
    QueryStatus,
    StageRecord,
    TaskRecord,
    WorkerRecord,
)
from coordinator_state.sqlite import SqliteStateStore
from coordinator_state.store import StateStore

Q = QueryId("20261130T120000-abcdef")
S0, S1 = StageId(0), StageId(1)
W = WorkerId("w-1")
NOW = 1_790_000_000.5
TABLE = "state"
LOST = ErrorRecord(kind="ExchangeLost", message="gone", retryable=True, scope="input")
EXPIRED = ErrorRecord(kind="LeaseExpired", message="no heartbeat", retryable=True)
COMMIT = Commit(
    object_key="exchange/20261130T120000-abcdef/00000/0000000/00001",
    size=123_456_789,
    checksum="0123456789abcdef",
    index_offset=123_450_000,
    rows_in=1_000_000,
    bytes_in=64_000_000,
    rows_out=500_000,
    bytes_out=123_456_000,
    seconds=12.125,
    peak_memory=3_000_000_000,
)


def new_query(query_id: QueryId = Q, **fields: Any) -> QueryRecord:
    return QueryRecord(query_id=query_id, created_at=NOW, sql="SELECT 1", **fields)


def new_stages(query_id: QueryId = Q, tasks: int = 3) -> list[StageRecord]:
    return [
        StageRecord(query_id=query_id, stage=S0, tasks=tasks),
        StageRecord(query_id=query_id, stage=S1, tasks=2, depth=1, upstream=(S0,)),
    ]


def start(store: StateStore, *, tasks: int = 3, admitted: int | None = None) -> None:
    """A running query whose stage 0 offers its tasks to the registered worker W."""
    store.create_query(new_query(), new_stages(tasks=tasks))
    store.activate_stage(Q, S0)
    store.set_capacity(Q, S0, admitted=tasks if admitted is None else admitted, desired=1)
    store.add_worker(WorkerRecord(query_id=Q, worker_id=W, launched_at=NOW))
    store.register_worker(Q, W, now=NOW, life_until=NOW + 900)


def claim(store: StateStore, nonce: str = "n1", stage: StageId = S0) -> TaskRecord:
    task = store.claim_task(Q, stage, W, Nonce(nonce), now=NOW + 1)
    assert task is not None
    return task


def indexes_claimed(store: StateStore, stage: StageId = S0) -> list[int]:
    found = []
    while (task := store.claim_task(Q, stage, W, Nonce(f"m{len(found)}"), now=NOW + 2)) is not None:
        found.append(task.index)
    return found


def finish(store: StateStore, status: QueryStatus = QueryStatus.SUCCEEDED) -> None:
    store.end_query(Q, status, now=NOW + 5)
    store.mark_swept(Q)
    store.close_query(Q, expires_at=NOW + 1000)


def stored(store: StateStore) -> list[object]:
    """Every row or item there is, of whatever kind."""
    if isinstance(store, DynamoDbStateStore):
        found: list[object] = store._table.client.scan(TableName=TABLE)["Items"]
        return found
    assert isinstance(store, SqliteStateStore)
    tables = ("queries", "stages", "tasks", "workers", "ledger")
    cx = store._database.connection()
    return [row for table in tables for row in cx.execute(f"SELECT * FROM {table}")]
