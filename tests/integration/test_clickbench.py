"""The 43 queries of ClickBench over a table of its schema, in one task and in many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import duckdb
import pytest

import crossdock
from crossdock.client.connection import Connection
from tests import clickbench
from tests.oracle import Answer, of_cursor

QUERIES = clickbench.queries()
CONFIGURATIONS = {
    "default": {},
    "forced shuffle": {"single_task_bytes": 0, "broadcast_bytes": 0, "partitions": 7},
}


@pytest.fixture(scope="module")
def files() -> list[Path]:
    return sorted((clickbench.generate() / "hits").glob("*.parquet"))


@pytest.fixture(scope="module", params=list(CONFIGURATIONS))
def connection(
    request: pytest.FixtureRequest, files: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connection]:
    with crossdock.connect(
        home=tmp_path_factory.mktemp("home"),
        tables={"hits": files},
        workers=2,
        worker_memory="1GB",
        timezone="UTC",
        **CONFIGURATIONS[request.param],
    ) as opened:
        yield opened


@pytest.fixture(scope="module")
def judge(files: list[Path]) -> Callable[[int], clickbench.Judge]:
    return cache(lambda number: clickbench.Judge(number, QUERIES[number], files))


@pytest.mark.parametrize("number", QUERIES)
def test_query_gives_an_answer_of_duckdbs(
    number: int, connection: Connection, judge: Callable[[int], clickbench.Judge]
) -> None:
    with connection.execute(QUERIES[number]) as cursor:
        forced = connection.settings.single_task_bytes == 0
        assert cursor.plan.one_task != forced
        judge(number).check(of_cursor(cursor))


def test_table_has_the_columns_of_the_benchmark_and_its_skew(files: list[Path]) -> None:
    with duckdb.connect() as duck:
        hits = duck.read_parquet([str(path) for path in files])
        kinds = dict(zip(hits.columns, map(str, hits.types), strict=True))
        assert len(kinds) == 105
        some = ("WatchID", "EventTime", "EventDate", "ClientIP", "Sex")
        expected = ["BIGINT", "TIMESTAMP", "DATE", "INTEGER", "SMALLINT"]
        assert [kinds[name] for name in some] == expected
        share, users, found = duck.sql(
            "SELECT count(*) FILTER (CounterID = 62) / count(*), approx_count_distinct(UserID), "
            "count(*) FILTER (UserID = 435090932899640449) FROM hits"
        ).fetchall()[0]
        assert 0.2 < share < 0.3
        assert users > clickbench.SMALL_ROWS / 20
        assert found


def test_judge_refuses_a_row_that_is_none_of_the_answer(files: list[Path]) -> None:
    judge = clickbench.Judge(34, QUERIES[34], files)
    judge.check(judge.answer)
    (url, count), *others = judge.answer.rows
    wrong = Answer(judge.answer.columns, ((url + "x", count), *others))
    with pytest.raises(AssertionError, match="not rows of the answer"):
        judge.check(wrong)
    short = Answer(judge.answer.columns, judge.answer.rows[1:])
    with pytest.raises(AssertionError):
        judge.check(short)
