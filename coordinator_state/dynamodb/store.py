"""The state store in one DynamoDB table; each verb is one conditional write where that can be.

Verbs that touch more than one item write them in an order that dying half way leaves repairable by
repeating the verb; their docstrings say which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from coordinator_state import changes, conditions, rulings, schema
from coordinator_state.changes import Changes
from coordinator_state.dynamodb import keys
from coordinator_state.dynamodb.items import attributes, decode, encode, names_in
from coordinator_state.dynamodb.lifetime import LifetimeVerbs
from coordinator_state.dynamodb.queries import QueryVerbs
from coordinator_state.dynamodb.shared import SharedVerbs
from coordinator_state.dynamodb.table import ConditionFailed, Table
from coordinator_state.dynamodb.tasks import TaskVerbs
from coordinator_state.errors import AlreadyExists
from coordinator_state.ids import QueryId, WorkerId
from coordinator_state.records import WorkerRecord
from coordinator_state.store import StateStore
from coordinator_state.transitions import WORKER_MOVES, landed

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

#: Drawn per call: an unanswered registration is told from another's by it.
_REGISTRATION = "registration"


class DynamoDbStateStore(LifetimeVerbs, QueryVerbs, TaskVerbs, SharedVerbs, StateStore):
    """Safe for many threads, processes and machines at once; ``client`` may be shared too."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        """``client`` is best made with ``client_config()``; ``table`` must exist."""
        self._table = Table(client, table)

    # -- workers ---------------------------------------------------------------------------------
    def add_worker(self, worker: WorkerRecord) -> None:
        key = keys.worker_key(worker.query_id, worker.worker_id)
        put = {**key.item(), **encode(worker)}
        try:
            self._table.transact(
                [
                    self.while_running(worker.query_id),
                    {
                        "Put": {
                            "TableName": self._table.name,
                            "Item": put,
                            "ConditionExpression": conditions.ABSENT,
                            "ExpressionAttributeNames": names_in(conditions.ABSENT),
                        }
                    },
                ]
            )
        except ConditionFailed:
            rulings.require_running(keys.read_query(self._table, worker.query_id))
            existing = self._worker(worker.query_id, worker.worker_id)
            if existing != worker:  # else it had landed, only its answer was lost
                raise AlreadyExists(f"worker {worker.worker_id} exists", current=existing) from None

    def register_worker(
        self, query_id: QueryId, worker_id: WorkerId, *, now: float, life_until: float
    ) -> WorkerRecord:
        key = keys.worker_key(query_id, worker_id)
        token = uuid4().hex
        change = {**changes.registered(now=now, life_until=life_until), _REGISTRATION: token}
        try:
            item = self._table.update(key, conditions.REGISTER_WORKER, change)
        except ConditionFailed as refusal:
            worker = keys.found_worker(refusal.item, query_id, worker_id)
            if attributes(refusal.item or {}).get(_REGISTRATION) != token:
                rulings.require_registrable(worker)
            return worker
        return decode(item, WorkerRecord)

    def drain_worker(self, query_id: QueryId, worker_id: WorkerId) -> WorkerRecord:
        return self._move_worker(
            "drain_worker", query_id, worker_id, conditions.DRAIN_WORKER, changes.DRAINED
        )

    def lose_worker(self, query_id: QueryId, worker_id: WorkerId) -> WorkerRecord:
        return self._move_worker(
            "lose_worker", query_id, worker_id, conditions.LOSE_WORKER, changes.LOST
        )

    def leave_worker(
        self, query_id: QueryId, worker_id: WorkerId, *, now: float, usage: Mapping[str, int]
    ) -> None:
        key = keys.worker_key(query_id, worker_id)
        try:
            self._table.update(key, conditions.LEAVE_WORKER, changes.left(now=now, usage=usage))
        except ConditionFailed as refusal:
            keys.found_worker(refusal.item, query_id, worker_id)
            late = changes.left_late(now=now, usage=usage)
            self._update_worker(query_id, worker_id, late)

    def report_usage(
        self, query_id: QueryId, worker_id: WorkerId, usage: Mapping[str, int]
    ) -> WorkerRecord:
        return self._update_worker(query_id, worker_id, changes.used(usage))

    def workers(self, query_id: QueryId) -> Sequence[WorkerRecord]:
        items = self._table.partition(schema.worker_partition(query_id))
        if not items:
            keys.read_query(self._table, query_id)
        found = (decode(item, WorkerRecord) for item in items)
        return sorted(found, key=lambda worker: (worker.launched_at, worker.worker_id))

    def _worker(self, query_id: QueryId, worker_id: WorkerId) -> WorkerRecord:
        item = self._table.get(keys.worker_key(query_id, worker_id))
        return keys.found_worker(item, query_id, worker_id)

    def _update_worker(
        self, query_id: QueryId, worker_id: WorkerId, change: Changes
    ) -> WorkerRecord:
        key = keys.worker_key(query_id, worker_id)
        try:
            return decode(self._table.update(key, conditions.REPORT_USAGE, change), WorkerRecord)
        except ConditionFailed as refusal:
            return keys.found_worker(refusal.item, query_id, worker_id)

    def _move_worker(
        self, verb: str, query_id: QueryId, worker_id: WorkerId, condition: str, change: Changes
    ) -> WorkerRecord:
        key = keys.worker_key(query_id, worker_id)
        try:
            return decode(self._table.update(key, condition, change), WorkerRecord)
        except ConditionFailed as refusal:
            worker = keys.found_worker(refusal.item, query_id, worker_id)
            landed(WORKER_MOVES[verb], worker.status, f"worker {worker_id}", current=worker)
            return worker
