"""Problems told to callers (RFC 9457), and which error or refusal is which problem."""

from __future__ import annotations

from dataclasses import dataclass

from crossdock.api.messages import Refusal, RefusalKind
from crossdock.api.models import ErrorDocument, Problem

_TYPE = "urn:crossdock:problem:"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of problem: the end of its ``type``, its status, its title."""

    name: str
    status: int
    title: str


MALFORMED = Kind("malformed", 400, "The request is malformed")
SQL = Kind("sql", 400, "The statement is refused")
PARAMETERS = Kind("parameters", 400, "The statement's parameters are wrong")
SETTING = Kind("setting", 400, "A setting is wrong")
TABLE = Kind("table", 400, "A table cannot be read")
SCAN_LIMIT = Kind("scan-limit", 400, "The query would read more than allowed")
TOKEN = Kind("page-token", 400, "The page token is not one of ours")
UNAUTHENTICATED = Kind("unauthenticated", 401, "The caller is unknown")
FORBIDDEN = Kind("forbidden", 403, "The query is another caller's")
UNKNOWN_QUERY = Kind("unknown-query", 404, "No such query")
UNKNOWN_TABLE = Kind("unknown-table", 404, "No such table")
UNKNOWN_ROUTE = Kind("unknown-route", 404, "No such address")
TOKEN_CONFLICT = Kind("token-conflict", 409, "The client token was used for another request")
NOT_ENDED = Kind("not-ended", 409, "The query has not ended")
NO_RESULT = Kind("no-result", 409, "The query ended without a result")
GONE = Kind("result-gone", 410, "The result was removed")
TOO_LARGE = Kind("too-large", 413, "The request is too large")
NOT_SUPPORTED = Kind("not-supported", 422, "The result cannot be had in this form")
BUSY = Kind("busy", 429, "Too many queries are open")
INTERNAL = Kind("internal", 500, "An error of ours")
UNAVAILABLE = Kind("unavailable", 503, "A service did not answer")

KINDS = tuple(kind for kind in list(globals().values()) if isinstance(kind, Kind))

_BY_REFUSAL = {
    RefusalKind.SQL: SQL,
    RefusalKind.PARAMETERS: PARAMETERS,
    RefusalKind.SETTING: SETTING,
    RefusalKind.TABLE: TABLE,
    RefusalKind.UNKNOWN_TABLE: UNKNOWN_TABLE,
    RefusalKind.TOKEN_CONFLICT: TOKEN_CONFLICT,
    RefusalKind.SCAN_LIMIT: SCAN_LIMIT,
    RefusalKind.BUSY: BUSY,
    RefusalKind.UNKNOWN_QUERY: UNKNOWN_QUERY,
    RefusalKind.RESULT_GONE: GONE,
    RefusalKind.NOT_SUPPORTED: NOT_SUPPORTED,
}


class ApiError(Exception):
    """Ends a request with a problem; ``retry_after`` in seconds."""

    def __init__(
        self,
        kind: Kind,
        detail: str = "",
        *,
        error: ErrorDocument | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail or kind.title)
        self.kind = kind
        self.retry_after = retry_after
        self.problem = Problem(
            type=_TYPE + kind.name, title=kind.title, status=kind.status, detail=detail, error=error
        )


def of_refusal(refusal: Refusal) -> ApiError:
    return ApiError(_BY_REFUSAL[refusal.kind], refusal.message, retry_after=refusal.retry_after)


def refusal_of(problem: Problem) -> RefusalKind | None:
    """The other way round, for clients; None for a problem that is no refusal."""
    name = problem.type.removeprefix(_TYPE)
    for refusal, kind in _BY_REFUSAL.items():
        if kind.name == name:
            return refusal
    return None
