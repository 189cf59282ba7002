"""After many queries that ended at random, and one ``crossdock gc``, nothing is left.

Clients run queries that succeed, fail and are cancelled, from a seed; each client and its workers
are then ended by ``kill -9`` at a moment of their own. ``--random-ends N`` runs more queries.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossdock import local
from crossdock.local import LocalPlatform
from crossdock.settings import Settings
from tests.home_contents import leftovers, statuses
from tests.observed import until

#: Longest and shortest life of a client once it runs queries, in seconds.
LIFE = (0.2, 3.0)
SEED = 20

CLIENT = """
    import json, random, sys, threading, time
    import crossdock
    from crossdock.errors import Error
    home, table, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    generator = random.Random(seed)
    GOOD = "SELECT g, sum(v) AS s FROM t GROUP BY g"
    BAD = "SELECT g, sum(CASE WHEN v = 399 THEN error('v is 399') ELSE v END) FROM t GROUP BY g"
    LONG = "SELECT count(*) FROM t AS a, t AS b, t AS c WHERE hash(a.v + b.v, c.v) = 1"
    settings = dict(
        home=home, tables={"t": table}, workers=2, worker_memory="256MB", partitions=2,
        single_task_bytes=generator.choice([0, 0, 1 << 30]),
        exchange=generator.choice(["s3qs", "batch"]), lease_seconds=1,
    )
    with crossdock.connect(**settings) as connection:
        while True:
            cursor = connection.cursor()
            what = generator.choice(["good", "bad", "cancel"])
            if what == "cancel":
                delay = generator.uniform(0, 0.2)
                threading.Timer(delay, cursor.cancel).start()
            try:
                cursor.execute({"good": GOOD, "bad": BAD, "cancel": LONG}[what])
                cursor.fetchall()
                print(what, "done", flush=True)
            except Error as error:
                print(what, type(error).__name__, flush=True)
            if generator.random() < 0.7:
                cursor.close()
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    folder = tmp_path / "t"
    folder.mkdir()
    for part in range(2):
        values = range(part * 200, part * 200 + 200)
        rows = pa.table({"g": [v % 7 for v in values], "v": list(values)})
        pq.write_table(rows, folder / f"{part}.parquet")
    return folder


def run_and_kill(home: Path, table: Path, seed: int, life: float) -> list[str]:
    """A client and its workers, ended by ``kill -9``; what it said of its queries."""
    command = [sys.executable, "-c", textwrap.dedent(CLIENT), str(home), str(table), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        first = client.stdout.readline()  # type: ignore[union-attr]
        time.sleep(life)
        processes = [psutil.Process(client.pid), *psutil.Process(client.pid).children()]
        for process in processes:
            kill(process)
        said = [first, *client.stdout.read().splitlines()]  # type: ignore[union-attr]
    until(lambda: not any(map(alive, processes[1:])), "the end of the workers")
    return [line.strip() for line in said if line.strip()]


def kill(process: psutil.Process) -> None:
    try:
        process.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        return


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_nothing_is_left_after_queries_that_ended_at_random(
    tmp_path: Path, table: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, wanted = tmp_path / "home", request.config.getoption("--random-ends")
    generator = random.Random(SEED)
    said: Counter[str] = Counter()
    clients = 0
    while len(statuses(home)) < wanted:
        clients += 1
        said.update(run_and_kill(home, table, clients, generator.uniform(*LIFE)))
    request.node.user_properties.append(("ends", json.dumps(said)))
    # Answers that nobody discarded are kept for a day; here their time is over at once.
    monkeypatch.setattr(local, "RETENTION_SECONDS", 0.0)
    platform = LocalPlatform(home, Settings(workers=1))
    try:
        found = platform.gc(grace_seconds=0)
        assert set(statuses(home)) == set()
        assert leftovers(home, kept=(), connected=True) == []
        assert (found > 0, platform.gc(grace_seconds=0)) == (True, 0)
    finally:
        platform.close()
    assert sum(said.values()) >= wanted - clients, "queries that nobody heard of"
    if wanted >= 100:  # fewer need not meet every end
        assert {"good done", "bad QueryFailed", "cancel QueryCancelled"} <= set(said)
