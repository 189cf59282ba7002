"""SELECTs over result files: the user's names, and the user's types out of their carriers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from crossdock.executor.carriers import carrier_type, decode
from crossdock.executor.engine import text
from crossdock.executor.types import quote
from crossdock.planner.plan import ResultColumn


def result_query(columns: Sequence[ResultColumn], files: Sequence[Path]) -> str:
    """SELECT of the user's names and types over result files, in their order.

    Names may repeat: they are only labels of the outermost SELECT.
    """
    items = _decoded(columns)
    if files:
        listed = ", ".join(text(str(path)) for path in files)
        return f"SELECT {items} FROM read_parquet([{listed}], hive_partitioning = false)"
    empty = ", ".join(
        f"CAST(NULL AS {carrier_type(column.type)}) AS c{index}"
        for index, column in enumerate(columns)
    )
    return f"SELECT {items} FROM (SELECT {empty}) WHERE FALSE"


def rows_query(columns: Sequence[ResultColumn], file: Path, first: int, count: int) -> str:
    """Like ``result_query``, of ``count`` rows of one file from row ``first`` on."""
    return (
        f"SELECT {_decoded(columns)} FROM read_parquet({text(str(file))}, "
        "hive_partitioning = false, file_row_number = true) "
        f"WHERE file_row_number BETWEEN {first} AND {first + count - 1}"
    )


def renamed_query(columns: Sequence[ResultColumn], file: Path) -> str:
    """One file's columns under the user's names, still in their carriers; names told apart."""
    seen: set[str] = set()
    items = []
    for index, column in enumerate(columns):
        name, number = column.name, 0
        while name.lower() in seen:
            number += 1
            name = f"{column.name}_{number}"
        seen.add(name.lower())
        items.append(f"c{index} AS {quote(name)}")
    reader = f"read_parquet({text(str(file))}, hive_partitioning = false)"
    return f"SELECT {', '.join(items)} FROM {reader}"


def _decoded(columns: Sequence[ResultColumn]) -> str:
    return ", ".join(
        f"{decode(f'c{index}', column.type)} AS {quote(column.name)}"
        for index, column in enumerate(columns)
    )


def as_text(sql: str, columns: Sequence[ResultColumn], chosen: Callable[[str], bool]) -> str:
    """``sql`` with the columns of chosen types written by the engine as VARCHAR; order is kept."""
    if not any(chosen(column.type) for column in columns):
        return sql
    names = [f"c{index}" for index in range(len(columns))]
    items = ", ".join(
        f"CAST({name} AS VARCHAR) AS {name}" if chosen(column.type) else name
        for name, column in zip(names, columns, strict=True)
    )
    # A line of its own for the parenthesis: the text may end in a comment.
    return f"SELECT {items} FROM ({sql.strip().rstrip(';')}\n) AS result({', '.join(names)})"
