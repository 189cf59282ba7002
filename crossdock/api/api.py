"""Requests in, answers out: what lies between the gateway's events and what the API does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from coordinator_state.errors import StoreUnavailable
from crossdock.api import limits, problems
from crossdock.api.messages import (
    Describe,
    Desk,
    Done,
    DropTable,
    Explain,
    Explained,
    ListTables,
    PutTable,
    TableDescription,
    TableList,
)
from crossdock.api.models import (
    ExplainBody,
    ExplainDocument,
    Form,
    ListQuery,
    ResultQuery,
    SubmitBody,
    TableBody,
    TableDocument,
    TableListing,
    TableListings,
    WaitQuery,
)
from crossdock.api.ports import Caller
from crossdock.api.problems import ApiError
from crossdock.api.queries import Queries
from crossdock.api.replies import ask
from crossdock.api.results import Results
from crossdock.api.routes import Route
from crossdock.errors import PlatformUnavailable

JSON = "application/json"
PROBLEM = "application/problem+json"
S = TypeVar("S", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of a route; ``parameters`` are those of its path, decoded."""

    caller: Caller | None
    parameters: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


class Api:
    """Every route's behaviour."""

    def __init__(self, queries: Queries, results: Results, desk: Desk) -> None:
        self._queries = queries
        self._results = results
        self._desk = desk

    def answer(self, route: Route, request: Request) -> Response:
        """The answer, or the problem. What is our own fault is raised."""
        try:
            if request.caller is None:
                raise ApiError(problems.UNAUTHENTICATED, "sign the request, or send a token")
            document = self._routed(route.name, request.caller, request)
        except ApiError as error:
            return refused(error)
        except (StoreUnavailable, PlatformUnavailable) as error:
            return refused(
                ApiError(problems.UNAVAILABLE, str(error), retry_after=limits.RETRY_AFTER_SECONDS)
            )
        if document is None:
            return Response(status=route.status)
        return Response(status=route.status, body=msgspec.json.encode(document))

    def _routed(self, name: str, caller: Caller, request: Request) -> msgspec.Struct | None:
        """``match`` and not a table of methods: each case shows what it takes."""
        query_id, table = request.parameters.get("query_id", ""), request.parameters.get("name", "")
        match name:
            case "submit":
                return self._queries.submit(caller, _statement(_body(request, SubmitBody)))
            case "list":
                listing = _query(request, ListQuery)
                return self._queries.list(
                    caller,
                    status=listing.status or None,
                    limit=listing.limit,
                    token=listing.token,
                )
            case "get":
                return self._queries.get(caller, query_id, wait=_query(request, WaitQuery).wait)
            case "cancel":
                return self._queries.cancel(caller, query_id)
            case "results":
                return self._result(caller, query_id, _query(request, ResultQuery))
            case "explain":
                return self._explain(_statement(_body(request, ExplainBody)))
        return self._table(name, table, request)

    def _result(self, caller: Caller, query_id: str, wanted: ResultQuery) -> msgspec.Struct:
        if wanted.format is Form.JSON:
            size = wanted.limit or limits.DEFAULT_PAGE_ROWS
            return self._results.page(caller, query_id, size=size, token=wanted.token)
        limit = wanted.limit or limits.DEFAULT_PARTS
        if limit > limits.MAX_PARTS:
            raise ApiError(problems.MALFORMED, f"limit: at most {limits.MAX_PARTS} files")
        return self._results.parts(
            caller, query_id, form=wanted.format, limit=limit, token=wanted.token
        )

    def _explain(self, body: ExplainBody) -> ExplainDocument:
        action = Explain(sql=body.sql, parameters=body.parameters, settings=dict(body.settings))
        explained = ask(self._desk, action, Explained)
        return ExplainDocument(text=explained.text, plan=explained.plan)

    def _table(self, route: str, name: str, request: Request) -> msgspec.Struct | None:
        if len(name) > limits.MAX_NAME_CHARS:
            raise ApiError(problems.MALFORMED, f"a name has {limits.MAX_NAME_CHARS} characters")
        if route == "tables":
            found = ask(self._desk, ListTables(), TableList)
            return TableListings(
                tables=tuple(TableListing(name=t.name, sources=t.sources) for t in found.tables)
            )
        if route == "drop_table":
            ask(self._desk, DropTable(name=name), Done)
            return None
        action: Describe | PutTable = Describe(name=name)
        if route == "put_table":
            body = _body(request, TableBody)
            action = PutTable(
                name=name,
                sources=tuple(body.sources),
                format=body.format,
                options=body.options,
            )
        described = ask(self._desk, action, TableDescription)
        return TableDocument(**msgspec.structs.asdict(described))


def refused(error: ApiError) -> Response:
    """A problem's answer."""
    after = error.retry_after
    return Response(
        status=error.kind.status,
        body=msgspec.json.encode(error.problem),
        content_type=PROBLEM,
        headers={} if after is None else {"Retry-After": str(math.ceil(after))},
    )


def _body(request: Request, type: type[S]) -> S:
    if len(request.body) > limits.MAX_BODY_BYTES:
        raise ApiError(
            problems.TOO_LARGE, f"a request body has {limits.MAX_BODY_BYTES:,} bytes at most"
        )
    try:
        return msgspec.json.decode(request.body, type=type)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ApiError(problems.MALFORMED, f"body: {error}") from error


def _query(request: Request, type: type[S]) -> S:
    try:
        return msgspec.convert(dict(request.query), type, strict=False)
    except msgspec.ValidationError as error:
        raise ApiError(problems.MALFORMED, f"query string: {error}") from error


B = TypeVar("B", SubmitBody, ExplainBody)


def _statement(body: B) -> B:
    """The body, once it is known to be short enough."""
    if len(body.sql) > limits.MAX_SQL_CHARS:
        raise ApiError(
            problems.TOO_LARGE, f"a statement has {limits.MAX_SQL_CHARS:,} characters at most"
        )
    if len(body.parameters or ()) > limits.MAX_PARAMETERS:
        raise ApiError(problems.TOO_LARGE, f"{limits.MAX_PARAMETERS:,} parameters at most")
    return body
