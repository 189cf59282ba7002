"""Nothing is left in the home folder, however a query ends: its files are looked into directly."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crossdock
from crossdock.client.connection import Connection
from tests.home_contents import leftovers, statuses
from tests.observed import running, until

PROGRAM = str(Path(sysconfig.get_path("scripts")) / "crossdock")
GOOD = "SELECT g, sum(v) AS s FROM t GROUP BY g"
#: Fails in a worker, after other tasks have written their objects.
BAD = "SELECT g, sum(CASE WHEN v = 399 THEN error('v is 399') ELSE v END) FROM t GROUP BY g"
#: Minutes of work and no row: every pair is looked at, none is counted.
ENDLESS = (
    "SELECT count(*) FROM t AS a, t AS b, t AS c, t AS d, t AS e"
    " WHERE hash(a.v + b.v, c.v + d.v, e.v) = 1"
)
SETTINGS: dict[str, dict[str, object]] = {
    "one task": {},
    "s3qs": {"exchange": "s3qs", "single_task_bytes": 0, "partitions": 2},
    "batch": {"exchange": "batch", "single_task_bytes": 0, "partitions": 2},
}
WAYS = pytest.mark.parametrize("way", SETTINGS)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    folder = tmp_path / "t"
    folder.mkdir()
    for part in range(2):
        values = range(part * 200, part * 200 + 200)
        rows = pa.table({"g": [v % 7 for v in values], "v": list(values)})
        pq.write_table(rows, folder / f"{part}.parquet")
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@contextmanager
def connected(home: Path, table: Path, way: str) -> Iterator[Connection]:
    settings = {"workers": 2, "worker_memory": "512MB", **SETTINGS[way]}
    with crossdock.connect(home=home, tables={"t": table}, **settings) as connection:
        yield connection


def a_task_runs(home: Path) -> bool:
    """Looked up in the file, for the query may belong to another process."""
    if not (home / "state.db").exists():
        return False
    with closing(sqlite3.connect(home / "state.db")) as database:
        sql = "SELECT count(*) FROM tasks WHERE status = 'RUNNING'"
        try:
            return bool(database.execute(sql).fetchone()[0])
        except sqlite3.OperationalError:
            return False  # its tables are being made


def gc(home: Path) -> None:
    done = subprocess.run(
        [PROGRAM, "gc", "--home", str(home)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr


@WAYS
def test_after_success_only_the_answer_and_then_only_the_receipt_is_left(
    home: Path, table: Path, way: str
) -> None:
    with connected(home, table, way) as connection:
        with connection.execute(GOOD) as cursor:
            assert len(cursor.fetchall()) == 7
            assert cursor.receipt.status == "SUCCEEDED"
            assert leftovers(home, kept=("receipt", "result"), connected=True) == []
        with connection.cursor() as another:  # waits for what the first left to be swept
            another.execute(GOOD)
        connection.platform.settle(another.query_id)
    assert leftovers(home) == []
    assert statuses(home) == ["SUCCEEDED"] * 2


@WAYS
def test_after_failure_nothing_is_left(home: Path, table: Path, way: str) -> None:
    failure = pytest.raises(crossdock.QueryFailed, match="v is 399")
    with connected(home, table, way) as connection, failure:
        connection.execute(BAD)
    assert leftovers(home) == []
    assert statuses(home) == ["FAILED"]


@WAYS
def test_after_cancel_nothing_is_left(home: Path, table: Path, way: str) -> None:
    with connected(home, table, way) as connection:
        with running(connection, ENDLESS) as query:
            until(lambda: a_task_runs(home), "a running task")
            query.cursor.cancel()
            query.join()
        assert isinstance(query.error, crossdock.QueryCancelled)
        assert statuses(home) == ["CANCELLED"]
    assert leftovers(home) == []


@WAYS
def test_closing_the_connection_in_the_middle_of_a_query_leaves_nothing(
    home: Path, table: Path, way: str
) -> None:
    with connected(home, table, way) as connection, running(connection, ENDLESS) as query:
        until(lambda: a_task_runs(home), "a running task")
        connection.close()
        query.join()
    assert isinstance(query.error, crossdock.Error)
    assert statuses(home) == ["CANCELLED"]
    assert leftovers(home) == []


CLIENT = """
    import json, sys, time
    import crossdock
    home, table, settings, sql = sys.argv[1:]
    connection = crossdock.connect(home=home, tables={"t": table}, **json.loads(settings))
    cursor = connection.execute(sql)
    print("rows can be read", flush=True)
    time.sleep(600)
"""


@contextmanager
def client(home: Path, table: Path, way: str, sql: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that runs ``sql`` and then keeps the rows unread."""
    import json

    settings = json.dumps({"workers": 2, "worker_memory": "512MB", **SETTINGS[way]})
    script = textwrap.dedent(CLIENT)
    command = [sys.executable, "-c", script, str(home), str(table), settings, sql]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def kill(process: subprocess.Popen[str]) -> None:
    """``kill -9`` a client; its workers follow it by themselves."""
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: not any(map(alive, workers)), "the end of the workers")


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@WAYS
def test_gc_removes_all_that_a_killed_client_left(home: Path, table: Path, way: str) -> None:
    with client(home, table, way, ENDLESS) as process:
        until(lambda: a_task_runs(home), "a running task")
        kill(process)
    assert leftovers(home) != []
    gc(home)
    assert leftovers(home) == []
    assert statuses(home) == ["CANCELLED"]


@WAYS
def test_gc_keeps_only_the_answer_of_a_client_killed_while_it_reads(
    home: Path, table: Path, way: str
) -> None:
    with client(home, table, way, GOOD) as process:
        assert process.stdout.readline() == "rows can be read\n"
        kill(process)
    gc(home)
    assert leftovers(home, kept=("receipt", "result")) == []
    # One task: the rows were the process's own and went with it.
    assert statuses(home) == ["CANCELLED" if way == "one task" else "SUCCEEDED"]


@WAYS
def test_gc_leaves_a_living_client_alone(home: Path, table: Path, way: str) -> None:
    with client(home, table, way, ENDLESS) as process:
        until(lambda: a_task_runs(home), "a running task")
        before = leftovers(home)
        gc(home)
        assert statuses(home) == ["RUNNING"]
        lasting = ("scratch client-", "query", "queue")
        assert {line for line in before if line.startswith(lasting)} <= set(leftovers(home))
        kill(process)
    gc(home)
    assert leftovers(home) == []
