"""Results over HTTP: JSON pages, and files."""

from __future__ import annotations

import msgspec

from coordinator_state.records import QueryRecord, QueryStatus
from crossdock import cleanup
from crossdock.api import documents, limits, tokens
from crossdock.api.head import Head
from crossdock.api.messages import Desk, Export, Exported, PageRead, Part, ReadPage
from crossdock.api.models import Form, ResultPage, ResultPart, ResultParts
from crossdock.api.ports import Caller, Presigner
from crossdock.api.problems import GONE, NO_RESULT, NOT_ENDED, NOT_SUPPORTED, ApiError
from crossdock.api.queries import Queries
from crossdock.api.replies import ask
from crossdock.errors import ObjectNotFound
from crossdock.platform.ports import Objects

_TOO_FAR = (
    f"JSON pages reach {limits.MAX_JSON_ROWS:,} rows; read the result as files: format=parquet"
)


class Results:
    """Reads what queries ended with."""

    def __init__(
        self, queries: Queries, objects: Objects, *, desk: Desk, presigner: Presigner
    ) -> None:
        self._queries = queries
        self._objects = objects
        self._desk = desk
        self._presigner = presigner

    def page(self, caller: Caller, query_id: str, *, size: int, token: str) -> ResultPage:
        """Up to ``size`` rows from where ``token`` says; fewer when they are long."""
        record, head = self._answer(caller, query_id)
        subject = f"rows:{record.query_id}"
        part, row, seen = tokens.read_numbers(token, subject, 3) if token else (0, 0, 0)
        if seen >= limits.MAX_JSON_ROWS:
            raise ApiError(NOT_SUPPORTED, _TOO_FAR)
        read = ask(
            self._desk,
            ReadPage(
                query_id=record.query_id,
                part=part,
                row=row,
                limit=min(size, limits.MAX_JSON_ROWS - seen),
                max_bytes=limits.MAX_PAGE_BYTES,
            ),
            PageRead,
        )
        if read.too_large:
            raise ApiError(
                NOT_SUPPORTED,
                f"row {seen + 1} alone is over {limits.MAX_PAGE_BYTES:,} bytes of JSON; "
                "read the result as files: format=parquet",
            )
        seen += read.count
        more = read.next is not None and seen < record.result_rows
        return ResultPage(
            query_id=record.query_id,
            columns=documents.columns(head),
            rows=msgspec.Raw(read.rows.encode()),
            row_count=record.result_rows,
            next=tokens.write(subject, *read.next, seen) if more and read.next else None,
        )

    def parts(
        self, caller: Caller, query_id: str, *, form: Form, limit: int, token: str
    ) -> ResultParts:
        """Addresses of up to ``limit`` files from where ``token`` says."""
        record, head = self._answer(caller, query_id)
        subject = f"{form}:{record.query_id}"
        first = tokens.read_numbers(token, subject, 1)[0] if token else 0
        if form is Form.ENGINE:
            found = self._own_parts(record, first, limit)
        else:
            export = Export(query_id=record.query_id, format=form, first=first, limit=limit)
            found = ask(self._desk, export, Exported)
        return ResultParts(
            query_id=record.query_id,
            format=form,
            columns=documents.columns(head),
            session=dict(head.session),
            parts=tuple(map(self._part, found.parts)),
            row_count=record.result_rows,
            expires_in=limits.URL_SECONDS,
            next=None if found.next is None else tokens.write(subject, found.next),
        )

    def _answer(self, caller: Caller, query_id: str) -> tuple[QueryRecord, Head]:
        """A query that has a result. Raises ``ApiError`` for any other."""
        record = self._queries.record(caller, query_id)
        if record.status is QueryStatus.RUNNING:
            raise ApiError(
                NOT_ENDED,
                f"wait for it: GET {documents.VERSION}/queries/{query_id}?wait=20",
                retry_after=1.0,
            )
        if record.status is not QueryStatus.SUCCEEDED:
            error = documents.error(record.error)
            raise ApiError(NO_RESULT, f"the query is {record.status}", error=error)
        head = self._queries.head(query_id)
        if head is None:
            raise ApiError(GONE, "run the query again")
        return record, head

    def _own_parts(self, record: QueryRecord, first: int, limit: int) -> Exported:
        try:
            keys = cleanup.result_keys(self._objects, record)
            infos = [self._objects.head(key) for key in keys[first : first + limit]]
        except ObjectNotFound:
            raise ApiError(GONE, "run the query again") from None
        end = first + len(infos)
        return Exported(
            parts=tuple(Part(key=info.key, size=info.size) for info in infos),
            next=end if end < len(keys) else None,
        )

    def _part(self, part: Part) -> ResultPart:
        return ResultPart(
            url=self._presigner.url(part.key, seconds=limits.URL_SECONDS),
            size=part.size,
            rows=part.rows if part.rows >= 0 else None,
        )
