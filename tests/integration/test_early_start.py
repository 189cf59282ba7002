"""Through the public connection: consumers fetch while the last producer is still at work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import crossdock
from crossdock.client.connection import Connection
from tests.integration import handmade
from tests.observed import observe, running, until

#: (query, consumer stage); stage 0 has two tasks.
QUERIES = {
    "hash": "SELECT k, sum(v) AS s FROM t GROUP BY k",
    "gather": "SELECT sum(v) AS s FROM t",
    "broadcast": "SELECT count(*) AS n FROM t, t AS u WHERE t.v < u.v",
}


@pytest.fixture
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    observe(monkeypatch, tmp_path / "hooks")
    return tmp_path / "hooks"


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, list[str]]:
    return {"t": [slice.path for slice in handmade.write_files(tmp_path, 2)]}


@pytest.fixture
def connection(tmp_path: Path, hooks: Path, tables: dict[str, list[str]]) -> Iterator[Connection]:
    with crossdock.connect(
        home=tmp_path / "home",
        tables=tables,
        workers=2,
        worker_memory="512MB",
        single_task_bytes=0,
        broadcast_bytes=0,
        partitions=2,
    ) as opened:
        yield opened


def names(hooks: Path) -> list[str]:
    return [name for _, name, _ in handmade.steps(hooks)]


@pytest.mark.parametrize("mode", QUERIES)
def test_sections_are_fetched_before_the_last_producer_commits(
    connection: Connection, hooks: Path, mode: str
) -> None:
    sql = QUERIES[mode]
    plan = connection.explain(sql)
    assert [edge.mode for edge in plan.edges if edge.producer == 0] == [mode]
    assert plan.stages[0].tasks == 2
    hold = hooks / "hold-written-0-1"
    hold.touch()
    with running(connection, sql) as query:
        until(lambda: "fetched-1-0" in names(hooks), "a section fetched early")
        assert "committed-0-1" not in names(hooks)
        hold.unlink()
        query.join()
    assert query.error is None
    order = names(hooks)
    assert order.index("committed-0-0") < order.index("fetched-1-0")
    assert order.index("fetched-1-0") < order.index("committed-0-1")
    with connection.cursor() as once_more:
        assert sorted(query.rows) == sorted(once_more.execute(sql).fetchall())


def test_batch_fetches_nothing_before_the_last_producer_commits(
    tmp_path: Path, hooks: Path, tables: dict[str, list[str]]
) -> None:
    with crossdock.connect(
        home=tmp_path / "home",
        tables=tables,
        workers=2,
        worker_memory="512MB",
        exchange="batch",
        single_task_bytes=0,
        partitions=2,
    ) as connection:
        assert len(connection.execute(QUERIES["hash"]).fetchall()) == handmade.KEYS
    order = names(hooks)
    fetched = [position for position, name in enumerate(order) if name.startswith("fetch")]
    assert {"committed-0-0", "committed-0-1"} <= set(order[: fetched[0]])
