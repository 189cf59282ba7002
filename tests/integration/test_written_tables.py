"""What becomes of the files of tables that were replaced, added to and dropped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import crossdock
from crossdock.client.connection import Connection
from crossdock.local.home import Home, open_parts
from crossdock.platform.meter import CountingMeter
from crossdock.writes.retire import KEEP_SECONDS, sweep_tables
from tests.home_contents import leftovers

#: Past every grace.
LATER = 100.0


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with crossdock.connect(home=tmp_path / "home", workers=1, worker_memory="512MB") as opened:
        yield opened


def sweep(connection: Connection, *, after: float) -> int:
    """A round of a janitor whose clock is ``after`` seconds ahead."""
    parts = open_parts(Home(connection.home), CountingMeter())
    try:
        now = time.time() + after
        return sweep_tables(parts.medium, now=now, older_than=now)
    finally:
        parts.close()


def run(connection: Connection, *statements: str) -> None:
    for sql in statements:
        with connection.execute(sql) as cursor:
            query_id = cursor.query_id
            cursor.fetchall()
        connection.platform.settle(query_id)


def data(connection: Connection) -> list[str]:
    folder = connection.home / "objects" / "data"
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_files_of_a_table_stay_however_often_it_is_added_to(connection: Connection) -> None:
    run(connection, "CREATE TABLE a AS SELECT 1 AS x", "INSERT INTO a VALUES (2)")
    run(connection, "INSERT INTO a VALUES (3)")
    assert sweep(connection, after=LATER) == 2  # manifests that were replaced
    assert sweep(connection, after=2 * KEEP_SECONDS) == 0
    assert connection.execute("FROM a ORDER BY x").fetchall() == [(1,), (2,), (3,)]


def test_a_replaced_table_s_files_stay_for_a_day(connection: Connection) -> None:
    run(connection, "CREATE TABLE a AS SELECT 1 AS x", "CREATE OR REPLACE TABLE a AS SELECT 2 AS y")
    before = data(connection)
    assert sweep(connection, after=KEEP_SECONDS / 2) == 0
    assert data(connection) == before
    assert sweep(connection, after=KEEP_SECONDS + LATER) == 2
    assert connection.execute("FROM a").fetchall() == [(2,)]


def test_while_a_table_is_damaged_nothing_is_removed(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    run(connection, "CREATE TABLE a AS SELECT 1 AS x", "CREATE TABLE b AS SELECT 2 AS x")
    run(connection, "INSERT INTO b VALUES (3)")
    for manifest in (connection.home / "objects" / "data").rglob("manifest-*"):
        manifest.unlink()
    before = data(connection)
    assert sweep(connection, after=LATER) == 0
    assert "a table is damaged" in caplog.text
    assert data(connection) == before


def test_a_dropped_table_leaves_nothing_after_a_day(connection: Connection) -> None:
    run(connection, "CREATE TABLE a AS SELECT 1 AS x", "INSERT INTO a VALUES (2)", "DROP TABLE a")
    assert sweep(connection, after=KEEP_SECONDS / 2) == 1
    assert sweep(connection, after=KEEP_SECONDS + LATER) == 3
    assert sweep(connection, after=KEEP_SECONDS + LATER) == 0
    assert data(connection) == []
    connection.close()
    assert leftovers(connection.home) == []


def test_a_query_planned_before_a_table_was_replaced_reads_what_it_was_planned_for(
    connection: Connection,
) -> None:
    run(connection, "CREATE TABLE a AS SELECT i AS x FROM range(10) t(i)")
    plan = connection.explain("SELECT sum(x) FROM a")
    run(connection, "CREATE OR REPLACE TABLE a AS SELECT 'other' AS z")
    files = [piece.path for scan in plan.stages[0].scans for piece in scan.splits[0]]
    assert all(Path(path).exists() for path in files)


def test_naming_files_takes_a_written_table_s_place(connection: Connection, tmp_path: Path) -> None:
    run(connection, "CREATE TABLE a AS SELECT 1 AS x")
    run(connection, f"COPY (SELECT 5 AS y) TO '{tmp_path}/f.parquet'")
    connection.tables.add("a", str(tmp_path / "f.parquet"), persistent=True)
    assert connection.execute("FROM a").fetchall() == [(5,)]
    connection.tables.remove("a")
    assert not connection.tables.has("a")


def test_tables_outlive_their_connection(connection: Connection, tmp_path: Path) -> None:
    run(connection, "CREATE TABLE a AS SELECT 1 AS x")
    connection.close()
    with crossdock.connect(home=tmp_path / "home") as other:
        assert other.tables.names() == ("a",)
        assert other.execute("FROM a").fetchall() == [(1,)]
        assert other.tables.describe("a").rows == 1
