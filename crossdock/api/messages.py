"""What the API asks of a process that has the engine, and what comes back.

One JSON object each way, told apart by ``action`` and ``answer``. A refusal is an answer: it never
travels as an exception, so a caller's mistake cannot look like a fault of ours.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import msgspec

#: A JSON value of the caller: null, bool, int, float, str, list, object.
Parameters = list[object] | dict[str, object] | None


class Submit(msgspec.Struct, frozen=True, kw_only=True, tag_field="action", tag="submit"):
    """Plan a statement and start it; the same ``client_token`` of one owner starts it once."""

    sql: str
    parameters: Parameters = None
    client_token: str = ""
    settings: dict[str, object] = {}
    timeout_seconds: float | None = None
    max_scanned_bytes: int | None = None
    owner: str = ""


class Explain(msgspec.Struct, frozen=True, kw_only=True, tag_field="action", tag="explain"):
    """Plan a statement, run nothing."""

    sql: str
    parameters: Parameters = None
    settings: dict[str, object] = {}


class ReadPage(msgspec.Struct, frozen=True, kw_only=True, tag_field="action", tag="page"):
    """Rows of an ended query's result, from row ``row`` of its result object ``part`` on."""

    query_id: str
    part: int = 0
    row: int = 0
    limit: int  # rows
    max_bytes: int  # of the rows' JSON; the page ends early, but never before its first row


class Export(msgspec.Struct, frozen=True, kw_only=True, tag_field="action", tag="export"):
    """Result objects ``first`` and up in another form, made once and then kept."""

    query_id: str
    format: str
    first: int = 0
    limit: int  # parts


class ListTables(msgspec.Struct, frozen=True, kw_only=True, tag_field="action", tag="tables"):
    """Every named table."""


class Describe(msgspec.Struct, frozen=True, kw_only=True, tag_field="action", tag="describe"):
    """One named table, as its files are now."""

    name: str


#: Of an option of a file's reader.
OptionValue = str | bool | int | float | list[str] | dict[str, str]


class PutTable(msgspec.Struct, frozen=True, kw_only=True, tag_field="action", tag="put_table"):
    """Name files, globs or folders; replaces an entry of that name."""

    name: str
    sources: tuple[str, ...]
    format: str | None = None
    options: dict[str, OptionValue] = {}


class DropTable(msgspec.Struct, frozen=True, kw_only=True, tag_field="action", tag="drop_table"):
    """Forget a name; its files stay."""

    name: str


Action = Submit | Explain | ReadPage | Export | ListTables | Describe | PutTable | DropTable


class Submitted(msgspec.Struct, frozen=True, kw_only=True, tag_field="answer", tag="submitted"):
    query_id: str
    created: bool = True  # False: an earlier request with the same token made it


class Explained(msgspec.Struct, frozen=True, kw_only=True, tag_field="answer", tag="explained"):
    text: str
    plan: dict[str, object]


class PageRead(msgspec.Struct, frozen=True, kw_only=True, tag_field="answer", tag="page"):
    """``rows`` is JSON text, an array of arrays: it is passed on as it is."""

    rows: str
    count: int
    next: tuple[int, int] | None = None  # part and row of the following page
    too_large: bool = False  # the row at the page's start alone exceeds ``max_bytes``


class Part(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    size: int  # bytes
    rows: int = -1  # unknown


class Exported(msgspec.Struct, frozen=True, kw_only=True, tag_field="answer", tag="exported"):
    parts: tuple[Part, ...]
    next: int | None = None  # first part not in ``parts``


class TableEntry(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    sources: tuple[str, ...]


class TableList(msgspec.Struct, frozen=True, kw_only=True, tag_field="answer", tag="tables"):
    tables: tuple[TableEntry, ...]


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """Name and SQL type."""

    name: str
    type: str


class TableDescription(msgspec.Struct, frozen=True, kw_only=True, tag_field="answer", tag="table"):
    name: str
    sources: tuple[str, ...]
    columns: tuple[Column, ...]
    files: int
    rows: int
    bytes: int
    counted: bool = True


class Done(msgspec.Struct, frozen=True, kw_only=True, tag_field="answer", tag="done"):
    """Nothing more to say."""


class RefusalKind(StrEnum):
    """Why an action was not done; each is one kind of problem to the caller."""

    SQL = "sql"
    PARAMETERS = "parameters"
    SETTING = "setting"
    TABLE = "table"
    UNKNOWN_TABLE = "unknown_table"
    TOKEN_CONFLICT = "token_conflict"
    SCAN_LIMIT = "scan_limit"
    BUSY = "busy"
    UNKNOWN_QUERY = "unknown_query"
    RESULT_GONE = "result_gone"
    NOT_SUPPORTED = "not_supported"


class Refusal(msgspec.Struct, frozen=True, kw_only=True, tag_field="answer", tag="refusal"):
    kind: RefusalKind
    message: str
    retry_after: float | None = None  # seconds, when asking again is right


Answer = Submitted | Explained | PageRead | Exported | TableList | TableDescription | Done | Refusal


class Desk(Protocol):
    """Whoever has the engine: in this process, or one function call away."""

    def perform(self, action: Action) -> Answer:
        """Raises ``PlatformUnavailable`` when it cannot be asked now."""
        ...


_ACTIONS = msgspec.json.Decoder(Action)
_ANSWERS = msgspec.json.Decoder(Answer)


def decode_action(data: bytes | str) -> Action:
    """Raises ``msgspec.ValidationError`` for anything else."""
    return _ACTIONS.decode(data)


def decode_answer(data: bytes | str) -> Answer:
    """Raises ``msgspec.ValidationError`` for anything else."""
    return _ANSWERS.decode(data)
