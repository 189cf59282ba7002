"""Clock, ids, control, counting of state requests, message cutting."""

from __future__ import annotations

import re
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator_state.store import StateStore
from crossdock.platform import bodies, meter
from crossdock.platform.clock import SystemClock
from crossdock.platform.ids import RandomIds, created_at
from crossdock.platform.local.control import LocalControl, Tick
from crossdock.platform.meter import CountingMeter, metered_store


class SetClock:
    def __init__(self, now: float) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        raise NotImplementedError

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def test_query_ids_sort_by_time_across_clients() -> None:
    times = [0.0, 999.999, 1_700_000_000.0, 1_700_000_000.001, 1_800_000_000.0, 32_503_680_000.0]
    ids = [RandomIds(SetClock(time)).query_id() for time in times]
    assert ids == sorted(ids)
    assert [created_at(one) for one in ids[1:]] == times[1:]


def test_query_ids_of_one_client_sort_even_within_a_millisecond_or_a_clock_set_back() -> None:
    clock = SetClock(1_700_000_000.0)
    ids = RandomIds(clock)
    drawn = [ids.query_id() for _ in range(50)]
    clock.time -= 3600
    drawn += [ids.query_id() for _ in range(50)]
    assert drawn == sorted(set(drawn))


def test_ids_are_short_and_fit_for_queue_names_and_keys() -> None:
    ids = RandomIds()
    for one in (ids.query_id(), ids.worker_id(), ids.nonce()):
        assert re.fullmatch("[a-z0-9]{8,32}", one)


def test_threads_draw_different_ids() -> None:
    ids = RandomIds()
    drawn: list[str] = []
    threads = [
        threading.Thread(target=lambda: drawn.extend(ids.query_id() for _ in range(200)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 800


def test_the_clock_goes_on_while_it_sleeps() -> None:
    clock = SystemClock()
    before = clock.now()
    clock.sleep(0.01)
    assert clock.now() - before >= 0.009


def test_ticks_are_told_once_in_the_order_of_their_time() -> None:
    clock = SetClock(100.0)
    control = LocalControl(clock)
    control.tick("b", 7, delay=2.0)
    control.tick("a", 1, delay=1.0)
    control.tick("c", 3, delay=9.0)
    assert control.next_due() == 101.0
    assert control.due(100.5) == ()
    assert control.due(102.0) == (Tick(101.0, "a", 1), Tick(102.0, "b", 7))
    assert control.due(102.0) == ()
    assert control.next_due() == 109.0


def test_a_knock_wakes_the_waiting_coordinator() -> None:
    control = LocalControl()
    knocker = threading.Timer(0.05, control.notify, ("q1",))
    knocker.start()
    assert control.wait(10) == {"q1"}
    knocker.join()
    assert control.wait(0) == frozenset()


def test_knocks_of_one_query_coalesce() -> None:
    control = LocalControl()
    for query in ("q1", "q2", "q1"):
        control.notify(query)
    assert control.wait(0) == {"q1", "q2"}


def test_every_verb_of_the_state_store_is_counted_as_a_write_or_a_read() -> None:
    verbs = {name for name in vars(StateStore) if not name.startswith("_")}
    assert verbs == meter.WRITES | meter.READS
    assert not meter.WRITES & meter.READS


class Recorder:
    """A store that returns what its verbs were called with."""

    closed = False

    def get_query(self, *args: Any) -> object:
        return args

    def tasks(self, *args: Any, **_: Any) -> list[int]:
        return list(range(17))

    def create_query(self, query: object, stages: object) -> object:
        return query

    def own(self, entries: object) -> None: ...

    def heartbeat(self, task: object, *, phase: str) -> str:
        return phase

    def wait_for_change(self, timeout: float) -> float:
        return timeout


def test_reads_and_writes_of_the_store_are_counted_and_the_rest_passes_through() -> None:
    counting = CountingMeter()
    store = cast(Any, metered_store(cast(StateStore, Recorder()), counting))
    stages = [SimpleNamespace(tasks=4), SimpleNamespace(tasks=1)]
    assert store.create_query("query", stages) == "query"
    store.create_query("query", stages=stages)
    store.own(["a", "b", "c"])
    assert store.heartbeat("task", phase="write") == "write"
    assert store.heartbeat("task", phase="commit") == "commit"
    assert counting.usage() == {"state_write": 8 + 8 + 3 + 2}
    store.tasks("q", 1)
    store.get_query("q")
    assert counting.usage()["state_read"] == 3 + 1
    assert (store.wait_for_change(1.5), store.closed) == (1.5, False)
    with pytest.raises(AttributeError):
        store.no_such_verb()


def test_a_usage_once_read_does_not_move() -> None:
    counting = CountingMeter()
    counting.count("object_get")
    usage = counting.usage()
    counting.count("object_get", 5)
    assert (usage, counting.usage()) == ({"object_get": 1}, {"object_get": 6})


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([1] * 10, [10]),
        ([1] * 11, [10, 1]),
        ([bodies.MAX_BYTES], [1]),
        ([bodies.MAX_BYTES, 1], [1, 1]),
        ([bodies.MAX_BYTES - 1, 1, 1], [2, 1]),
        ([600_000, 600_000, 400_000, 48_576], [1, 3]),
    ],
)
def test_batches_keep_both_limits(sizes: list[int], expected: list[int]) -> None:
    messages = [b"x" * size for size in sizes]
    cut = list(bodies.batches(messages))
    assert [len(batch) for batch in cut] == expected
    assert [body for batch in cut for body in batch] == messages
