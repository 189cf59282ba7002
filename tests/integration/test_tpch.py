"""All of TPC-H at scale 0.01 gives DuckDB's rows, types and names, however it is cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

import crossdock
from crossdock.client.connection import Connection
from tests.datasets import benchmark_queries
from tests.oracle import Answer, ask, assert_same, is_ordered, of_cursor

QUERIES = dict(benchmark_queries("tpch"))
FORCED = {"single_task_bytes": 0, "broadcast_bytes": 0}
NO_JOIN = {"1", "6"}
#: Neither a join nor groups.
NOT_HASHED = {"6"}


@dataclass(frozen=True)
class Configuration:
    name: str
    exchange: str = "auto"
    settings: dict[str, int] = field(default_factory=dict)


CONFIGURATIONS = (
    Configuration("default"),
    Configuration("broadcasts", "s3qs", {"single_task_bytes": 0}),
    *(
        Configuration(f"{exchange}-p{partitions}", exchange, {**FORCED, "partitions": partitions})
        for exchange in ("s3qs", "batch")
        for partitions in (1, 2, 7)
    ),
)


@pytest.fixture(scope="module")
def connect(
    tpch_tiny: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Configuration], Connection]]:
    """One connection a configuration, its workers warm from the first query on."""
    opened: dict[str, Connection] = {}

    def connected(wanted: Configuration) -> Connection:
        if wanted.name not in opened:
            # Only one configuration's workers at a time: the tests come in their order.
            for name in tuple(opened):
                opened.pop(name).close()
            opened[wanted.name] = crossdock.connect(
                home=tmp_path_factory.mktemp("home"),
                tables={path.stem: path for path in tpch_tiny.glob("*.parquet")},
                workers=2,
                worker_memory="1GB",
                exchange=wanted.exchange,
                timezone="UTC",
                **wanted.settings,
            )
        return opened[wanted.name]

    yield connected
    for connection in opened.values():
        connection.close()


@pytest.fixture(scope="module")
def expected(tpch_tiny: Path) -> Callable[[str], Answer]:
    tables = {path.stem: [path] for path in tpch_tiny.glob("*.parquet")}
    return cache(lambda number: ask(QUERIES[number], tables))


@pytest.mark.parametrize("number", QUERIES)
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda one: one.name)
def test_query_gives_duckdbs_rows_types_and_names(
    number: str,
    configuration: Configuration,
    connect: Callable[[Configuration], Connection],
    expected: Callable[[str], Answer],
) -> None:
    with connect(configuration).execute(QUERIES[number]) as cursor:
        assert cursor.plan.one_task == (configuration.name == "default")
        modes = {edge.mode for edge in cursor.plan.edges}
        assert (configuration.name == "broadcasts") <= ("broadcast" in modes or number in NO_JOIN)
        hashed = [edge.partitions for edge in cursor.plan.edges if edge.mode == "hash"]
        if "partitions" in configuration.settings and number not in NOT_HASHED:
            assert set(hashed) == {configuration.settings["partitions"]}
        assert_same(of_cursor(cursor), expected(number), ordered=is_ordered(QUERIES[number]))
