"""Verbs on queries, their turns and their ledger."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING
from uuid import uuid4

import tenacity

from coordinator_state import changes, conditions, rulings, schema
from coordinator_state.dynamodb import keys
from coordinator_state.dynamodb.items import (
    attributes,
    decode,
    encode,
    names_in,
    update_of,
    values_in,
)
from coordinator_state.dynamodb.shared import table_condition, table_key
from coordinator_state.dynamodb.table import TRANSACTION_ITEMS, ConditionFailed, Table
from coordinator_state.errors import StoreUnavailable, TableMoved
from coordinator_state.ids import QueryId
from coordinator_state.records import (
    ErrorRecord,
    LedgerEntry,
    LedgerKind,
    QueryRecord,
    QueryStatus,
    TableChange,
    TableRecord,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef

#: Who moved the tick: an unanswered move is told from another's by it.
_TICK_TOKEN = "tick_token"

_ADD_TO_LEDGER = (
    "SET #query_id = :query_id, #kind = :kind, #name = :name,"
    " #owned_at = if_not_exists(#owned_at, :owned_at)"
)


class _TurnMoved(StoreUnavailable):
    """The turn was held, and then free, between two writes."""


class QueryVerbs:
    _table: Table

    def get_query(self, query_id: QueryId) -> QueryRecord:
        return keys.read_query(self._table, query_id)

    def list_queries(
        self, *, status: QueryStatus | None = None, limit: int = 100, before: QueryId | None = None
    ) -> Sequence[QueryRecord]:
        listings = (schema.LISTING_OPEN, schema.LISTING_CLOSED, schema.LISTING_PURGED)
        merged = heapq.merge(
            *(self._ids(name, status=status, before=before) for name in listings), reverse=True
        )
        # A query that is closed meanwhile stands in two listings, one after the other.
        ids = list(islice((query_id for query_id, _ in groupby(merged)), limit))
        found = self._table.get_many([keys.query_key(query_id) for query_id in ids])
        items = (found.get(keys.query_key(query_id)) for query_id in ids)
        return [decode(item, QueryRecord) for item in items if item is not None]

    def open_queries(self) -> Sequence[QueryId]:
        return sorted(self._ids(schema.LISTING_OPEN))

    def unpurged_queries(self) -> Sequence[QueryId]:
        return sorted(self._ids(schema.LISTING_CLOSED))

    def end_query(
        self,
        query_id: QueryId,
        status: QueryStatus,
        *,
        now: float,
        result: Sequence[str] = (),
        result_key: str = "",
        result_rows: int = 0,
        error: ErrorRecord | None = None,
        table: TableChange | None = None,
        committer: bool = False,
    ) -> QueryRecord:
        end = changes.ended(
            status,
            now=now,
            result=result,
            result_key=result_key,
            result_rows=result_rows,
            error=error,
            table=table,
        )
        condition = conditions.COMMIT_QUERY if committer else conditions.END_QUERY
        if table is not None:
            return self._end_with_table(query_id, condition, end, table)
        try:
            item = self._table.update(keys.query_key(query_id), condition, end)
        except ConditionFailed as refusal:
            return keys.found_query(refusal.item, query_id)
        return decode(item, QueryRecord)

    def _end_with_table(
        self, query_id: QueryId, condition: str, end: changes.Changes, table: TableChange
    ) -> QueryRecord:
        """Both items in one transaction. If it is refused, what stands tells by which."""
        try:
            self._table.transact([self._end_write(query_id, condition, end), self._write(table)])
        except ConditionFailed:
            query = keys.read_query(self._table, query_id)
            if query.status is QueryStatus.RUNNING:
                item = self._table.get(table_key(table.record.name))
                standing = None if item is None else decode(item, TableRecord)
                raise TableMoved(
                    f"table {table.record.name} was changed meanwhile", current=standing
                ) from None
            return query
        return keys.read_query(self._table, query_id)

    def _end_write(
        self, query_id: QueryId, condition: str, end: changes.Changes
    ) -> TransactWriteItemTypeDef:
        update = update_of(end)
        expressions = (condition, update.expression)
        return {
            "Update": {
                "TableName": self._table.name,
                "Key": keys.query_key(query_id).item(),
                "UpdateExpression": update.expression,
                "ConditionExpression": condition,
                "ExpressionAttributeNames": names_in(*expressions),
                "ExpressionAttributeValues": values_in(expressions, update.values),
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        }

    def _write(self, table: TableChange) -> TransactWriteItemTypeDef:
        condition = table_condition(table)
        return {
            "Put": {
                "TableName": self._table.name,
                "Item": {**table_key(table.record.name).item(), **encode(table.record)},
                "ConditionExpression": condition,
                "ExpressionAttributeNames": names_in(condition),
                "ExpressionAttributeValues": values_in((condition,), {"expected": table.expected}),
            }
        }

    def begin_commit(self, query_id: QueryId) -> QueryRecord:
        key = keys.query_key(query_id)
        try:
            item = self._table.update(key, conditions.BEGIN_COMMIT, changes.COMMIT_BEGUN)
        except ConditionFailed as refusal:
            return keys.found_query(refusal.item, query_id)
        return decode(item, QueryRecord)

    def mark_swept(self, query_id: QueryId) -> None:
        try:
            self._table.update(keys.query_key(query_id), conditions.MARK_SWEPT, changes.SWEPT)
        except ConditionFailed as refusal:
            rulings.require_ended("mark_swept", keys.found_query(refusal.item, query_id))

    def close_query(self, query_id: QueryId, *, expires_at: float | None) -> None:
        closed = {
            **changes.CLOSED,
            schema.LISTING_ATTRIBUTE: schema.LISTING_CLOSED,
            # The service takes whole seconds only, and ignores any other value.
            schema.TTL_ATTRIBUTE: None if expires_at is None else int(expires_at),
        }
        try:
            self._table.update(keys.query_key(query_id), conditions.CLOSE_QUERY, closed)
        except ConditionFailed as refusal:
            rulings.require_closable(keys.found_query(refusal.item, query_id))

    # -- the turn --------------------------------------------------------------------------------
    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(_TurnMoved),
        stop=tenacity.stop_after_attempt(10),
        wait=tenacity.wait_random(0.0, 0.02),
        reraise=True,
    )
    def begin_turn(
        self, query_id: QueryId, holder: str, *, now: float, until: float
    ) -> QueryRecord | None:
        key = keys.query_key(query_id)
        values = {"holder": holder, "now": now}
        turn = changes.turn_begun(holder, until=until)
        try:
            item = self._table.update(key, conditions.BEGIN_TURN, turn, values)
            return decode(item, QueryRecord)
        except ConditionFailed as refusal:
            keys.found_query(refusal.item, query_id)
        try:
            self._table.update(key, conditions.KNOCK, changes.KNOCKED, values)
        except ConditionFailed as refusal:
            keys.found_query(refusal.item, query_id)
            raise _TurnMoved(f"the turn of query {query_id} moves too fast") from None
        return None

    def end_turn(
        self, query_id: QueryId, holder: str, *, wake: int, usage: Mapping[str, int] | None = None
    ) -> bool:
        values = {"holder": holder, "wake": wake}
        ended = changes.turn_ended(usage or {})
        try:
            self._table.update(keys.query_key(query_id), conditions.END_TURN, ended, values)
        except ConditionFailed as refusal:
            query = keys.found_query(refusal.item, query_id)
            return bool(rulings.turn_released(query, holder, wake=wake))
        return True

    def advance_tick(self, query_id: QueryId, *, expected: int) -> bool:
        token = uuid4().hex
        moved = {**changes.TICKED, _TICK_TOKEN: token}
        values = {"expected": expected}
        try:
            self._table.update(keys.query_key(query_id), conditions.ADVANCE_TICK, moved, values)
        except ConditionFailed as refusal:
            keys.found_query(refusal.item, query_id)
            return attributes(refusal.item or {}).get(_TICK_TOKEN) == token
        return True

    # -- ledger ----------------------------------------------------------------------------------
    def own(self, entries: Sequence[LedgerEntry]) -> None:
        for query_id in sorted({entry.query_id for entry in entries}):
            mine = [entry for entry in entries if entry.query_id == query_id]
            for start in range(0, len(mine), TRANSACTION_ITEMS):
                self._own(query_id, mine[start : start + TRANSACTION_ITEMS])

    def release(self, query_id: QueryId, kind: LedgerKind, name: str) -> None:
        self._table.delete(keys.ledger_key(query_id, kind, name))

    def owned(self, query_id: QueryId) -> Sequence[LedgerEntry]:
        partition = schema.query_partition(query_id)
        items = self._table.partition(partition, prefix=schema.LEDGER_PREFIX)
        if not items:
            keys.read_query(self._table, query_id)
        return [decode(item, LedgerEntry) for item in items]

    def _own(self, query_id: QueryId, entries: Iterable[LedgerEntry]) -> None:
        unique = {(entry.kind, entry.name): entry for entry in entries}
        writes = [self.while_running(query_id), *map(self._ledger_write, unique.values())]
        try:
            self._table.transact(writes)
        except ConditionFailed as refusal:
            rulings.require_running(keys.found_query(refusal.item, query_id))

    def while_running(self, query_id: QueryId) -> TransactWriteItemTypeDef:
        """The part of a transaction that lets it pass only while the query runs."""
        return {
            "ConditionCheck": {
                "TableName": self._table.name,
                "Key": keys.query_key(query_id).item(),
                "ConditionExpression": conditions.QUERY_RUNS,
                "ExpressionAttributeNames": names_in(conditions.QUERY_RUNS),
                "ExpressionAttributeValues": values_in((conditions.QUERY_RUNS,), {}),
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        }

    def _ledger_write(self, entry: LedgerEntry) -> TransactWriteItemTypeDef:
        values = {
            "query_id": entry.query_id,
            "kind": entry.kind,
            "name": entry.name,
            "owned_at": entry.owned_at,
        }
        return {
            "Update": {
                "TableName": self._table.name,
                "Key": keys.ledger_key(entry.query_id, entry.kind, entry.name).item(),
                "UpdateExpression": _ADD_TO_LEDGER,
                "ExpressionAttributeNames": names_in(_ADD_TO_LEDGER),
                "ExpressionAttributeValues": values_in((_ADD_TO_LEDGER,), values),
            }
        }

    def _ids(
        self, listing: str, *, status: QueryStatus | None = None, before: QueryId | None = None
    ) -> Iterable[QueryId]:
        """Newest first."""
        for item in self._table.listing(listing, before=before, newest_first=True):
            row = attributes(item)
            if status is None or row.get("status") == status:
                yield QueryId(str(row[schema.LISTING_SORT_ATTRIBUTE]))
