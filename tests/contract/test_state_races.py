"""Many claimants at once: threads in two processes against one store.

moto's server is no judge of this, it claims twice by itself; the emulator used here does not.
"""

from __future__ import annotations

import multiprocessing
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from coordinator_state.dynamodb import DynamoDbStateStore, client_config, create_table
from coordinator_state.errors import Refused, StaleAttempt
from coordinator_state.ids import Nonce, QueryId, StageId, WorkerId
from coordinator_state.records import (
    Commit,
    ErrorRecord,
    QueryRecord,
    StageRecord,
    TaskRecord,
    TaskStatus,
    WorkerRecord,
)
from coordinator_state.sqlite import SqliteStateStore
from coordinator_state.store import StateStore

Q, S = QueryId("q1"), StageId(0)
PROCESSES, THREADS = 2, 8
TASKS = 500
NOW = 1000.0
EXPIRED = ErrorRecord(kind="LeaseExpired", message="no heartbeat", retryable=True)


@dataclass(frozen=True)
class Place:
    """Where the store is; opened anew in each process."""

    path: str = ""
    endpoint: str = ""
    table: str = ""

    def open(self) -> tuple[StateStore, list[str]]:
        """The store, and the requests it sends from now on (none are seen of SQLite)."""
        requests: list[str] = []
        if self.path:
            return SqliteStateStore(self.path), requests
        client = dynamodb_client(self.endpoint)
        client.meta.events.register(
            "before-send.dynamodb", lambda request, **_: requests.append(operation_of(request))
        )
        return DynamoDbStateStore(client, self.table), requests


def operation_of(request: Any) -> str:
    name: bytes = request.headers["X-Amz-Target"]
    return name.decode().split(".")[-1]


