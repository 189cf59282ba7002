"""INSERT ... VALUES: each value is cast for its column, as DuckDB does, before rows are a list."""

from __future__ import annotations

from collections.abc import Sequence

from crossdock.writes.tokens import TokenReader


def coerced_values(query: str, types: Sequence[str]) -> str | None:
    """``query`` with each value cast to its column's type; None if it is more than a list of rows.

    Without this ``(1, 'a'), ('b', 2)`` would be refused: the rows of a list share their types.
    """
    reader = TokenReader(query)
    if not reader.skip("VALUES"):
        return None
    rows: list[str] = []
    while reader.skip("("):
        values: list[str] = []
        while not reader.skip(")"):
            values.append(_cast(reader.until(",", ")"), types, len(values)))
            reader.skip(",")
        rows.append(f"({', '.join(values)})")
        if not reader.skip(","):
            break
    return None if reader.word.strip(";") else f"VALUES {', '.join(rows)}"


def _cast(value: str, types: Sequence[str], place: int) -> str:
    """A value too many stays as it is: DuckDB says how many there may be."""
    if value.upper() == "DEFAULT":
        value = "NULL"  # columns have no defaults
    # A line of its own for the parenthesis: the value may end in a comment.
    return f"CAST({value}\n AS {types[place]})" if place < len(types) else value
