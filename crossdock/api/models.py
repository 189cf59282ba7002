"""Bodies of requests and answers. The OpenAPI document is made from these types."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from coordinator_state.records import QueryStatus
from crossdock.api import limits
from crossdock.api.messages import Column, OptionValue, Parameters


class _Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request body: a misspelt field is an error, not ignored."""


class _Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer leaves out what has its default."""


Sql = Annotated[
    str,
    Meta(
        min_length=1,
        description="One statement in DuckDB's dialect: a query, or one that writes.",
        extra_json_schema={"maxLength": limits.MAX_SQL_CHARS},  # answered by 413, not 400
    ),
]
SqlParameters = Annotated[
    Parameters,
    Meta(description="An array for `?` and `$1`, an object for `$name`; cast texts in the SQL."),
]
SettingValues = Annotated[
    dict[str, str | int | float | bool | None],
    Meta(description="Of `exchange`, `partitions`, `workers`, `single_task_bytes`, "
         "`broadcast_bytes`, `max_attempts`, `timezone`."),
]  # fmt: skip


PageToken = Annotated[
    str, Meta(max_length=1_000, description="`next` of the answer before; none for the first.")
]


class Form(StrEnum):
    """What a result is read as."""

    JSON = "json"
    PARQUET = "parquet"
    ARROW = "arrow"
    CSV = "csv"
    ENGINE = "engine"


class SubmitBody(_Body, frozen=True, kw_only=True):
    """A query to run."""

    sql: Sql
    parameters: SqlParameters = None
    client_token: Annotated[
        str,
        Meta(
            max_length=limits.MAX_TOKEN_CHARS,
            description="Of the caller's making: the same token gives the same query.",
        ),
    ] = ""
    settings: SettingValues = {}
    timeout_seconds: (
        Annotated[float, Meta(gt=0, le=limits.MAX_TIMEOUT_SECONDS)] | None
    ) = None  # fmt: skip
    max_scanned_bytes: (
        Annotated[int, Meta(ge=0, description="A query that would read more is refused.")] | None
    ) = None


class ExplainBody(_Body, frozen=True, kw_only=True):
    """A query to plan and not to run."""

    sql: Sql
    parameters: SqlParameters = None
    settings: SettingValues = {}


class TableBody(_Body, frozen=True, kw_only=True):
    """Where a table's files are, and how to read them."""

    sources: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=2_000)]],
        Meta(
            min_length=1,
            max_length=limits.MAX_SOURCES,
            description="Files, globs and folders (`s3://bucket/prefix/`).",
        ),
    ]
    format: Annotated[
        Literal["parquet", "csv", "json", "iceberg"] | None,
        Meta(description="Where the files' names do not say it, or a folder holds several."),
    ] = None
    options: Annotated[
        dict[str, OptionValue],
        Meta(max_length=50, description="Of DuckDB's reader of CSV or JSON: `delim`, `header`."),
    ] = {}


class NoQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An address without ``?``."""


class WaitQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    wait: Annotated[
        float,
        Meta(
            ge=0,
            le=limits.MAX_WAIT_SECONDS,
            description="Seconds to wait for the query's end before answering.",
        ),
    ] = 0.0


class ListQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: QueryStatus | UnsetType = UNSET  # not None: the text "null" is no value
    limit: Annotated[int, Meta(ge=1, le=limits.MAX_LISTED)] = limits.DEFAULT_LISTED
    token: PageToken = ""


class ResultQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Annotated[
        Form,
        Meta(
            description="`json`: a page of rows. `parquet`, `arrow`, `csv`: presigned addresses of "
            "files; in Parquet, types it has not are text. `engine`: the engine's own Parquet "
            "objects, columns c0, c1, ... in carrier types."
        ),
    ] = Form.JSON
    limit: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=limits.MAX_PAGE_ROWS,
                description=f"Rows of a page (default {limits.DEFAULT_PAGE_ROWS}), or files of an "
                f"answer (default {limits.DEFAULT_PARTS}, at most {limits.MAX_PARTS}).",
            ),
        ]
        | UnsetType
    ) = UNSET
    token: PageToken = ""


class Links(_Answer, frozen=True, kw_only=True):
    """Addresses of the query, relative to the API's."""

    self: str
    results: str


