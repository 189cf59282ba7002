"""Verbs on what no single query owns: the pool of queues, client tokens, written tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from coordinator_state import rulings
from coordinator_state.records import QueueLease, TableChange, TableRecord, TokenRecord
from coordinator_state.sqlite import rows
from coordinator_state.sqlite.database import Database

_decode_lease = msgspec.msgpack.Decoder(QueueLease).decode
_decode_token = msgspec.msgpack.Decoder(TokenRecord).decode


class SharedVerbs:
    _database: Database

    def lease_queue(self, lease: QueueLease) -> QueueLease:
        with self._database.write() as cx:
            standing = _find_lease(cx, lease.queue)
            if standing is not None and standing.holder != lease.holder:
                return standing
            cx.execute(
                "INSERT OR REPLACE INTO leases (queue, record) VALUES (?, ?)",
                (lease.queue, rows.encode(lease)),
            )
        return lease

    def return_queue(self, queue: str, holder: str) -> None:
        with self._database.write() as cx:
            standing = _find_lease(cx, queue)
            if standing is not None and standing.holder == holder:
                cx.execute("DELETE FROM leases WHERE queue = ?", (queue,))

    def queue_leases(self) -> Sequence[QueueLease]:
        with self._database.read() as cx:
            found = cx.execute("SELECT record FROM leases ORDER BY queue").fetchall()
            return [_decode_lease(row[0]) for row in found]

    def claim_token(self, record: TokenRecord, *, now: float) -> TokenRecord:
        with self._database.write() as cx:
            cx.execute("DELETE FROM tokens WHERE expires_at <= ?", (now,))
            standing = _find_token(cx, record.token)
            if standing is not None:
                return standing
            cx.execute(
                "INSERT INTO tokens (token, expires_at, record) VALUES (?, ?, ?)",
                (record.token, record.expires_at, rows.encode(record)),
            )
        return record

    def find_token(self, token: str, *, now: float) -> TokenRecord | None:
        with self._database.read() as cx:
            record = _find_token(cx, token)
            return None if record is None or record.expires_at <= now else record

    def tables(self) -> Sequence[TableRecord]:
        with self._database.read() as cx:
            return rows.get_tables(cx)

    def find_table(self, name: str) -> TableRecord | None:
        with self._database.read() as cx:
            return rows.find_table(cx, name)

    def change_table(self, change: TableChange) -> None:
        with self._database.write() as cx:
            rulings.require_unmoved(change, rows.find_table(cx, change.record.name))
            rows.put_table(cx, change.record)

    def forget_table(self, name: str) -> None:
        with self._database.write() as cx:
            standing = rows.find_table(cx, name)
            if standing is not None and not standing.manifest:
                cx.execute("DELETE FROM tables WHERE name = ?", (name.lower(),))


def _find_lease(cx: sqlite3.Connection, queue: str) -> QueueLease | None:
    row = cx.execute("SELECT record FROM leases WHERE queue = ?", (queue,)).fetchone()
    return None if row is None else _decode_lease(row[0])


def _find_token(cx: sqlite3.Connection, token: str) -> TokenRecord | None:
    row = cx.execute("SELECT record FROM tokens WHERE token = ?", (token,)).fetchone()
    return None if row is None else _decode_token(row[0])
