"""Knocks and alarms inside one process.

Other processes are heard through the state store's file, whose changes a coordinator waits for.
"""

from __future__ import annotations

import heapq
import threading
from dataclasses import dataclass, field

from crossdock.platform.clock import SystemClock
from crossdock.platform.ports import Clock


@dataclass(frozen=True, slots=True, order=True)
class Tick:
    """An alarm; ordered by time."""

    due_at: float  # seconds since the epoch
    query_id: str = field(compare=False)
    number: int = field(compare=False)


class LocalControl:
    """Wakes the coordinator of this process (``ports.Control``)."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._changed = threading.Condition()
        self._knocked: set[str] = set()
        self._ticks: list[Tick] = []

    def notify(self, query_id: str) -> None:
        with self._changed:
            self._knocked.add(query_id)
            self._changed.notify_all()

    def tick(self, query_id: str, number: int, *, delay: float) -> None:
        with self._changed:
            heapq.heappush(self._ticks, Tick(self._clock.now() + delay, query_id, number))

    def due(self, now: float) -> tuple[Tick, ...]:
        """Ticks whose time has come, earliest first; each is told once."""
        ripe: list[Tick] = []
        with self._changed:
            while self._ticks and self._ticks[0].due_at <= now:
                ripe.append(heapq.heappop(self._ticks))
        return tuple(ripe)

    def next_due(self) -> float | None:
        """When the earliest tick is due, in seconds since the epoch; None without ticks."""
        with self._changed:
            return self._ticks[0].due_at if self._ticks else None

    def knocked(self) -> frozenset[str]:
        """Queries notified of since the last call."""
        with self._changed:
            knocked = frozenset(self._knocked)
            self._knocked.clear()
            return knocked

    def wait(self, timeout: float) -> frozenset[str]:
        """Wait up to ``timeout`` seconds for a knock; the queries notified of."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._knocked), timeout)
        return self.knocked()
