"""``kill -9`` of any worker process at any moment: the answer stays right and nothing is left.

Moments are counted in the workers' own steps, drawn from a seed: after so many steps of the query
were noted, and a little later, one worker process chosen by the same seed is killed. Seeds take
turns at the exchange method; every third kills twice.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import crossdock
from crossdock.client.connection import Connection
from tests.datasets import benchmark_queries
from tests.home_contents import leftovers, statuses
from tests.integration import handmade
from tests.observed import Running, observe, running, until, worker_processes
from tests.oracle import Answer, ask, assert_same

SEEDS = range(20)
#: Five stages: scans, a join, partial and final aggregates, a sort; hash and gather edges.
SQL = dict(benchmark_queries("tpch"))["3"]
#: Steps noted for a task, about: claimed, bound, fetching, fetched, ran, written, committed.
STEPS_A_TASK = 7
#: Longest pause between the step and the kill, in seconds: about what a step takes.
JITTER = 0.03


@pytest.fixture(scope="module")
def expected(tpch_tiny: Path) -> Answer:
    return ask(SQL, {path.stem: [path] for path in tpch_tiny.glob("*.parquet")})


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("hooks")
    with pytest.MonkeyPatch.context() as patch:
        observe(patch, folder)
        yield folder


@pytest.fixture(scope="module")
def connect(
    tmp_path_factory: pytest.TempPathFactory, tpch_tiny: Path, hooks: Path
) -> Iterator[Callable[[str], Connection]]:
    """A connection an exchange method; what is killed of its workers it starts again."""
    opened: list[Connection] = []

    @cache
    def connected(exchange: str) -> Connection:
        opened.append(
            crossdock.connect(
                home=tmp_path_factory.mktemp("home"),
                tables={path.stem: path for path in tpch_tiny.glob("*.parquet")},
                workers=2,
                worker_memory="512MB",
                exchange=exchange,
                single_task_bytes=0,
                broadcast_bytes=0,
                partitions=2,
                lease_seconds=2,
                max_attempts=10,
                timezone="UTC",
            )
        )
        return opened[-1]

    yield connected
    for connection in opened:
        connection.close()


def kill_one(generator: random.Random, workers: list[int], hooks: Path) -> str:
    """Kill one of the worker processes; what it did last, for the report."""
    victim = generator.choice(workers)
    doing = [name for pid, name, _ in handmade.steps(hooks) if pid == victim]
    os.kill(victim, signal.SIGKILL)
    return doing[-1] if doing else "start"


def wait_for_step(query: Running, hooks: Path, number: int) -> None:
    until(lambda: query.over or len(handmade.steps(hooks)) >= number, f"step {number}")


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_worker_changes_no_answer_and_leaves_nothing(
    seed: int,
    hooks: Path,
    connect: Callable[[str], Connection],
    expected: Answer,
    request: pytest.FixtureRequest,
) -> None:
    generator = random.Random(seed)
    connection = connect(("s3qs", "batch")[seed % 2])
    steps = STEPS_A_TASK * sum(stage.tasks for stage in connection.explain(SQL).stages)
    moments = sorted(generator.randrange(steps) for _ in range(2 if seed % 3 == 0 else 1))
    (hooks / "steps").unlink(missing_ok=True)
    killed = []
    with running(connection, SQL) as query:
        for moment in moments:
            wait_for_step(query, hooks, moment)
            time.sleep(generator.uniform(0, JITTER))
            until(lambda: worker_processes(connection.home), "a worker process")
            killed.append(kill_one(generator, worker_processes(connection.home), hooks))
        query.join()
    request.node.user_properties.append(("killed after", killed))
    assert query.error is None
    columns = tuple((each[0], each[1]) for each in query.cursor.description)
    assert_same(Answer(columns, tuple(query.rows)), expected, ordered=True)
    query.cursor.close()
    assert leftovers(connection.home, connected=True) == []
    assert set(statuses(connection.home)) == {"SUCCEEDED"}
