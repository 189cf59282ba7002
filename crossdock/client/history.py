"""Queries that were run, wherever that was: list, look, cancel."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from coordinator_state.ids import QueryId
from coordinator_state.records import ErrorRecord, QueryRecord
from crossdock.receipt import Receipt, of_summary

if TYPE_CHECKING:
    from crossdock.api.models import QueryDocument
    from crossdock.client.http import HttpApi
    from crossdock.local import LocalPlatform


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One query of a listing."""

    query_id: str
    status: str
    began: datetime.datetime  # UTC
    seconds: float | None  # None: it runs
    rows: int
    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One query, looked at."""

    status: str
    sql: str
    error: tuple[str, str] | None  # kind and message
    receipt: Receipt


class History(Protocol):
    """Queries of a home folder, or of a deployment's caller."""

    def list(self, limit: int) -> Sequence[Entry]:
        """Newest first."""
        ...

    def show(self, query_id: str) -> Account:
        """Raises when nothing is known of it."""
        ...

    def cancel(self, query_id: str) -> str:
        """End it, unless it has ended; its status."""
        ...

    def close(self) -> None: ...


class LocalHistory:
    """Of a home folder."""

    def __init__(self, platform: LocalPlatform) -> None:
        self._platform = platform

    def list(self, limit: int) -> Sequence[Entry]:
        return [_entry_of_record(record) for record in self._platform.queries(limit)]

    def show(self, query_id: str) -> Account:
        summary = self._platform.progress(QueryId(query_id))
        seconds = (summary.ended_at or summary.created_at) - summary.created_at
        return Account(
            status=summary.status.value,
            sql=summary.sql,
            error=_error(summary.error),
            receipt=of_summary(summary, labels=(), seconds=seconds),
        )

    def cancel(self, query_id: str) -> str:
        return self._platform.cancel(QueryId(query_id)).status.value

    def close(self) -> None:
        self._platform.close()


class RemoteHistory:
    """Of a deployment, as far as its caller may see."""

    def __init__(self, api: HttpApi) -> None:
        self._api = api

    def list(self, limit: int) -> Sequence[Entry]:
        from crossdock.api.limits import MAX_LISTED
        from crossdock.api.models import QueryList

        found: list[Entry] = []
        query: dict[str, object] = {}
        while len(found) < limit:
            query["limit"] = min(MAX_LISTED, limit - len(found))
            page = self._api.call("GET", "/queries", QueryList, query=query)
            found += map(_entry_of_document, page.queries)
            if page.next is None:
                break
            query["token"] = page.next
        return found

    def show(self, query_id: str) -> Account:
        from crossdock.client.documents import receipt_of

        document = self._document("GET", query_id)
        error = document.error
        return Account(
            status=document.status.value,
            sql=document.sql,
            error=None if error is None else (error.kind, error.message),
            receipt=receipt_of(document, seconds=document.seconds),
        )

    def cancel(self, query_id: str) -> str:
        return self._document("DELETE", query_id).status.value

    def close(self) -> None:
        self._api.close()

    def _document(self, method: str, query_id: str) -> QueryDocument:
        from crossdock.api.models import QueryDocument
        from crossdock.client.http import quoted

        return self._api.call(method, f"/queries/{quoted(query_id)}", QueryDocument)


def _entry_of_record(record: QueryRecord) -> Entry:
    ended = record.ended_at
    return Entry(
        query_id=record.query_id,
        status=record.status.value,
        began=datetime.datetime.fromtimestamp(record.created_at, datetime.UTC),
        seconds=None if ended is None else ended - record.created_at,
        rows=record.result_rows,
        sql=record.sql,
    )


def _entry_of_document(document: QueryDocument) -> Entry:
    return Entry(
        query_id=document.query_id,
        status=document.status.value,
        began=datetime.datetime.fromisoformat(document.created_at),
        seconds=document.seconds if document.ended_at else None,
        rows=document.rows or 0,
        sql=document.sql,
    )


def _error(record: ErrorRecord | None) -> tuple[str, str] | None:
    return None if record is None else (record.kind, record.message)