class StageDocument(_Answer, frozen=True, kw_only=True):
    """One stage; rows, bytes and seconds are sums over its committed tasks."""

    stage: int
    label: str = ""
    status: str
    tasks: int
    committed: int = 0
    running: int = 0
    attempts: int = 0
    failures: int = 0
    rows_in: int = 0
    bytes_in: int = 0
    rows_out: int = 0
    bytes_out: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    peak_memory: int = 0


class CostDocument(_Answer, frozen=True, kw_only=True):
    """Dollars by published list prices."""

    total: float
    region: str
    as_of: str
    items: tuple[CostLine, ...] = ()


class CostLine(_Answer, frozen=True, kw_only=True):
    service: str
    what: str
    amount: float
    unit_price: float
    dollars: float


class ReceiptDocument(_Answer, frozen=True, kw_only=True):
    """What the query used."""

    workers: int = 0
    worker_seconds: float = 0.0
    requests: dict[str, int] = {}
    cost: CostDocument


class ErrorDocument(_Answer, frozen=True, kw_only=True):
    """Why a query failed."""

    kind: str
    message: str
    retryable: bool = False
    subject: str = ""


class QueryDocument(_Answer, frozen=True, kw_only=True):
    """A query as it stands. Times are RFC 3339 in UTC."""

    query_id: str
    status: QueryStatus
    sql: str = ""
    exchange: str = ""
    created_at: str
    ended_at: str | None = None
    seconds: float
    rows: int | None = None
    columns: tuple[Column, ...] = ()
    stages: tuple[StageDocument, ...] = ()
    receipt: ReceiptDocument | None = None
    error: ErrorDocument | None = None
    links: Links


class QueryList(_Answer, frozen=True, kw_only=True):
    """Queries, newest first, without stages and receipts."""

    queries: tuple[QueryDocument, ...]
    next: str | None = None


class ResultPage(_Answer, frozen=True, kw_only=True):
    """Rows as JSON. NULL is null; whole numbers beyond 2^53, HUGEINT and decimals are strings of
    exact digits; NaN and infinities are strings; dates and times are text.
    """

    query_id: str
    columns: tuple[Column, ...]
    rows: Annotated[
        msgspec.Raw, Meta(extra_json_schema={"type": "array", "items": {"type": "array"}})
    ]
    row_count: int
    next: str | None = None


class ResultPart(_Answer, frozen=True, kw_only=True):
    """A file of the result, in the order of its rows."""

    url: str
    size: int
    rows: int | None = None


class ResultParts(_Answer, frozen=True, kw_only=True):
    """Presigned addresses of a result's files."""

    query_id: str
    format: str
    columns: tuple[Column, ...]
    session: dict[str, str] = {}
    parts: tuple[ResultPart, ...]
    row_count: int
    expires_in: int
    next: str | None = None


class ExplainDocument(_Answer, frozen=True, kw_only=True):
    """A plan: for people as text, for programs as values."""

    text: str
    plan: dict[str, object]


class TableListing(_Answer, frozen=True, kw_only=True):
    name: str
    sources: tuple[str, ...]


class TableListings(_Answer, frozen=True, kw_only=True):
    """Named tables, by name."""

    tables: tuple[TableListing, ...]


class TableDocument(_Answer, frozen=True, kw_only=True):
    """A table as its files are now."""

    name: str
    sources: tuple[str, ...]
    columns: tuple[Column, ...]
    files: int
    rows: Annotated[int, Meta(description="An estimate unless `counted`.")]
    bytes: int
    counted: bool


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """RFC 9457. ``type`` names the kind of problem; ``detail`` says what to do next."""

    type: str
    title: str
    status: int
    detail: str = ""
    error: ErrorDocument | None = None
