"""DuckDB's refusals in the user's terms: reason, position in the user's text, candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crossdock.errors import SqlError

_LONGEST_LINE = 120


@dataclass(frozen=True, slots=True)
class Position:
    """A span of a statement's text in bytes of UTF-8."""

    start: int
    length: int = 1


class EngineError(Exception):
    """DuckDB refused a statement; inside the planner only."""

    def __init__(
        self, reason: str, kind: str, position: Position | None, missing_table: str
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.kind = kind
        self.position = position
        self.missing_table = missing_table

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> EngineError:
        """From the object that DuckDB's JSON functions answer."""
        missing = (
            document.get("type") == "Table" and document.get("error_subtype") == "MISSING_ENTRY"
        )
        return cls(
            reason=str(document["error_message"]).strip(),
            kind=str(document.get("error_type", "")),
            position=_position(document),
            missing_table=str(document.get("name", "")) if missing else "",
        )


def _position(document: Mapping[str, Any]) -> Position | None:
    if "position" not in document:
        return None
    # "location" is a text such as "[17,7]": start and length
    parts = str(document.get("location", "")).strip("[]").split(",")
    length = int(parts[1]) if len(parts) == 2 else 1
    return Position(int(document["position"]), max(1, length))


def sql_error(reason: str, sql: str = "", position: Position | None = None) -> SqlError:
    """An error that shows its place: ``LINE n: ...`` and a caret line under it."""
    shown = _excerpt(sql, position) if position is not None and sql else ""
    return SqlError(f"{reason}\n\n{shown}" if shown else reason)


def _excerpt(sql: str, position: Position) -> str:
    data = sql.encode()
    if not 0 <= position.start <= len(data):
        return ""
    before = data[: position.start].decode(errors="replace")
    marked = data[position.start : position.start + position.length].decode(errors="replace")
    line_start = before.rfind("\n") + 1
    line_end = sql.find("\n", len(before))
    line = sql[line_start : line_end if line_end >= 0 else len(sql)]
    column = len(before) - line_start
    width = max(1, min(len(marked.split("\n")[0]), len(line) - column))
    if len(line) > _LONGEST_LINE:
        cut = max(0, min(column - _LONGEST_LINE // 2, len(line) - _LONGEST_LINE))
        line, column = line[cut : cut + _LONGEST_LINE], column - cut
        width = max(1, min(width, len(line) - column))
    label = f"LINE {before.count(chr(10)) + 1}: "
    under = "".join("\t" if c == "\t" else " " for c in line[:column])
    return f"{label}{line}\n{' ' * len(label)}{under}{'^' * width}"
