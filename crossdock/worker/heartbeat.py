"""The thread that says a running attempt is alive, and learns when it should not be."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType

import psutil

from coordinator_state.errors import NotFound, QueryEnded, Refused, StateError, StoreUnavailable
from coordinator_state.records import QueryStatus, TaskRecord, TaskStatus
from coordinator_state.store import StateStore

_log = logging.getLogger(__name__)


class TimeUp(Exception):
    """The worker's time ends before this attempt does.

    ``full``: the attempt had nearly all of a worker's life, so another one would fare no better.
    """

    def __init__(self, message: str, *, full: bool) -> None:
        super().__init__(message)
        self.full = full


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
    ) -> None:
        """Beat ``every`` so many seconds; stop the attempt when ``seconds_left`` have passed."""
        self.stopped = threading.Event()
        self.reason: Exception | None = None
        self.phase = "claim"
        self.peak_memory = 0
        self._store = store
        self._task = task
        self._every = every
        self._deadline = time.monotonic() + seconds_left
        self._full = seconds_left >= _FULL_SHARE * life_seconds
        self._life = life_seconds
        self._on_stop = on_stop
        self._done = threading.Event()
        self._process = psutil.Process()
        self._thread = threading.Thread(
            target=self._run, name=f"beat-{task.stage}-{task.index}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Beat no more."""
        self._done.set()
        self._thread.join()

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

    def _run(self) -> None:
        while not self._done.wait(min(self._every, max(0.01, self._deadline - time.monotonic()))):
            if time.monotonic() >= self._deadline:
                self._stop(self._time_up())
                return
            try:
                self._beat()
            except StoreUnavailable as error:
                # The lease outlasts several beats; if the store stays away it will expire.
                _log.warning("heartbeat not delivered: %s", error)
            except StateError as error:
                if not (self._done.is_set() or self._has_committed(error)):
                    self._stop(error)
                return

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
            "or worker_memory, which brings more processor",
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
