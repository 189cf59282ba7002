"""Every SQL case, over file layouts, partition counts, join forms and exchange methods."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import crossdock
from crossdock.client.connection import Connection
from tests import sql_cases
from tests.oracle import ask, assert_same, is_ordered, of_cursor
from tests.sql_cases import Case, Query

CASES = sql_cases.load()
SHUFFLE, BROADCAST = 0, 1 << 40
#: (exchange, partitions, broadcast_bytes)
CONFIGURATIONS = tuple(
    (exchange, partitions, broadcast)
    for exchange in ("s3qs", "batch")
    for partitions in (7, 2, 1)
    for broadcast in (SHUFFLE, BROADCAST)
)
Configuration = tuple[str, int, int]
#: Joins and groups that a forced shuffle of row files does not hash: why not.
NOT_HASHED = {
    "A22 Q3": "a window over all rows",
    "A30 Q2": "no equality",
    "A33 Q2": "no rows",
    "A51 Q": "a row each",
    "A51 Q-new-york": "a row each",
    "A58 Q1": "a row each",
    "A58 Q3": "a row each",
}


def selection(full: bool) -> Iterator[tuple[Case, str, Query, Configuration]]:
    """Each query over each of its layouts; the configurations take turns unless all are wanted."""
    turn = 0
    for case in CASES:
        for layout in case.layouts:
            for query in case.queries:
                chosen = CONFIGURATIONS if full else (CONFIGURATIONS[turn % len(CONFIGURATIONS)],)
                turn += 5  # coprime to their number: neighbours differ in every part
                for configuration in chosen:
                    yield case, layout, query, configuration


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "configuration" not in metafunc.fixturenames:
        return
    rows = list(selection(metafunc.config.getoption("--full-matrix")))
    ids = [
        f"{case.id}-{query.name}-{layout.replace(' ', '_')}-{exchange}-p{partitions}-"
        f"{'broadcast' if broadcast else 'shuffle'}"
        for case, layout, query, (exchange, partitions, broadcast) in rows
    ]
    metafunc.parametrize(("case", "layout", "query", "configuration"), rows, ids=ids)


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Connection]]:
    """A connection per way to start workers; they stay warm for the whole module."""
    opened: list[Connection] = []

    @cache
    def connected(exchange: str, timezone: str, threads: int = 1) -> Connection:
        connection = crossdock.connect(
            home=tmp_path_factory.mktemp(exchange),
            workers=2,
            exchange=exchange,
            single_task_bytes=0,
            worker_threads=threads,
            worker_memory="512MB",
            timezone=timezone,
        )
        opened.append(connection)
        return connection

    yield connected
    for connection in opened:
        connection.close()


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, list[Path]]]:
    """Files of a case in a layout, written at first use."""
    root = tmp_path_factory.mktemp("cases")
    by_id = {case.id: case for case in CASES}

    @cache
    def written(case: str, layout: str) -> dict[str, list[Path]]:
        return sql_cases.write_tables(by_id[case], layout, root / case / layout.replace(" ", "_"))

    return written


def test_case_gives_the_stated_answer_and_duckdbs_types(
    case: Case,
    layout: str,
    query: Query,
    configuration: Configuration,
    connect: Callable[..., Connection],
    write: Callable[..., dict[str, list[Path]]],
) -> None:
    exchange, partitions, broadcast = configuration
    tables = write(case.id, layout)
    sql = sql_cases.text_for(case, query, layout)
    connection = connect(exchange, query.time_zone, case.worker_threads)
    connection.settings = replace(
        connection.settings, partitions=partitions, broadcast_bytes=broadcast
    )
    for name, paths in tables.items():
        connection.tables.add(name, [str(path) for path in paths])
    error = sql_cases.stated_error(query)
    if error is not None:
        with pytest.raises(crossdock.Error, match=error):
            connection.execute(sql).fetchall()
        return
    with connection.execute(sql) as cursor:
        assert cursor.plan.one_task == ("FROM" not in sql)
        found = of_cursor(cursor)
    ordered = is_ordered(sql)
    assert sql_cases.fits(query, found.rows, ordered=ordered), sql_cases.as_text(found.rows[:20])
    for optimizer in (True, False):
        expected = ask(sql, tables, time_zone=query.time_zone, optimizer=optimizer)
        if query.volatile:
            assert found.columns == expected.columns
        else:
            assert_same(found, expected, ordered=ordered)


def test_forced_shuffle_hashes_every_join_and_group_but_these(
    connect: Callable[..., Connection], write: Callable[..., dict[str, list[Path]]]
) -> None:
    """Otherwise the cases would be right without having shuffled anything."""
    connection = connect("s3qs", "UTC")
    connection.settings = replace(connection.settings, partitions=7, broadcast_bytes=SHUFFLE)
    not_hashed = set()
    for case in CASES:
        layout = "row a file" if "row a file" in case.layouts else case.layouts[0]
        for name, paths in write(case.id, layout).items():
            connection.tables.add(name, [str(path) for path in paths])
        for query in case.queries:
            plan = connection.explain(query.sql)
            hashed = {edge.partitions for edge in plan.edges if edge.mode == "hash"}
            assert hashed <= {7}
            if not hashed and re.search("JOIN|GROUP BY", query.sql):
                not_hashed.add(f"{case.id} {query.name}")
    assert not_hashed == set(NOT_HASHED)
