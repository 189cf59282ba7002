"""Workers keep within their memory: what does not fit is spilled into the home folder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import crossdock
from crossdock.client.connection import Connection
from crossdock.executor.engine import BASE_MEMORY
from tests.home_contents import leftovers
from tests.observed import running, worker_processes
from tests.oracle import Answer, ask, assert_same, of_cursor

MEMORY = 256_000_000
#: What a worker process may exceed its memory by.
ALLOWED = 1.3
ROWS = 1_500_000
#: Each needs more than a worker has, in one partition.
QUERIES = {
    "aggregate": "SELECT count(*), sum(n), max(m) FROM"
    " (SELECT k, count(*) AS n, max(s) AS m FROM t GROUP BY k)",
    "join": "SELECT count(*), sum(t.v), max(t.s || u.s) FROM t JOIN t AS u USING (k)",
    "sort": "SELECT count(*), max(r) FROM (SELECT row_number() OVER (ORDER BY s) AS r FROM t)",
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "t.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT hash(i) AS k, i AS v, 'name of row number ' || i AS s"
            f" FROM range({ROWS}) AS r(i)) TO '{path}' (ROW_GROUP_SIZE 100000)"
        )
    return path


@pytest.fixture
def connection(tmp_path: Path, table: Path) -> Iterator[Connection]:
    with crossdock.connect(
        home=tmp_path / "home",
        tables={"t": table},
        workers=2,
        worker_memory=MEMORY,
        single_task_bytes=0,
        broadcast_bytes=0,
        partitions=1,
        timezone="UTC",
    ) as opened:
        yield opened


def fits_without_spilling(sql: str, table: Path) -> bool:
    """Whether one engine could do it in all the memory that a worker's engine could have."""
    limits = {"memory_limit": f"{MEMORY - BASE_MEMORY}B", "temp_directory": "", "threads": 1}
    with duckdb.connect(config=limits) as engine:
        engine.execute("SET preserve_insertion_order = false")
        engine.execute(f"CREATE VIEW t AS FROM '{table}'")
        try:
            engine.execute(sql).fetchall()
        except duckdb.OutOfMemoryException:
            return False
        return True


def has_spilled(home: Path) -> bool:
    """Walked with patience: attempts come and go meanwhile."""
    return any(
        name.startswith("duckdb_temp")
        for _, _, names in os.walk(home / "scratch")
        for name in names
    )


def peak_memory(home: Path) -> int:
    """Most bytes any living worker process ever had, by the kernel's own word."""
    found = [0]
    for pid in worker_processes(home):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                found.append(int(line.split()[1]) * 1024)
    return max(found)


@pytest.mark.parametrize("name", QUERIES)
def test_query_larger_than_its_workers_spills_and_is_right(
    connection: Connection, table: Path, name: str
) -> None:
    sql = QUERIES[name]
    assert not fits_without_spilling(sql, table), "it would prove nothing"
    spilled = False
    with running(connection, sql) as query:
        while not query.over:
            spilled = spilled or has_spilled(connection.home)
            time.sleep(0.002)
    assert query.error is None
    columns = tuple((each[0], each[1]) for each in query.cursor.description)
    assert_same(Answer(columns, tuple(query.rows)), ask(sql, {"t": [table]}), ordered=True)
    receipt = query.cursor.receipt
    assert spilled
    assert receipt.attempts == sum(stage.tasks for stage in receipt.stages), "a task was retried"
    assert receipt.peak_memory <= ALLOWED * MEMORY
    assert peak_memory(connection.home) <= ALLOWED * MEMORY
    assert receipt.peak_memory >= 0.9 * peak_memory(connection.home)
    query.cursor.close()
    assert leftovers(connection.home, connected=True) == []


def test_partition_that_no_worker_can_hold_fails_in_words(
    connection: Connection, table: Path
) -> None:
    sql = "SELECT length(string_agg(s, ',')) FROM t"
    with pytest.raises(crossdock.QueryFailed) as caught:
        of_cursor(connection.execute(sql))
    assert "raise worker_memory" in str(caught.value)
