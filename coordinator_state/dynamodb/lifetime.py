"""How a query's items come into being, and how they go.

A query has more items than one write can hold. It starts as a draft, which no other verb can see;
then come stages, then tasks; the last write turns the draft into the query. What dies on the way is
found again by its draft. In the other direction the stages go last but one, because they say where
the tasks are, and the query item last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from coordinator_state import changes, conditions, rulings, schema
from coordinator_state.changes import new_tasks
from coordinator_state.dynamodb import keys
from coordinator_state.dynamodb.items import attributes, decode, encode, serialize
from coordinator_state.dynamodb.table import ConditionFailed, Key, Table
from coordinator_state.errors import AlreadyExists
from coordinator_state.ids import QueryId
from coordinator_state.records import QueryRecord, StageRecord

if TYPE_CHECKING:
    from coordinator_state.dynamodb.items import Item

_DRAFT_TOKEN = "draft_token"


class LifetimeVerbs:
    _table: Table

    def create_query(self, query: QueryRecord, stages: Sequence[StageRecord]) -> QueryRecord:
        query = changes.new_query(query)
        token = uuid4().hex
        self._draft(query, token)
        self._table.write_batch(
            {**keys.stage_key(stage.query_id, stage.stage).item(), **encode(stage)}
            for stage in stages
        )
        self._table.write_batch(
            {**keys.task_key(task.query_id, task.stage, task.index).item(), **encode(task)}
            for stage in stages
            for task in new_tasks(query, stage)
        )
        self._publish(query, token)
        return query

    def drop_drafts(self, *, before: float) -> int:
        dropped = 0
        for row in list(self._table.listing(schema.LISTING_DRAFT)):
            query_id = QueryId(str(attributes(row)[schema.LISTING_SORT_ATTRIBUTE]))
            item = self._table.get(keys.query_key(query_id))
            if item is not None and _is_old_draft(item, before):
                dropped += self._drop_draft(query_id)
        return dropped

    def purge_query(self, query_id: QueryId) -> None:
        rulings.require_closed("purge_query", keys.read_query(self._table, query_id))
        self._remove_items(query_id)
        purged = {**changes.PURGED, schema.LISTING_ATTRIBUTE: schema.LISTING_PURGED}
        try:
            self._table.update(keys.query_key(query_id), conditions.PURGE_QUERY, purged)
        except ConditionFailed as refusal:
            query = keys.found_query(refusal.item, query_id)
            rulings.require_closed("purge_query", query)

    def forget_query(self, query_id: QueryId) -> None:
        try:
            self._table.delete(keys.query_key(query_id), conditions.FORGET_QUERY)
        except ConditionFailed as refusal:
            if refusal.item is not None:
                rulings.require_purged(keys.found_query(refusal.item, query_id))

    def _draft(self, query: QueryRecord, token: str) -> None:
        """Reserve the id. Raises ``AlreadyExists``."""
        draft: Item = {
            schema.LISTING_ATTRIBUTE: serialize(schema.LISTING_DRAFT),
            schema.LISTING_SORT_ATTRIBUTE: serialize(query.query_id),
            "created_at": serialize(query.created_at),
            _DRAFT_TOKEN: serialize(token),
        }
        try:
            self._table.put(keys.query_key(query.query_id), conditions.ABSENT, draft)
        except ConditionFailed as refusal:
            _require_mine(refusal.item, query.query_id, token)

    def _publish(self, query: QueryRecord, token: str) -> None:
        """The write that makes the query visible. Raises ``AlreadyExists``, ``NotFound``."""
        item: Item = {
            **encode(query),
            schema.LISTING_ATTRIBUTE: serialize(schema.LISTING_OPEN),
            _DRAFT_TOKEN: serialize(token),
        }
        key = keys.query_key(query.query_id)
        try:
            self._table.put(key, conditions.MY_DRAFT, item, {"token": token})
        except ConditionFailed as refusal:
            if refusal.item is None:
                keys.found_query(None, query.query_id)
            _require_mine(refusal.item, query.query_id, token)

    def _drop_draft(self, query_id: QueryId) -> int:
        self._remove_items(query_id)
        try:
            self._table.delete(keys.query_key(query_id), conditions.STILL_DRAFT)
        except ConditionFailed:
            return 0  # gone already: another janitor dropped it
        return 1

    def _remove_items(self, query_id: QueryId) -> None:
        """Everything but the query item; repeating it finds what is left."""
        own = schema.query_partition(query_id)
        stages = self._table.partition(own, prefix=schema.STAGE_PREFIX)
        self._table.write_batch(deletes=self._scattered(query_id, stages))
        ledger = self._table.partition(own, prefix=schema.LEDGER_PREFIX, keys_only=True)
        self._table.write_batch(deletes=(Key.of(item) for item in (*ledger, *stages)))

    def _scattered(self, query_id: QueryId, stages: Sequence[Item]) -> Iterator[Key]:
        """Keys of tasks and workers."""
        partitions = [schema.worker_partition(query_id)]
        for stage in stages:
            partitions += keys.task_partitions(decode(stage, StageRecord))
        for partition in partitions:
            for item in self._table.partition(partition, keys_only=True):
                yield Key.of(item)


def _require_mine(item: Item | None, query_id: QueryId, token: str) -> None:
    """The write had landed and only its answer was lost; else raises ``AlreadyExists``."""
    values = attributes(item or {})
    if values.get(_DRAFT_TOKEN) == token:
        return
    drafted = values.get(schema.LISTING_ATTRIBUTE) == schema.LISTING_DRAFT
    current = None if item is None or drafted else decode(item, QueryRecord)
    raise AlreadyExists(f"query {query_id} exists", current=current)


def _is_old_draft(item: Item, before: float) -> bool:
    values = attributes(item)
    created = values.get("created_at")
    is_draft = values.get(schema.LISTING_ATTRIBUTE) == schema.LISTING_DRAFT
    return is_draft and isinstance(created, int | float) and created < before
