"""The deployment's budget of workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from coordinator_state.ids import QueryId, StageId, WorkerId
from coordinator_state.records import QueryRecord, StageRecord, WorkerRecord
from coordinator_state.sqlite import SqliteStateStore
from crossdock.aws.capacity import ASK_SECONDS, BudgetedLauncher
from crossdock.coordinator import CROWDED_SECONDS
from crossdock.platform.clock import SystemClock
from crossdock.platform.ports import Launch

LATER = 4_000_000_000.0


class Launcher:
    def __init__(self) -> None:
        self.launched: list[str] = []

    def launch(self, launches: Sequence[Launch]) -> Sequence[Launch]:
        self.launched += [launch.worker_id for launch in launches]
        return launches

    def gone(self, worker_ids: Sequence[str]) -> frozenset[str]:
        return frozenset(worker_ids[:1])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStateStore]:
    made = SqliteStateStore(tmp_path / "state.db")
    for name in ("a", "b"):
        query = QueryRecord(query_id=QueryId(name), created_at=1.0)
        made.create_query(query, [StageRecord(query_id=QueryId(name), stage=0)])  # type: ignore[arg-type]
    yield made
    made.close()


def workers(
    store: SqliteStateStore, query: str, *names: str, at: float, life_until: float = LATER
) -> list[Launch]:
    for name in names:
        store.add_worker(
            WorkerRecord(
                query_id=QueryId(query),
                worker_id=WorkerId(name),
                launched_at=at,
                life_until=life_until,
            )
        )
    return [Launch(query_id=query, worker_id=name) for name in names]


def budgeted(store: SqliteStateStore, budget: int) -> tuple[BudgetedLauncher, Launcher]:
    inner = Launcher()
    return BudgetedLauncher(inner, store, SystemClock(), budget=budget), inner


def test_launches_beyond_the_budget_are_not_accepted(store: SqliteStateStore) -> None:
    launcher, inner = budgeted(store, 3)
    launches = workers(store, "a", "w1", "w2", "w3", "w4", "w5", at=10)
    assert [launch.worker_id for launch in launcher.launch(launches)] == ["w1", "w2", "w3"]
    assert inner.launched == ["w1", "w2", "w3"]


def test_workers_of_every_open_query_count(store: SqliteStateStore) -> None:
    workers(store, "a", "w1", "w2", at=10)
    launcher, _ = budgeted(store, 3)
    launches = workers(store, "b", "v1", "v2", at=11)
    assert [launch.worker_id for launch in launcher.launch(launches)] == ["v1"]


def test_the_budget_used_up_is_no_launch_at_all(store: SqliteStateStore) -> None:
    workers(store, "a", "w1", "w2", at=10)
    launcher, inner = budgeted(store, 2)
    assert launcher.launch(workers(store, "b", "v1", at=11)) == ()
    assert inner.launched == []


def test_of_two_queries_that_ask_at_once_the_older_launch_goes(store: SqliteStateStore) -> None:
    # Both have written their launches before either looks.
    first, second = workers(store, "a", "w1", at=10), workers(store, "b", "v1", at=10.5)
    launcher, inner = budgeted(store, 1)
    assert launcher.launch(second) == ()
    assert launcher.launch(first) == first
    assert inner.launched == ["w1"]


def test_workers_that_left_never_came_or_outlived_their_life_are_none(
    store: SqliteStateStore,
) -> None:
    workers(store, "a", "w1", "w2", at=10)
    workers(store, "a", "w3", at=10, life_until=20.0)
    store.leave_worker(QueryId("a"), WorkerId("w1"), now=11, usage={})
    store.lose_worker(QueryId("a"), WorkerId("w2"))
    launcher, _ = budgeted(store, 1)
    assert len(launcher.launch(workers(store, "b", "v1", at=12))) == 1


def test_a_worker_that_fell_silent_has_its_slot_until_it_is_known_to_be_gone(
    store: SqliteStateStore,
) -> None:
    name, lost = QueryId("a"), WorkerId("w1")
    workers(store, "a", "w1", at=10)
    store.register_worker(name, lost, now=11, life_until=LATER)
    store.lose_worker(name, lost)
    launches = workers(store, "b", "v1", at=12)
    launcher, _ = budgeted(store, 1)
    assert launcher.room() == 0
    assert launcher.launch(launches) == ()
    store.leave_worker(name, lost, now=13, usage={})  # as Lambda's word of its end is written
    assert launcher.launch(launches) == launches


def test_a_silent_worker_has_no_slot_beyond_its_life(store: SqliteStateStore) -> None:
    workers(store, "a", "w1", at=10)
    store.register_worker(QueryId("a"), WorkerId("w1"), now=11, life_until=20.0)
    store.lose_worker(QueryId("a"), WorkerId("w1"))
    assert len(budgeted(store, 1)[0].launch(workers(store, "b", "v1", at=30))) == 1


def test_who_is_gone_is_the_inner_launcher_s_to_say(store: SqliteStateStore) -> None:
    assert budgeted(store, 1)[0].gone(["w1", "w2"]) == {"w1"}


def test_room_is_what_the_living_of_all_queries_leave(store: SqliteStateStore) -> None:
    workers(store, "a", "w1", "w2", at=10)
    launcher, _ = budgeted(store, 3)
    assert launcher.room() == 1
    launcher.launch(workers(store, "b", "v1", at=11))
    assert launcher.room() == 0
    assert budgeted(store, 2)[0].room() == 0


def test_the_more_queries_are_open_the_more_rarely_each_asks(store: SqliteStateStore) -> None:
    launcher, _ = budgeted(store, 1)
    launcher.room()
    assert launcher.patience() == CROWDED_SECONDS
    for number in range(40):
        name = QueryId(f"q{number}")
        query = QueryRecord(query_id=name, created_at=1.0)
        store.create_query(query, [StageRecord(query_id=name, stage=StageId(0))])
    crowded, _ = budgeted(store, 1)
    crowded.room()
    assert crowded.patience() == 42 * ASK_SECONDS > CROWDED_SECONDS
