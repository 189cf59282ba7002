"""One key has nearly all rows: hashing again never splits them, so their task has to hold out.

Case c33: the worker of the hot partition has far less memory than its rows take, and spills.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import crossdock
from crossdock.client.connection import Connection

QUERIES = {
    "inner join": "SELECT count(*), sum(v * w), max(s) FROM l JOIN r USING (k)",
    "left join": "SELECT count(*), sum(v), max(s) FROM l LEFT JOIN r USING (k)",
    "full join": "SELECT count(*), sum(v), max(s) FROM l FULL JOIN r USING (k)",
    "group": "SELECT max(n), count(*), max(m) FROM"
    " (SELECT k, count(*) AS n, max(s) AS m FROM l GROUP BY k)",
    "window": "SELECT max(n), count(*), max(s) FROM"
    " (SELECT k, s, row_number() OVER (PARTITION BY k ORDER BY s) AS n FROM l)",
}
#: 100,000 rows of key 7 with 256 bytes each, 1,000 of other keys; ten partners of key 7.
LEFT = (
    "SELECT CASE WHEN i < 100000 THEN 7 ELSE i END AS k, i AS v, repeat(md5(i::VARCHAR), 8) AS s"
    " FROM range(101000) AS r(i)"
)
RIGHT = "SELECT 7 AS k, i AS w FROM range(10) AS r(i)"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    with duckdb.connect() as connection:
        for name, sql in (("l", LEFT), ("r", RIGHT)):
            connection.execute(f"COPY ({sql}) TO '{folder}/{name}.parquet' (ROW_GROUP_SIZE 10000)")
    return folder


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Iterator[Connection]:
    with crossdock.connect(
        home=tmp_path_factory.mktemp("home"),
        tables={name: data / f"{name}.parquet" for name in "lr"},
        workers=2,
        worker_memory=140_000_000,
        single_task_bytes=0,
        broadcast_bytes=0,
        partitions=7,
    ) as opened:
        yield opened


@pytest.mark.parametrize("name", QUERIES)
def test_c33_hot_key_gives_the_right_answer(connection: Connection, data: Path, name: str) -> None:
    with duckdb.connect() as engine:
        for table in "lr":
            engine.execute(f"CREATE VIEW {table} AS FROM '{data}/{table}.parquet'")
        expected = engine.execute(QUERIES[name]).fetchall()
    with connection.execute(QUERIES[name]) as cursor:
        assert cursor.fetchall() == expected
        assert cursor.receipt.attempts == sum(stage.tasks for stage in cursor.receipt.stages)
