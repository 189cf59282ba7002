"""Several threads, connections and processes on one home: right answers, nothing left behind."""

from __future__ import annotations

import random
import subprocess
import sys
import sysconfig
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crossdock
from crossdock.client.connection import Connection
from crossdock.client.cursor import Cursor
from tests.home_contents import leftovers

ROWS = 1200
ANSWERS = {
    "SELECT g, count(*) FROM t GROUP BY g ORDER BY g": [(g, 120) for g in range(10)],
    "SELECT count(*) FROM t AS a JOIN t AS b ON a.k = b.k WHERE a.g = 3": [(120,)],
    "SELECT k FROM t ORDER BY k DESC LIMIT 2": [(1199,), (1198,)],
    "SELECT sum(k) FROM t": [(ROWS * (ROWS - 1) // 2,)],
}
#: Runs for seconds unless it is stopped.
ENDLESS = "SELECT sum(hash(a.k * b.k + c.k) % 7) FROM t AS a, t AS b JOIN t AS c USING (g)"
SETTINGS = {"workers": 2, "single_task_bytes": 0, "partitions": 2, "worker_memory": "300MB"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for part in range(3):
        keys = list(range(part, ROWS, 3))
        table = pa.table({"k": pa.array(keys, pa.int64()), "g": [k % 10 for k in keys]})
        pq.write_table(table, folder / f"{part}.parquet")
    return folder


def connect(home: Path, data: Path) -> Connection:
    return crossdock.connect(home=home, tables={"t": data}, broadcast_bytes=0, **SETTINGS)


def test_threads_of_one_connection_get_their_own_answers(tmp_path: Path, data: Path) -> None:
    def cancel(cursor: Cursor, pause: float, ended: threading.Event) -> None:
        while not ended.wait(pause / 2):  # again: the first may come before there is a query
            cursor.cancel()

    def ask(seed: int) -> list[str]:
        chance, wrong = random.Random(seed), []
        for _ in range(2):
            sql = chance.choice(list(ANSWERS))
            with connection.execute(sql) as cursor:
                if (rows := cursor.fetchall()) != ANSWERS[sql]:
                    wrong.append(f"{sql}: {rows}")
            with connection.cursor() as cursor:
                ended = threading.Event()
                canceller = threading.Thread(target=cancel, args=(cursor, chance.random(), ended))
                canceller.start()
                with pytest.raises(crossdock.QueryCancelled):
                    cursor.execute(ENDLESS).fetchall()
                ended.set()
                canceller.join()
        return wrong

    with connect(tmp_path / "home", data) as connection, ThreadPoolExecutor(3) as threads:
        assert [wrong for wrong in threads.map(ask, range(3)) if wrong] == []
    assert leftovers(tmp_path / "home") == []


@pytest.mark.parametrize("pause", [0.0, 0.05, 0.5])
def test_close_ends_what_other_threads_run(tmp_path: Path, data: Path, pause: float) -> None:
    connection = connect(tmp_path / "home", data)
    connection.execute("SELECT count(*) FROM t").fetchall()
    ended: list[BaseException] = []

    def run() -> None:
        try:
            connection.cursor().execute(ENDLESS).fetchall()
        except BaseException as error:  # noqa: BLE001 - looked at below
            ended.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    threading.Event().wait(pause)
    connection.close()
    for thread in threads:
        thread.join(30)
    assert [type(error) for error in ended if not _is_expected(error)] == []
    assert len(ended) == 2
    assert leftovers(tmp_path / "home") == []


def _is_expected(error: BaseException) -> bool:
    closed = isinstance(error, crossdock.InterfaceError) and "closed" in str(error)
    return closed or isinstance(error, crossdock.QueryCancelled)


def test_processes_share_a_home_while_gc_runs(tmp_path: Path, data: Path) -> None:
    home = tmp_path / "home"
    sql = "SELECT g, count(*) AS n FROM t GROUP BY g ORDER BY g"
    command = ("query", sql, "--table", f"t={data}", "--format", "csv", "--quiet")
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]
    clients = [_crossdock(home, *command, *flags) for _ in range(2)]
    with connect(home, data) as connection:
        for _ in range(3):
            gc = _crossdock(home, "gc")
            assert connection.execute(sql).fetchall() == [(g, 120) for g in range(10)]
            assert gc.wait(60) == 0, gc.stderr.read()  # type: ignore[union-attr]
            _close(gc)
    for client in clients:
        out, err = client.communicate(timeout=60)
        assert client.returncode == 0, err
        assert out.split() == ["g,n", *(f"{g},120" for g in range(10))]
    assert leftovers(home) == []


def _crossdock(home: Path, *arguments: str) -> subprocess.Popen[str]:
    program = Path(sysconfig.get_path("scripts")) / "crossdock"
    return subprocess.Popen(
        [sys.executable, str(program), *arguments, "--home", str(home)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _close(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
