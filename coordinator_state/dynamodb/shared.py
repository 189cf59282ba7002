"""Verbs on what no single query owns: the pool of queues, client tokens, written tables."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator_state import conditions, rulings, schema
from coordinator_state.dynamodb.items import decode, encode
from coordinator_state.dynamodb.table import ConditionFailed, Key, Table
from coordinator_state.errors import StoreUnavailable
from coordinator_state.records import QueueLease, TableChange, TableRecord, TokenRecord


class SharedVerbs:
    _table: Table

    def lease_queue(self, lease: QueueLease) -> QueueLease:
        key = Key(schema.POOL_PARTITION, lease.queue)
        try:
            self._table.put(key, conditions.LEASE_QUEUE, encode(lease), {"holder": lease.holder})
        except ConditionFailed as refusal:
            if refusal.item is None:
                raise StoreUnavailable(f"the lease of queue {lease.queue} moves too fast") from None
            return decode(refusal.item, QueueLease)
        return lease

    def return_queue(self, queue: str, holder: str) -> None:
        try:
            self._table.delete(
                Key(schema.POOL_PARTITION, queue), conditions.RETURN_QUEUE, {"holder": holder}
            )
        except ConditionFailed:
            return  # returned before, and perhaps leased to another

    def queue_leases(self) -> Sequence[QueueLease]:
        items = self._table.partition(schema.POOL_PARTITION)
        return [decode(item, QueueLease) for item in items]

    def claim_token(self, record: TokenRecord, *, now: float) -> TokenRecord:
        try:
            self._table.put(
                _token_key(record.token), conditions.CLAIM_TOKEN, encode(record), {"now": now}
            )
        except ConditionFailed as refusal:
            if refusal.item is None:
                raise StoreUnavailable(f"token {record.token} moves too fast") from None
            return decode(refusal.item, TokenRecord)
        return record

    def find_token(self, token: str, *, now: float) -> TokenRecord | None:
        item = self._table.get(_token_key(token))
        record = None if item is None else decode(item, TokenRecord)
        return None if record is None or record.expires_at <= now else record

    def tables(self) -> Sequence[TableRecord]:
        items = self._table.partition(schema.TABLES_PARTITION)
        return [decode(item, TableRecord) for item in items]

    def find_table(self, name: str) -> TableRecord | None:
        item = self._table.get(table_key(name))
        return None if item is None else decode(item, TableRecord)

    def change_table(self, change: TableChange) -> None:
        try:
            self._table.put(
                table_key(change.record.name),
                table_condition(change),
                encode(change.record),
                {"expected": change.expected},
            )
        except ConditionFailed as refusal:
            standing = None if refusal.item is None else decode(refusal.item, TableRecord)
            if standing != change.record:  # else it had landed, only its answer was lost
                rulings.require_unmoved(change, standing)

    def forget_table(self, name: str) -> None:
        try:
            self._table.delete(table_key(name), conditions.FORGET_TABLE)
        except ConditionFailed:
            return  # gone, or made again


def table_key(name: str) -> Key:
    return Key(schema.TABLES_PARTITION, name.lower())


def table_condition(change: TableChange) -> str:
    return conditions.CHANGE_TABLE if change.expected else conditions.CREATE_TABLE


def _token_key(token: str) -> Key:
    return Key(schema.token_partition(token), schema.TOKEN_SORT)
