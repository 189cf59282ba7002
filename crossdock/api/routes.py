"""The API's routes: one table that the handler serves and the description lists."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from crossdock.api import problems
from crossdock.api.documents import VERSION
from crossdock.api.models import (
    ExplainBody,
    ExplainDocument,
    ListQuery,
    NoQuery,
    QueryDocument,
    QueryList,
    ResultPage,
    ResultParts,
    ResultQuery,
    SubmitBody,
    TableBody,
    TableDocument,
    TableListings,
    WaitQuery,
)
from crossdock.api.problems import Kind

#: Any request may end with one of these.
COMMON = (
    problems.MALFORMED,
    problems.UNAUTHENTICATED,
    problems.INTERNAL,
    problems.UNAVAILABLE,
)
_PLANNING = (
    problems.SQL,
    problems.PARAMETERS,
    problems.SETTING,
    problems.TABLE,
    problems.TOO_LARGE,
)
_QUERY = (problems.FORBIDDEN, problems.UNKNOWN_QUERY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One operation; ``name`` is its method of ``Api`` too."""

    name: str
    method: str
    path: str  # below the version, parameters in braces
    summary: str
    answers: tuple[type[msgspec.Struct], ...] = ()  # one of these; none: no body
    status: int = 200
    query: type[msgspec.Struct] = NoQuery
    body: type[msgspec.Struct] | None = None
    problems: tuple[Kind, ...] = ()
    parameters: tuple[str, ...] = field(default=())

    @property
    def template(self) -> str:
        return VERSION + self.path


ROUTES = (
    Route(
        name="submit",
        method="POST",
        path="/queries",
        summary="Start a query",
        body=SubmitBody,
        answers=(QueryDocument,),
        status=202,
        problems=(*_PLANNING, problems.SCAN_LIMIT, problems.TOKEN_CONFLICT, problems.BUSY),
    ),
    Route(
        name="list",
        method="GET",
        path="/queries",
        summary="Queries, newest first",
        query=ListQuery,
        answers=(QueryList,),
        problems=(problems.TOKEN,),
    ),
    Route(
        name="get",
        method="GET",
        path="/queries/{query_id}",
        summary="A query as it stands, or as it ended",
        query=WaitQuery,
        answers=(QueryDocument,),
        problems=_QUERY,
        parameters=("query_id",),
    ),
    Route(
        name="cancel",
        method="DELETE",
        path="/queries/{query_id}",
        summary="Cancel a query; one that has ended stays as it is",
        answers=(QueryDocument,),
        problems=_QUERY,
        parameters=("query_id",),
    ),
    Route(
        name="results",
        method="GET",
        path="/queries/{query_id}/results",
        summary="Rows of a query that succeeded, or addresses of files that hold them",
        query=ResultQuery,
        answers=(ResultPage, ResultParts),
        problems=(
            *_QUERY,
            problems.TOKEN,
            problems.NOT_ENDED,
            problems.NO_RESULT,
            problems.GONE,
            problems.NOT_SUPPORTED,
        ),
        parameters=("query_id",),
    ),
    Route(
        name="explain",
        method="POST",
        path="/explain",
        summary="The plan of a query, which is not run",
        body=ExplainBody,
        answers=(ExplainDocument,),
        problems=(*_PLANNING, problems.NOT_SUPPORTED),
    ),
    Route(
        name="tables",
        method="GET",
        path="/tables",
        summary="Named tables",
        answers=(TableListings,),
        problems=(problems.NOT_SUPPORTED,),
    ),
    Route(
        name="table",
        method="GET",
        path="/tables/{name}",
        summary="A table's columns and size, as its files are now",
        answers=(TableDocument,),
        problems=(problems.TABLE, problems.UNKNOWN_TABLE),
        parameters=("name",),
    ),
    Route(
        name="put_table",
        method="PUT",
        path="/tables/{name}",
        summary="Name files, or rename what a name stands for",
        body=TableBody,
        answers=(TableDocument,),
        problems=(problems.TABLE, problems.TOO_LARGE, problems.UNKNOWN_ROUTE),
        parameters=("name",),
    ),
    Route(
        name="drop_table",
        method="DELETE",
        path="/tables/{name}",
        summary="Forget a name; its files stay",
        status=204,
        problems=(problems.UNKNOWN_TABLE,),
        parameters=("name",),
    ),
)
