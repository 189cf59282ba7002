"""The SQL cases: small tables, queries and their stated answers, over several file layouts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

FIXTURE = Path(__file__).resolve().parent / "fixtures" / "sql_cases.json"
LAYOUTS = ("one file", "row a file", "empty file")
#: Tables of more rows are cut into so many files instead of one a row.
MOST_FILES = 8


@dataclass(frozen=True)
class Query:
    name: str
    sql: str
    answer: str
    time_zone: str = "UTC"
    volatile: bool = False


@dataclass(frozen=True)
class Case:
    id: str
    about: str
    setup: tuple[str, ...]
    queries: tuple[Query, ...]
    layouts: tuple[str, ...] = LAYOUTS
    chunks: dict[str, list[int]] = field(default_factory=dict)  # rows a file, for "row a file"
    dictionary: dict[str, list[str]] = field(default_factory=dict)  # columns to encode so
    hive: dict[str, str] = field(default_factory=dict)  # table: partition column
    filler: dict[str, str] = field(default_factory=dict)  # rows for "filtered away", all v > 0
    worker_threads: int = 1


def load() -> tuple[Case, ...]:
    """Every case of the fixture."""
    return tuple(_case(entry) for entry in json.loads(FIXTURE.read_text()))


def _case(entry: dict[str, Any]) -> Case:
    queries = tuple(Query(**query) for query in entry.pop("queries"))
    entry["setup"] = tuple(entry["setup"])
    entry["layouts"] = tuple(entry.get("layouts", LAYOUTS))
    return Case(queries=queries, **entry)


def write_tables(case: Case, layout: str, folder: Path) -> dict[str, list[Path]]:
    """Write the case's tables; the files of each, in row order."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for statement in case.setup:
        connection.execute(statement)
    if layout == "filtered away":
        for name, rows in case.filler.items():
            connection.execute(f"INSERT INTO {name} {rows}")
    names = [row[0] for row in connection.execute("SHOW TABLES").fetchall()]
    return {
        name: list(_write(connection.table(name).to_arrow_table(), case, name, layout, folder))
        for name in sorted(names)
    }


def _write(table: pa.Table, case: Case, name: str, layout: str, folder: Path) -> Iterator[Path]:
    parts = _parts(table, case.chunks.get(name), layout)
    for number, part in enumerate(parts):
        target = folder / name
        if name in case.hive and layout == "row a file":
            column = case.hive[name]
            target = target / f"{column}={part.column(column)[0].as_py()}"
            # A Parquet file needs a column of its own.
            part = part.drop_columns([column]).append_column("pad", pa.array([0] * part.num_rows))
        target.mkdir(parents=True, exist_ok=True)
        path = target / f"part-{number}.parquet"
        encoded = case.dictionary.get(name, False)
        if layout == "no row group":
            pq.ParquetWriter(path, table.schema).close()
        else:
            pq.write_table(part, path, use_dictionary=encoded)
        yield path


def _parts(table: pa.Table, chunks: Sequence[int] | None, layout: str) -> Iterator[pa.Table]:
    if layout == "row a file" and table.num_rows:
        if chunks is None:
            size = 1 if table.num_rows <= MOST_FILES else -(-table.num_rows // MOST_FILES)
            chunks = [size] * -(-table.num_rows // size)
        first = 0
        for rows in chunks:
            yield table.slice(first, rows)
            first += rows
        return
    yield table
    if layout == "empty file":
        yield table.slice(0, 0)


def text_for(case: Case, query: Query, layout: str) -> str:
    """The query's SQL; over the layout "filtered away" its tables are seen through a filter."""
    sql = query.sql
    for name in case.filler if layout == "filtered away" else ():
        sql = sql.replace(f"FROM {name}", f"FROM (SELECT * FROM {name} WHERE v < 0) AS {name}")
    return sql


def as_text(rows: Sequence[Sequence[Any]]) -> str:
    """Rows as the cases state them: ``(1,NULL) (2,TRUE)``."""
    return " ".join("(" + ",".join(map(_value, row)) + ")" for row in rows) or "0 rows"


def _value(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value).upper() if isinstance(value, bool) else str(value)


def fits(query: Query, rows: Sequence[Sequence[Any]], *, ordered: bool) -> bool:
    """Whether rows are the stated answer."""
    if query.answer.startswith("ascending "):
        first, last = map(int, query.answer.removeprefix("ascending ").split(".."))
        return [row[0] for row in rows] == list(range(first, last + 1))
    found = as_text(rows)
    if query.answer.startswith("one of "):
        return found in query.answer.removeprefix("one of ").split(" ")
    if ordered:
        return found == query.answer
    return sorted(_split(found)) == sorted(_split(query.answer))


def _split(answer: str) -> list[str]:
    return re.split(r" (?=\()", answer)


def stated_error(query: Query) -> str | None:
    """The text an error must contain, if the answer is an error."""
    match = re.fullmatch(r'error containing "(.*)"', query.answer)
    return match[1] if match else None
