"""All of TPC-DS at scale 0.01 with a forced shuffle gives DuckDB's rows, types and names.

Every query runs once; its number says with how many partitions and by which exchange method, so
that each combination gets a third of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import crossdock
from crossdock.client.connection import Connection
from tests.datasets import benchmark_queries
from tests.oracle import ask, assert_same, is_ordered, of_cursor

QUERIES = dict(benchmark_queries("tpcds"))
#: (exchange, partitions) by the query's number modulo 3.
COMBINATIONS = (("s3qs", 7), ("s3qs", 2), ("batch", 2))


def numbers() -> list[str]:
    """The queries of one combination after those of another: each keeps its workers warm."""
    return sorted(QUERIES, key=lambda number: (int(number) % len(COMBINATIONS), int(number)))


@pytest.fixture(scope="module")
def connect(
    tpcds_tiny: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str, int], Connection]]:
    opened: list[Connection] = []

    @cache
    def connected(exchange: str, partitions: int) -> Connection:
        for connection in opened:
            connection.close()  # the tests come in order: it is not used again
        opened[:] = [
            crossdock.connect(
                home=tmp_path_factory.mktemp("home"),
                tables={path.stem: path for path in tpcds_tiny.glob("*.parquet")},
                workers=2,
                worker_memory="1GB",
                exchange=exchange,
                partitions=partitions,
                single_task_bytes=0,
                broadcast_bytes=0,
                timezone="UTC",
            )
        ]
        return opened[0]

    yield connected
    for connection in opened:
        connection.close()


@pytest.fixture(scope="module")
def tables(tpcds_tiny: Path) -> dict[str, list[Path]]:
    return {path.stem: [path] for path in tpcds_tiny.glob("*.parquet")}


@pytest.mark.parametrize("number", numbers())
def test_query_gives_duckdbs_rows_types_and_names(
    number: str, connect: Callable[[str, int], Connection], tables: dict[str, list[Path]]
) -> None:
    sql = QUERIES[number]
    exchange, partitions = COMBINATIONS[int(number) % len(COMBINATIONS)]
    with connect(exchange, partitions).execute(sql) as cursor:
        assert not cursor.plan.one_task
        assert_same(of_cursor(cursor), ask(sql, tables), ordered=is_ordered(sql))
