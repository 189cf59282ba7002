"""One hot key fills one partition: it is spilled and answered, not retried for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import crossdock
from crossdock.client.connection import Connection
from tests.oracle import ask, assert_same, of_cursor

#: Of a worker; the hot partition's rows are more.
MEMORY = 256_000_000
HOT_LEFT, HOT_RIGHT, OTHERS = 200_000, 10, 1_000
QUERIES = {
    "inner": "SELECT count(*), sum(l.v), max(l.s || r.w) FROM l JOIN r USING (k)",
    "left": "SELECT count(*), count(r.w), sum(l.v) FROM l LEFT JOIN r USING (k)",
    "full": "SELECT count(*), count(l.v), count(r.w) FROM l FULL JOIN r USING (k)",
    "hot rows": "SELECT l.v, l.s, r.w FROM l JOIN r USING (k) WHERE l.v % 50 = 0",
    "group": "SELECT k, count(*), sum(v), max(s) FROM l GROUP BY k",
    "distinct": "SELECT k, count(DISTINCT s) FROM l GROUP BY k",
    "window": "SELECT k, max(n) FROM (SELECT k, row_number() OVER (PARTITION BY k ORDER BY s) AS n"
    " FROM l) GROUP BY k",
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("skewed")
    with duckdb.connect() as engine:
        engine.execute(
            f"COPY (SELECT CASE WHEN i < {HOT_LEFT} THEN 7 ELSE i END AS k, i AS v,"
            " repeat(md5(i::VARCHAR), 8) AS s"
            f" FROM range({HOT_LEFT + OTHERS}) AS rows(i)) TO '{folder}/l.parquet'"
            " (ROW_GROUP_SIZE 10000)"
        )
        engine.execute(
            f"COPY (SELECT CASE WHEN i < {HOT_RIGHT} THEN 7 ELSE i + {HOT_LEFT} END AS k,"
            f" 'right ' || i AS w FROM range({HOT_RIGHT + OTHERS}) AS rows(i))"
            f" TO '{folder}/r.parquet'"
        )
    return {name: folder / f"{name}.parquet" for name in ("l", "r")}


@pytest.fixture(scope="module")
def connection(
    tmp_path_factory: pytest.TempPathFactory, tables: dict[str, Path]
) -> Iterator[Connection]:
    with crossdock.connect(
        home=tmp_path_factory.mktemp("home"),
        tables=tables,
        workers=2,
        worker_memory=MEMORY,
        partitions=7,
        single_task_bytes=0,
        broadcast_bytes=0,
    ) as opened:
        yield opened


@pytest.mark.parametrize("name", QUERIES)
def test_hot_key_is_answered_in_one_attempt_a_task(
    connection: Connection, tables: dict[str, Path], name: str
) -> None:
    sql = QUERIES[name]
    expected = ask(sql, {table: [path] for table, path in tables.items()})
    with connection.cursor() as cursor:
        answer = of_cursor(cursor.execute(sql))
        receipt = cursor.receipt
    assert_same(answer, expected, ordered=False)
    assert receipt is not None
    assert receipt.shuffled_bytes > 0
    assert all(stage.attempts == stage.tasks for stage in receipt.stages)
