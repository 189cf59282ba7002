"""Any turn continues where another died: the coordinator is cut off at every write it makes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from coordinator_state.errors import StoreUnavailable
from coordinator_state.records import QueryStatus
from crossdock.cleanup import Medium
from crossdock.coordinator import Coordinator, Terms
from crossdock.local.home import Home, Parts, open_parts
from crossdock.local.process import worker_for_process
from crossdock.platform.clock import SystemClock
from crossdock.platform.ids import RandomIds
from crossdock.platform.local.control import LocalControl
from crossdock.platform.meter import WRITES, CountingMeter
from crossdock.platform.ports import Launch
from crossdock.scheduler import Limits
from crossdock.settings import Exchange
from crossdock.submit import QueryOptions, submit
from tests.integration.handmade import expected, rows_of, two_stages, write_files


class CutStore:
    """A store out of reach from its ``at``-th write on: before that one is made, or just after."""

    def __init__(self, store: object, at: int, *, after: bool) -> None:
        self._store = store
        self._left = at
        self._after = after

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name not in WRITES:
            return verb

        def cut(*args: object, **kwargs: object) -> object:
            self._left -= 1
            if self._left < 0 or (self._left == 0 and not self._after):
                raise StoreUnavailable(f"cut off at {name}")
            result = verb(*args, **kwargs)
            if self._left == 0:
                raise StoreUnavailable(f"cut off after {name}")
            return result

        return cut


class Threads:
    """Workers as threads of this process."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.threads: list[threading.Thread] = []

    def launch(self, launches: Sequence[Launch]) -> Sequence[Launch]:
        for launch in launches:
            worker = worker_for_process(self._home, memory="300000000", threads="1")
            self.threads.append(threading.Thread(target=worker.run, args=(launch,)))
            self.threads[-1].start()
        return launches

    def gone(self, worker_ids: Sequence[str]) -> frozenset[str]:
        return frozenset()


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    opened = open_parts(Home(tmp_path / "home"), CountingMeter())
    yield opened
    opened.close()


def coordinator(medium: Medium, launcher: Threads) -> Coordinator:
    return Coordinator(
        medium,
        launcher=launcher,
        control=LocalControl(),
        clock=SystemClock(),
        ids=RandomIds(),
        limits=Limits(budget=2, skew=0.5),
        # Launches that were written and never called must be given up soon.
        terms=Terms(launch_seconds=0.3),
        turn_seconds=0.2,
    )


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [2, 4, 6, 8, 10, 13, 16, 20, 25])
def test_coordinator_that_dies_at_a_write_is_continued_by_the_next(
    parts: Parts, tmp_path: Path, at: int, after: bool
) -> None:
    launcher = Threads(tmp_path / "home")
    medium = parts.medium
    files = write_files(tmp_path, 2)
    query_id = submit(
        medium.store,
        medium.objects,
        two_stages(files),
        QueryOptions(exchange=Exchange.S3QS, workers=2),
        clock=SystemClock(),
        ids=RandomIds(),
    )
    cut: Any = CutStore(medium.store, at, after=after)
    first = coordinator(Medium(cut, medium.queues, medium.objects), launcher)
    second = coordinator(medium, launcher)
    turn: Callable[..., Any] = first.turn
    while True:
        try:
            result = turn(query_id)
        except StoreUnavailable:
            turn = second.turn
            continue
        if result.finished:
            break
        if result.delay:
            parts.store.wait_for_change(min(result.delay, 0.05))
    for thread in launcher.threads:
        thread.join()
    record = medium.store.get_query(query_id)
    assert turn == second.turn, "it was never cut off"
    assert record.status is QueryStatus.SUCCEEDED
    home = Home(tmp_path / "home")
    assert sorted(rows_of([home.object_path(key) for key in record.result])) == expected(2)
    assert list(medium.queues.names("")) == []
    assert {o.key.split("/")[0] for o in medium.objects.list("")} == {"result", "receipt"}
    assert record.purged
