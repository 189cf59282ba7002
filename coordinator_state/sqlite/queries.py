"""Verbs on queries, their turns, their ends and their ledger."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from coordinator_state import changes, rulings
from coordinator_state.errors import AlreadyExists
from coordinator_state.ids import QueryId
from coordinator_state.records import (
    ErrorRecord,
    LedgerEntry,
    LedgerKind,
    QueryRecord,
    QueryStatus,
    StageRecord,
    TableChange,
)
from coordinator_state.schema import LISTING_CLOSED, LISTING_OPEN, LISTING_PURGED
from coordinator_state.sqlite import rows
from coordinator_state.sqlite.database import Database


class QueryVerbs:
    _database: Database

    def create_query(self, query: QueryRecord, stages: Sequence[StageRecord]) -> QueryRecord:
        query = changes.new_query(query)
        with self._database.write() as cx:
            existing = rows.find_query(cx, query.query_id)
            if existing is not None:
                raise AlreadyExists(f"query {query.query_id} exists", current=existing)
            _expire(cx, now=query.created_at)
            rows.insert_stages(cx, stages)
            for stage in stages:
                rows.insert_tasks(cx, changes.new_tasks(query, stage))
            rows.insert_query(cx, query)
        return query

    def get_query(self, query_id: QueryId) -> QueryRecord:
        with self._database.read() as cx:
            return rows.get_query(cx, query_id)

    def list_queries(
        self, *, status: QueryStatus | None = None, limit: int = 100, before: QueryId | None = None
    ) -> Sequence[QueryRecord]:
        with self._database.read() as cx:
            return rows.decode_queries(
                cx.execute(
                    "SELECT record FROM queries WHERE (:status IS NULL OR status = :status)"
                    " AND (:before IS NULL OR query_id < :before)"
                    " ORDER BY query_id DESC LIMIT :limit",
                    {"status": status, "before": before, "limit": limit},
                ).fetchall()
            )

    def open_queries(self) -> Sequence[QueryId]:
        with self._database.read() as cx:
            return rows.listed(cx, LISTING_OPEN)

    def unpurged_queries(self) -> Sequence[QueryId]:
        with self._database.read() as cx:
            return rows.listed(cx, LISTING_CLOSED)

    def drop_drafts(self, *, before: float) -> int:
        """Always 0: here a query is created in one transaction, so no draft can be left."""
        return 0

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
        with self._database.write() as cx:
            query = rows.get_query(cx, query_id)
            if not rulings.may_end(query, committer=committer):
                return query
            if table is not None:
                rulings.require_unmoved(table, rows.find_table(cx, table.record.name))
                rows.put_table(cx, table.record)
            return rows.change_query(cx, query, end)

    def begin_commit(self, query_id: QueryId) -> QueryRecord:
        with self._database.write() as cx:
            query = rows.get_query(cx, query_id)
            if not rulings.may_end(query, committer=False):
                return query
            return rows.change_query(cx, query, changes.COMMIT_BEGUN)

    def mark_swept(self, query_id: QueryId) -> None:
        with self._database.write() as cx:
            query = rows.get_query(cx, query_id)
            rulings.require_ended("mark_swept", query)
            rows.change_query(cx, query, changes.SWEPT)

    def close_query(self, query_id: QueryId, *, expires_at: float | None) -> None:
        with self._database.write() as cx:
            query = rows.get_query(cx, query_id)
            rulings.require_closable(query)
            rows.change_query(cx, query, changes.CLOSED)
            cx.execute(
                "UPDATE queries SET expires_at = ? WHERE query_id = ?", (expires_at, query_id)
            )

    def purge_query(self, query_id: QueryId) -> None:
        with self._database.write() as cx:
            query = rows.get_query(cx, query_id)
            rulings.require_closed("purge_query", query)
            for table in ("tasks", "stages", "workers", "ledger"):
                cx.execute(f"DELETE FROM {table} WHERE query_id = ?", (query_id,))
            rows.change_query(cx, query, changes.PURGED)

    def forget_query(self, query_id: QueryId) -> None:
        with self._database.write() as cx:
            query = rows.find_query(cx, query_id)
            if query is None:
                return
            rulings.require_purged(query)
            cx.execute("DELETE FROM queries WHERE query_id = ?", (query_id,))

    # -- the turn --------------------------------------------------------------------------------
    def begin_turn(
        self, query_id: QueryId, holder: str, *, now: float, until: float
    ) -> QueryRecord | None:
        with self._database.write() as cx:
            query = rows.get_query(cx, query_id)
            if rulings.turn_is_free(query, holder, now=now):
                return rows.change_query(cx, query, changes.turn_begun(holder, until=until))
            rows.change_query(cx, query, changes.KNOCKED)
            return None

    def end_turn(
        self, query_id: QueryId, holder: str, *, wake: int, usage: Mapping[str, int] | None = None
    ) -> bool:
        with self._database.write() as cx:
            query = rows.get_query(cx, query_id)
            released = rulings.turn_released(query, holder, wake=wake)
            if released is None:
                rows.change_query(cx, query, changes.turn_ended(usage or {}))
                return True
            return released

    def advance_tick(self, query_id: QueryId, *, expected: int) -> bool:
        with self._database.write() as cx:
            query = rows.get_query(cx, query_id)
            if query.tick != expected:
                return False
            rows.change_query(cx, query, changes.TICKED)
            return True

    # -- ledger ----------------------------------------------------------------------------------
    def own(self, entries: Sequence[LedgerEntry]) -> None:
        with self._database.write() as cx:
            for query_id in {entry.query_id for entry in entries}:
                rulings.require_running(rows.get_query(cx, query_id))
            cx.executemany(
                "INSERT INTO ledger (query_id, kind, name, owned_at) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                [(e.query_id, e.kind, e.name, e.owned_at) for e in entries],
            )

    def release(self, query_id: QueryId, kind: LedgerKind, name: str) -> None:
        with self._database.write() as cx:
            cx.execute(
                "DELETE FROM ledger WHERE query_id = ? AND kind = ? AND name = ?",
                (query_id, kind, name),
            )

    def owned(self, query_id: QueryId) -> Sequence[LedgerEntry]:
        with self._database.read() as cx:
            rows.get_query(cx, query_id)
            found = cx.execute(
                "SELECT kind, name, owned_at FROM ledger WHERE query_id = ? ORDER BY kind, name",
                (query_id,),
            )
            return [
                LedgerEntry(query_id=query_id, kind=LedgerKind(kind), name=name, owned_at=owned_at)
                for kind, name, owned_at in found
            ]


def _expire(cx: sqlite3.Connection, *, now: float) -> None:
    """What the TTL of a hosted table does: forget purged queries whose time has passed."""
    cx.execute("DELETE FROM queries WHERE listing = ? AND expires_at < ?", (LISTING_PURGED, now))
