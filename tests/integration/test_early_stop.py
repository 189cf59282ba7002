"""LIMIT without ORDER BY: producers whose rows nobody wants are not run, or are stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

import crossdock
from coordinator_state.records import QueryStatus
from crossdock.client.connection import Connection
from crossdock.local import LocalPlatform
from crossdock.planner import splits
from crossdock.settings import Exchange, Settings
from tests.integration import handmade
from tests.observed import observe, running, until

#: One split a file: many producer tasks.
FILES = 12
LIMIT = 10
SQL = f"SELECT v FROM t LIMIT {LIMIT}"


@pytest.fixture
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    observe(monkeypatch, tmp_path / "hooks")
    monkeypatch.setattr(splits.ScanWork, "natural_tasks", lambda work, _: len(work.pieces))
    return tmp_path / "hooks"


@pytest.fixture
def connect(tmp_path: Path, hooks: Path) -> Iterator[Callable[[str], Connection]]:
    paths = [slice.path for slice in handmade.write_files(tmp_path, FILES)]
    opened: list[Connection] = []

    def connected(exchange: str) -> Connection:
        opened.append(
            crossdock.connect(
                home=tmp_path / "home",
                tables={"t": paths},
                workers=2,
                worker_memory="512MB",
                exchange=exchange,
                single_task_bytes=0,
                partitions=2,
            )
        )
        return opened[-1]

    yield connected
    for connection in opened:
        connection.close()


def noted(hooks: Path) -> Counter[str]:
    """How many tasks noted each step: ``claimed-0`` is that of stage 0's tasks."""
    return Counter(name.rpartition("-")[0] for _, name, _ in handmade.steps(hooks))


BOTH = pytest.mark.parametrize("exchange", ["s3qs", "batch"])


@BOTH
def test_limit_does_not_run_every_producer(
    connect: Callable[[str], Connection], hooks: Path, exchange: str
) -> None:
    connection = connect(exchange)
    producers = connection.explain(SQL).stages[0].tasks
    assert producers > 2 * 2
    rows = connection.execute(SQL).fetchall()
    assert rows == [(v,) for v in range(LIMIT)]
    steps = noted(hooks)
    assert steps["committed-1"] == 1
    # Each of two workers may be at one, and have begun another before it heard.
    assert steps["claimed-0"] <= 4


@BOTH
def test_limit_is_answered_while_a_producer_beyond_it_runs_and_that_one_is_stopped(
    connect: Callable[[str], Connection], hooks: Path, exchange: str
) -> None:
    hold = hooks / "hold-ran-0-1"
    hold.touch()
    with running(connect(exchange), SQL) as query:
        query.join()
        assert query.error is None
        assert query.rows == [(v,) for v in range(LIMIT)]
        hold.unlink()
    connection = query.cursor.connection
    stages = connection.platform.progress(query.cursor.query_id).stages
    assert [stage.status for stage in stages] == ["SKIPPED", "COMPLETE"]
    assert stages[0].committed < stages[0].tasks
    assert "committed-0-1" not in [name for _, name, _ in handmade.steps(hooks)]


def test_limit_that_needs_more_producers_waits_for_them_in_their_order(
    connect: Callable[[str], Connection], hooks: Path
) -> None:
    """Task 0 is last: what the others made must not be used instead of its rows."""
    hold = hooks / "hold-ran-0-0"
    hold.touch()
    limit = handmade.ROWS_A_FILE + 50
    with running(connect("s3qs"), f"SELECT v FROM t LIMIT {limit}") as query:
        until(lambda: noted(hooks)["committed-0"] >= 2, "other producers")
        assert not query.over
        hold.unlink()
        query.join()
    assert query.rows == [(v,) for v in range(limit)]


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        (f"SELECT v FROM t LIMIT {FILES * handmade.ROWS_A_FILE + 1}", FILES * handmade.ROWS_A_FILE),
        ("SELECT v FROM t WHERE hash(v) % 100 = 7 LIMIT 1000", None),
        ("SELECT v FROM t LIMIT 30 OFFSET 250", 30),
        ("SELECT v FROM t LIMIT 0", 0),
        ("SELECT a.v FROM t a JOIN t b ON a.v = b.v + 1 LIMIT 5", 5),
        ("SELECT count(*) FROM (SELECT v FROM t LIMIT 300)", 1),
    ],
)
def test_limits_of_every_kind_give_as_many_rows_of_the_table_as_they_should(
    connect: Callable[[str], Connection], sql: str, count: int | None
) -> None:
    rows = connect("s3qs").execute(sql).fetchall()
    if count is None:
        count = len(connect("batch").execute(sql.partition(" LIMIT")[0]).fetchall())
    assert len(rows) == count
    if "count(*)" in sql:
        assert rows == [(300,)]
    else:
        assert len(set(rows)) == count
        assert {v for (v,) in rows} <= set(range(FILES * handmade.ROWS_A_FILE))


@BOTH
def test_stage_stopped_early_starts_anew_when_what_was_used_of_it_is_lost(
    tmp_path: Path, hooks: Path, exchange: str
) -> None:
    """Its reader's object is lost too, so that the reader has to read it once more."""
    settings = Settings(workers=2, worker_memory=400 << 20, exchange=Exchange(exchange))
    platform = LocalPlatform(
        tmp_path / "home", settings, observer="tests.integration.handmade:hook"
    )
    hold = hooks / "hold-claimed-2-0"
    hold.touch()
    query_id = platform.submit(handmade.limited(handmade.write_files(tmp_path, 4), LIMIT))
    with closing(platform), ThreadPoolExecutor(1) as driver:
        record = driver.submit(platform.wait, query_id)
        until(lambda: noted(hooks)["claimed-2"], "the last stage")
        until(lambda: platform.stages(query_id)[0].status == "SKIPPED", "the early stop")
        objects = [o.key for o in platform.objects.list("exchange/")]
        platform.objects.delete(objects)
        hold.unlink()
        assert record.result().status is QueryStatus.SUCCEEDED
        rows = handmade.rows_of(platform.result_files(record.result()))
        assert rows == [(k, k) for k in range(handmade.KEYS)]
        platform.settle(query_id)
        assert platform.progress(query_id).stages[0].status == "SKIPPED"