def dynamodb_client(endpoint: str) -> Any:
    session = boto3.Session(
        aws_access_key_id="test", aws_secret_access_key="test", region_name="us-east-1"
    )
    return session.client("dynamodb", endpoint_url=endpoint, config=client_config())


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(PROCESSES, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.fixture(
    params=["sqlite", pytest.param("dynamodb", marks=pytest.mark.emulator)],
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place(path=str(tmp_path / "state.db"))
    endpoint = request.getfixturevalue("emulator")
    table = re.sub(r"\W", "-", request.node.name)
    create_table(dynamodb_client(endpoint), table)
    return Place(endpoint=endpoint, table=table)


@pytest.fixture
def store(place: Place) -> Iterator[StateStore]:
    opened, _ = place.open()
    yield opened
    if isinstance(opened, SqliteStateStore):
        opened.close()


def start(store: StateStore, **stage: Any) -> None:
    fields = {"tasks": TASKS, "admitted": TASKS, **stage}
    store.create_query(
        QueryRecord(query_id=Q, created_at=NOW), [StageRecord(query_id=Q, stage=S, **fields)]
    )
    store.activate_stage(Q, S)
    for process in range(PROCESSES):
        store.add_worker(WorkerRecord(query_id=Q, worker_id=WorkerId(f"w{process}")))
        store.register_worker(Q, WorkerId(f"w{process}"), now=NOW, life_until=NOW + 900)


Racer = Callable[[StateStore, int, int], list[Any]]


def race(processes: ProcessPoolExecutor, place: Place, racer: Racer) -> tuple[list[Any], list[str]]:
    """What every thread of every process brought home, and the requests all of them sent."""
    runs = [processes.submit(_race_here, place, racer, number) for number in range(PROCESSES)]
    outcomes: list[Any] = []
    requests: list[str] = []
    for run in runs:
        found, sent = run.result(timeout=60)
        outcomes += found
        requests += sent
    return outcomes, requests


def _race_here(place: Place, racer: Racer, process: int) -> tuple[list[Any], list[str]]:
    store, requests = place.open()
    line = threading.Barrier(THREADS)

    def run(thread: int) -> list[Any]:
        line.wait()
        return racer(store, process, thread)

    with ThreadPoolExecutor(THREADS) as pool:
        found = [outcome for part in pool.map(run, range(THREADS)) for outcome in part]
    if isinstance(store, SqliteStateStore):
        store.close()
    return found, requests


# -- racers, by name because they travel to other processes ------------------------------------
def claim_until_none(store: StateStore, process: int, thread: int) -> list[TaskRecord]:
    claimed: list[TaskRecord] = []
    while True:
        nonce = Nonce(f"{process}.{thread}.{len(claimed)}")
        task = store.claim_task(Q, S, WorkerId(f"w{process}"), nonce, now=NOW)
        if task is None:
            return claimed
        claimed.append(task)


def commit_or_requeue(store: StateStore, process: int, thread: int) -> list[tuple[int, str]]:
    """Half of the threads are workers that commit, half are coordinators that give up on them."""
    won: list[tuple[int, str]] = []
    verb = "commit" if thread % 2 else "requeue"
    for task in store.tasks(Q, S, status=TaskStatus.RUNNING):
        if task.index % (PROCESSES * THREADS // 2) != process * THREADS // 2 + thread // 2:
            continue  # one worker and one coordinator to a task
        try:
            if verb == "commit":
                store.commit_task(task, Commit(object_key="k"))
            else:
                store.requeue_task(task, EXPIRED, now=NOW)
        except StaleAttempt:
            continue
        won.append((task.index, verb))
    return won


def register_once(store: StateStore, process: int, thread: int) -> list[str]:
    try:
        store.register_worker(Q, WorkerId("w-late"), now=NOW, life_until=NOW)
    except Refused:
        return []
    return [f"{process}.{thread}"]


def knock_and_serve(store: StateStore, process: int, thread: int) -> list[int]:
    """Each knock is an event; whoever holds the turn serves every one that came before its end."""
    me = f"{process}.{thread}"
    served: list[int] = []
    for _ in range(5):
        while (turn := store.begin_turn(Q, me, now=NOW, until=NOW + 60)) is not None:
            served.append(turn.wake)
            if store.end_turn(Q, me, wake=turn.wake):
                break
    return served


# -- what must hold ----------------------------------------------------------------------------
def test_each_task_is_claimed_exactly_once_in_a_bounded_number_of_writes(
    processes: ProcessPoolExecutor, place: Place, store: StateStore
) -> None:
    start(store)
    claimed, requests = race(processes, place, claim_until_none)
    assert sorted(task.index for task in claimed) == list(range(TASKS))
    assert {task.attempt for task in claimed} == {1}
    assert {(t.index, t.nonce) for t in store.tasks(Q, S)} == {(t.index, t.nonce) for t in claimed}
    writes = requests.count("UpdateItem")
    assert writes <= 2.2 * TASKS, f"{writes / TASKS:.2f} writes a claim"
    if place.table:
        assert writes >= 2 * TASKS


def test_tasks_offered_again_are_claimed_exactly_once(
    processes: ProcessPoolExecutor, place: Place, store: StateStore
) -> None:
    many = 80
    start(store, tasks=many, cursor=many, offers=tuple(range(many)))
    claimed, requests = race(processes, place, claim_until_none)
    assert sorted(task.index for task in claimed) == list(range(many))
    writes = requests.count("UpdateItem")
    assert writes <= 2.2 * many, f"{writes / many:.2f} writes a claim"


def test_of_commit_and_requeue_exactly_one_wins(
    processes: ProcessPoolExecutor, place: Place, store: StateStore
) -> None:
    start(store, tasks=48)
    claim_until_none(store, 0, 0)
    won, _ = race(processes, place, commit_or_requeue)
    assert sorted(index for index, _ in won) == list(range(48))
    ends = {task.index: task.status for task in store.tasks(Q, S)}
    expected = {"commit": TaskStatus.COMMITTED, "requeue": TaskStatus.PENDING}
    assert ends == {index: expected[verb] for index, verb in won}
    offered = store.stages(Q)[0].offers
    assert sorted(offered) == sorted(index for index, verb in won if verb == "requeue")


def test_a_worker_launched_many_times_registers_once(
    processes: ProcessPoolExecutor, place: Place, store: StateStore
) -> None:
    start(store, tasks=1)
    store.add_worker(WorkerRecord(query_id=Q, worker_id=WorkerId("w-late")))
    won, _ = race(processes, place, register_once)
    assert len(won) == 1


def test_no_knock_at_a_turn_is_lost(
    processes: ProcessPoolExecutor, place: Place, store: StateStore
) -> None:
    start(store, tasks=1)
    served, _ = race(processes, place, knock_and_serve)
    query = store.get_query(Q)
    assert query.turn_holder == ""
    assert query.wake in served  # the last knock was served by a turn that began after it
    assert len(served) + query.wake >= PROCESSES * THREADS * 5
