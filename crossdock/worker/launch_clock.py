"""A worker's clock, held to what its launch says of the time."""

from __future__ import annotations

from crossdock.platform.ports import Clock, Launch


class LaunchClock:
    """``ports.Clock`` of one launch; right to within the time a launch may take.

    What a worker stamps (registered, claimed, pending since) coordinators compare with their own
    clocks. Its launch names the moments, by a coordinator's clock, between which it must have
    begun. A clock that is outside of them is wrong, by hours perhaps, and is set to the later
    one: then what is stamped may look too young, and things are given up a little later, never
    too early.
    """

    def __init__(self, clock: Clock, launch: Launch) -> None:
        self._clock = clock
        self._offset = 0.0
        now = clock.now()
        if launch.deadline and not launch.launched_at <= now <= launch.deadline:
            self._offset = launch.deadline - now

    def now(self) -> float:
        return self._clock.now() + self._offset

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)
