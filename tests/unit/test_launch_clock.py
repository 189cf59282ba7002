"""A worker's clock may be wrong by any amount; its launch says what it can at most be."""

from __future__ import annotations

import pytest

from crossdock.platform.ports import Launch
from crossdock.worker.launch_clock import LaunchClock

LAUNCHED, DEADLINE = 1000.0, 1060.0


class WrongClock:
    def __init__(self, now: float) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


@pytest.mark.parametrize(
    ("shown", "taken"),
    [
        (LAUNCHED + 5.0, LAUNCHED + 5.0),  # within what is possible: believed
        (LAUNCHED - 7200.0, DEADLINE),
        (DEADLINE + 7200.0, DEADLINE),
    ],
)
def test_a_clock_outside_of_its_launch_is_set_to_the_deadline(shown: float, taken: float) -> None:
    clock = LaunchClock(WrongClock(shown), launch())
    assert clock.now() == taken
    clock.sleep(3.0)
    assert clock.now() == taken + 3.0


def test_without_a_word_of_the_launch_the_clock_is_believed() -> None:
    clock = LaunchClock(WrongClock(5.0), Launch(query_id="q", worker_id="w"))
    assert clock.now() == 5.0


def launch() -> Launch:
    return Launch(query_id="q", worker_id="w", launched_at=LAUNCHED, deadline=DEADLINE)
