"""A cancel is heard whenever it comes: before the engine starts, and while a query is planned."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import crossdock
from crossdock.client.drivers import Run
from crossdock.client.rows import Rows


def rows(connection: duckdb.DuckDBPyConnection, ends: list[BaseException | None]) -> Rows:
    return Rows(
        connection,
        translate=lambda error: crossdock.QueryCancelled(str(error)),
        on_end=lambda _count, error: ends.append(error),
        on_close=lambda: None,
    )


def test_interrupt_before_the_statement_starts_is_kept() -> None:
    ends: list[BaseException | None] = []
    result = rows(duckdb.connect(), ends)
    result.interrupt()
    with pytest.raises(crossdock.QueryCancelled) as caught:
        result.start("SELECT 1")
    assert ends == [caught.value]
    result.close()


def test_interrupt_between_two_fetches_ends_the_second() -> None:
    result = rows(duckdb.connect(), [])
    result.start("SELECT * FROM range(100000)")
    assert len(result.many(10)) == 10
    result.interrupt()
    with pytest.raises(crossdock.QueryCancelled):
        result.many(10)
    result.close()


@pytest.mark.parametrize("single_task_bytes", ["auto", 0])
def test_cancel_while_a_query_is_planned_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, single_task_bytes: object
) -> None:
    with crossdock.connect(
        home=tmp_path / "home", workers=1, single_task_bytes=single_task_bytes
    ) as connection:
        cursor = connection.cursor()
        begin = connection._begin

        def cancelled_meanwhile(*arguments: object) -> Run:
            run = begin(*arguments)
            cursor.cancel()  # as another thread would, which cannot know how far this one is
            return run

        monkeypatch.setattr(connection, "_begin", cancelled_meanwhile)
        with pytest.raises(crossdock.QueryCancelled):
            cursor.execute("SELECT count(*) FROM range(10)")
        monkeypatch.undo()
        assert cursor.execute("SELECT count(*) FROM range(10)").fetchall() == [(10,)]
