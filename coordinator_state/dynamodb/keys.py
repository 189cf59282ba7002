"""Where each record lives, and reading it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_state import schema
from coordinator_state.dynamodb.items import attributes, decode
from coordinator_state.dynamodb.table import Key, Table
from coordinator_state.errors import NotFound
from coordinator_state.ids import QueryId, StageId, WorkerId
from coordinator_state.records import (
    LedgerKind,
    QueryRecord,
    StageRecord,
    TaskRecord,
    WorkerRecord,
)

if TYPE_CHECKING:
    from coordinator_state.dynamodb.items import Item


def query_key(query_id: QueryId) -> Key:
    return Key(schema.query_partition(query_id), schema.QUERY_SORT)


def stage_key(query_id: QueryId, stage: StageId) -> Key:
    return Key(schema.query_partition(query_id), schema.stage_sort(stage))


def task_key(query_id: QueryId, stage: StageId, index: int) -> Key:
    return Key(schema.task_partition(query_id, stage, index), schema.task_sort(index))


def worker_key(query_id: QueryId, worker_id: WorkerId) -> Key:
    return Key(schema.worker_partition(query_id), worker_id)


def ledger_key(query_id: QueryId, kind: LedgerKind, name: str) -> Key:
    return Key(schema.query_partition(query_id), schema.ledger_sort(kind, name))


def task_partitions(stage: StageRecord) -> list[str]:
    """Partitions that hold the stage's tasks, in the order of their indexes."""
    starts = range(0, stage.tasks, schema.TASKS_PER_BUCKET)
    return [schema.task_partition(stage.query_id, stage.stage, index) for index in starts]


# -- an item that was read, or came back from a refused write; absent: ``NotFound`` ------------
def found_query(item: Item | None, query_id: QueryId) -> QueryRecord:
    if item is None or attributes(item).get(schema.LISTING_ATTRIBUTE) == schema.LISTING_DRAFT:
        raise NotFound(f"no query {query_id}")
    return decode(item, QueryRecord)


def found_stage(item: Item | None, query_id: QueryId, stage: StageId) -> StageRecord:
    if item is None:
        raise NotFound(f"no stage {stage} of query {query_id}")
    return decode(item, StageRecord)


def found_task(item: Item | None, task: TaskRecord) -> TaskRecord:
    if item is None:
        raise NotFound(f"no task {task.stage}.{task.index} of query {task.query_id}")
    return decode(item, TaskRecord)


def found_worker(item: Item | None, query_id: QueryId, worker_id: WorkerId) -> WorkerRecord:
    if item is None:
        raise NotFound(f"no worker {worker_id} of query {query_id}")
    return decode(item, WorkerRecord)


# -- consistent reads of one record ----------------------------------------------------------------
def read_query(table: Table, query_id: QueryId) -> QueryRecord:
    """Raises ``NotFound``, for a query that is still being created too."""
    return found_query(table.get(query_key(query_id)), query_id)


def read_stage(table: Table, query_id: QueryId, stage: StageId) -> StageRecord:
    """Raises ``NotFound``."""
    return found_stage(table.get(stage_key(query_id, stage)), query_id, stage)


def read_task(table: Table, query_id: QueryId, stage: StageId, index: int) -> TaskRecord:
    """Raises ``NotFound``."""
    name = TaskRecord(query_id=query_id, stage=stage, index=index)
    return found_task(table.get(task_key(query_id, stage, index)), name)
