"""The thread that says a running attempt is alive, and learns when it should not be."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

import psutil

from coordinator_state.errors import NotFound, QueryEnded, Refused, StateError, StoreUnavailable
from coordinator_state.records import QueryStatus, TaskRecord, TaskStatus
from coordinator_state.store import StateStore
from crossdock.remedies import LOCAL, Remedies

_log = logging.getLogger(__name__)


class TimeUp(Exception):
    """The worker's time ends before this attempt does.

    ``full``: the attempt had nearly all of a worker's life, so another one would fare no better.
    """

    def __init__(self, message: str, *, full: bool) -> None:
        super().__init__(message)
        self.full = full


class Pulse(Protocol):
    """Runs something again and again beside the caller."""

    def __call__(
        self, beat: Callable[[], float | None], *, first: float, name: str
    ) -> Callable[[], None]:
        """Call ``beat`` in ``first`` seconds, then after as many as it returns, until None.

        Returns what ends that, and waits for a call under way.
        """
        ...


def thread_pulse(
    beat: Callable[[], float | None], *, first: float, name: str
) -> Callable[[], None]:
    """A pulse on a thread of its own (``Pulse``)."""
    done = threading.Event()

    def run() -> None:
        pause: float | None = first
        while pause is not None and not done.wait(pause):
            pause = beat()

    def stop() -> None:
        done.set()
        thread.join()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return stop


#: Share of a worker's life that counts as all of it: registering and the reserve take the rest.
_FULL_SHARE = 0.8


class Heartbeat:
    """Beats while the block runs; when the attempt is void it sets ``stopped`` and keeps why."""

    def __init__(
        self,
        store: StateStore,
        task: TaskRecord,
        *,
        every: float,
        seconds_left: float,
        life_seconds: float,
        on_stop: Callable[[], None] | None = None,
        pulse: Pulse = thread_pulse,
        monotonic: Callable[[], float] = time.monotonic,
        remedies: Remedies = LOCAL,
    ) -> None:
        """Beat ``every`` so many seconds; stop the attempt when ``seconds_left`` have passed."""
        self.stopped = threading.Event()
        self.reason: Exception | None = None
        self.phase = "claim"
        self.peak_memory = 0
        self._store = store
        self._task = task
        self._every = every
        self._monotonic = monotonic
        self._deadline = monotonic() + seconds_left
        self._full = seconds_left >= _FULL_SHARE * life_seconds
        self._life = life_seconds
        self._remedies = remedies
        self._on_stop = on_stop
        self._done = threading.Event()
        self._process = psutil.Process()
        self._pulse = pulse
        self._end_pulse: Callable[[], None] | None = None

    def start(self) -> None:
        name = f"beat-{self._task.stage}-{self._task.index}"
        self._end_pulse = self._pulse(self._on_pulse, first=self._pause(), name=name)

    def finish(self) -> None:
        """Beat no more."""
        self._done.set()
        if self._end_pulse is not None:
            self._end_pulse()

    def __enter__(self) -> Heartbeat:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.finish()

    def check(self) -> None:
        """Raise what made this attempt void, if anything has."""
        if self.reason is not None:
            raise self.reason

    def measure(self) -> int:
        """Peak resident memory of the attempt so far, in bytes, as far as it was looked at."""
        self.peak_memory = max(self.peak_memory, self._process.memory_info().rss)
        return self.peak_memory

    def _pause(self) -> float:
        return min(self._every, max(0.01, self._deadline - self._monotonic()))

    def _on_pulse(self) -> float | None:
        """Beat, or end the attempt whose time is up. Seconds until the next one, if any."""
        if self._monotonic() >= self._deadline:
            self._stop(self._time_up())
            return None
        try:
            self._beat()
        except StoreUnavailable as error:
            # The lease outlasts several beats; if the store stays away it will expire.
            _log.warning("heartbeat not delivered: %s", error)
        except StateError as error:
            if not (self._done.is_set() or self._has_committed(error)):
                self._stop(error)
            return None
        return self._pause()

    def _has_committed(self, error: StateError) -> bool:
        """The beat came after this attempt's own commit, which may still be publishing."""
        current = error.current if isinstance(error, Refused) else None
        return (
            isinstance(current, TaskRecord)
            and current.status is TaskStatus.COMMITTED
            and current.nonce == self._task.nonce
        )

    def _time_up(self) -> TimeUp:
        return TimeUp(
            f"the task did not end within a worker's life of {self._life:g} s; raise partitions, "
            f"or {self._remedies.memory}, which brings more processor",
            full=self._full,
        )

    def _beat(self) -> None:
        """Raises ``Refused`` or ``NotFound`` when the attempt is void."""
        status = self._store.heartbeat(self._task, phase=self.phase, peak_memory=self.measure())
        if status is not QueryStatus.RUNNING:
            raise QueryEnded(f"the query is {status}")

    def _stop(self, reason: Exception) -> None:
        level = logging.INFO if isinstance(reason, Refused | NotFound | TimeUp) else logging.ERROR
        _log.log(level, "attempt stopped: %s", reason)
        self.reason = reason
        self.stopped.set()
        if self._on_stop is not None:
            self._on_stop()
