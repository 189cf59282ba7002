"""Queries over HTTP: submit, look, wait, list, cancel."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from coordinator_state.errors import NotFound
from coordinator_state.ids import QueryId
from coordinator_state.records import CANCELLED, QueryRecord, QueryStatus, StageStatus
from coordinator_state.store import StateStore
from crossdock import summary
from crossdock.api import documents, head, limits, tokens
from crossdock.api.head import UNKNOWN, Head
from crossdock.api.messages import Desk, Submit, Submitted
from crossdock.api.models import QueryDocument, QueryList, StageDocument, SubmitBody
from crossdock.api.ports import Caller, Others
from crossdock.api.problems import FORBIDDEN, UNKNOWN_QUERY, ApiError
from crossdock.api.replies import ask
from crossdock.platform.ports import Clock, Control, Objects

#: Pauses between two looks of a waiting call, in seconds; each doubles the one before.
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 0.5
#: Records read per listed one at most, while those of other callers are passed over.
_PASSED_OVER = 20


class Queries:
    """What callers may do with queries; each sees what ``others`` lets them."""

    def __init__(
        self,
        store: StateStore,
        objects: Objects,
        *,
        desk: Desk,
        control: Control,
        clock: Clock,
        others: Others = Others.HIDDEN,
    ) -> None:
        self._store = store
        self._objects = objects
        self._desk = desk
        self._control = control
        self._clock = clock
        self._others = others
        self._heads: dict[str, Head] = {}  # they never change

    def submit(self, caller: Caller, body: SubmitBody) -> QueryDocument:
        """Start it; the same client token of one caller starts it once."""
        submitted = ask(
            self._desk,
            Submit(
                sql=body.sql,
                parameters=body.parameters,
                client_token=body.client_token,
                settings=dict(body.settings),
                timeout_seconds=body.timeout_seconds,
                max_scanned_bytes=body.max_scanned_bytes,
                owner=caller.owner,
            ),
            Submitted,
        )
        return self.brief(self.record(caller, submitted.query_id))

    def get(self, caller: Caller, query_id: str, *, wait: float = 0.0) -> QueryDocument:
        """As it stands once it has ended, or after ``wait`` seconds."""
        record = self.record(caller, query_id)
        until = self._clock.now() + wait
        pause = _FIRST_PAUSE
        while record.status is QueryStatus.RUNNING and (left := until - self._clock.now()) > 0:
            self._clock.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
            record = self.record(caller, query_id)
        return self._whole(record)

    def cancel(self, caller: Caller, query_id: str) -> QueryDocument:
        """End it, unless it has ended: cancelling again changes nothing and is no error."""
        record = self.record(caller, query_id)
        if record.status is QueryStatus.RUNNING:
            record = self._store.end_query(
                record.query_id, QueryStatus.CANCELLED, now=self._clock.now(), error=CANCELLED
            )
            self._control.notify(record.query_id)
        return self.brief(record)

    def list(
        self, caller: Caller, *, status: QueryStatus | None, limit: int, token: str
    ) -> QueryList:
        """Newest first."""
        subject = f"queries:{status or ''}"
        before = QueryId(tokens.read_text(token, subject)) if token else None
        found: list[QueryRecord] = []
        ended = False
        for _ in range(_PASSED_OVER):
            records = self._store.list_queries(status=status, limit=limit, before=before)
            ended = not records
            for record in records:
                before = record.query_id
                if self._sees(caller, record) and status in (None, record.status):
                    found.append(record)
                if len(found) == limit:
                    break
            if ended or len(found) == limit:
                break
        now = self._clock.now()
        return QueryList(
            queries=tuple(documents.query(record, UNKNOWN, now=now) for record in found),
            next=None if ended or before is None else tokens.write(subject, before),
        )

    def record(self, caller: Caller, query_id: str) -> QueryRecord:
        """Raises ``ApiError`` for a query that is not there, or that the caller may not see."""
        try:
            record = self._store.get_query(QueryId(query_id))
        except NotFound:
            raise ApiError(UNKNOWN_QUERY, _no_query(query_id)) from None
        if self._sees(caller, record):
            return record
        if self._others is Others.REFUSED:
            raise ApiError(FORBIDDEN, f"query {query_id} was not submitted by you")
        raise ApiError(UNKNOWN_QUERY, _no_query(query_id))

    def head(self, query_id: str) -> Head | None:
        """Kept in this process: it is asked for with every look."""
        known = self._heads.get(query_id)
        if known is None:
            known = head.read(self._objects, query_id)
            if known is not None:
                if len(self._heads) >= limits.MAX_LISTED:
                    self._heads.clear()
                self._heads[query_id] = known
        return known

    def brief(self, record: QueryRecord) -> QueryDocument:
        known = self.head(record.query_id) or UNKNOWN
        return documents.query(record, known, now=self._clock.now())

    def _sees(self, caller: Caller, record: QueryRecord) -> bool:
        return self._others is Others.SHARED or record.owner == caller.owner

    def _whole(self, record: QueryRecord) -> QueryDocument:
        """With stages, and the receipt of an ended query."""
        known = self.head(record.query_id) or UNKNOWN
        if not record.closed:
            try:
                document = self._open(record, known)
                if record.status is QueryStatus.RUNNING:
                    return document
            except NotFound:
                document = None
            # One that closed meanwhile lost its items one after the other: then its receipt counts.
            record = self._store.get_query(record.query_id)
            if document is not None and not record.closed:
                return document
        document = documents.query(record, known, now=self._clock.now())
        try:
            account = summary.recall(self._store, self._objects, record.query_id)
        except NotFound:  # the receipt's time is over
            return document
        return msgspec.structs.replace(
            document,
            stages=documents.closed_stages(account, known.labels),
            receipt=documents.receipt(account, known.labels),
        )

    def _open(self, record: QueryRecord, known: Head) -> QueryDocument:
        document = documents.query(record, known, now=self._clock.now())
        stages = self._stages(record.query_id, known.labels)
        if record.status is QueryStatus.RUNNING:
            return msgspec.structs.replace(document, stages=stages)
        account = summary.collect(self._store, record, {})
        return msgspec.structs.replace(
            document, stages=stages, receipt=documents.receipt(account, known.labels)
        )

    def _stages(self, query_id: QueryId, labels: Sequence[str]) -> tuple[StageDocument, ...]:
        stages = self._store.stages(query_id)
        tasks = {
            stage.stage: self._store.tasks(query_id, stage.stage)
            for stage in stages
            if stage.status is not StageStatus.WAITING
        }
        return documents.running_stages(stages, {int(s): t for s, t in tasks.items()}, labels)


def _no_query(query_id: str) -> str:
    return f"no query {query_id[:100]} is known; it may have been removed"
