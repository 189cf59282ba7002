"""The composition root of the local platform: embedded state, queues, objects, worker processes.

Client processes may share a home folder; each drives its own queries with its own workers.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TypeVar

from coordinator_state.errors import NotFound
from coordinator_state.ids import QueryId
from coordinator_state.records import CANCELLED, ErrorRecord, QueryRecord, QueryStatus
from crossdock import cleanup, summary
from crossdock.coordinator import Coordinator, Terms
from crossdock.local import in_process, janitor
from crossdock.local.home import Home, open_parts
from crossdock.local.process import LIFE_SECONDS, worker_for_process
from crossdock.local.watch import Watch
from crossdock.owner import this_process
from crossdock.planner.plan import StagePlan
from crossdock.platform.clock import SystemClock
from crossdock.platform.ids import RandomIds
from crossdock.platform.local.control import LocalControl
from crossdock.platform.local.launcher import ProcessLauncher
from crossdock.platform.meter import CountingMeter
from crossdock.progress import StageProgress, read_progress
from crossdock.scheduler import Limits
from crossdock.settings import Settings
from crossdock.submit import QueryOptions, submit
from crossdock.summary import Summary

__all__ = ["LocalPlatform", "worker_for_process"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: Answers and receipts are kept so long, unless a client removes them before.
RETENTION_SECONDS = 86_400.0
#: Changes made within this time of each other are seen by one turn.
COALESCE_SECONDS = 0.002
#: Longest pause of a driver: so long it may take to see that a worker process died.
GLANCE_SECONDS = 0.1
#: Closing a query takes at most this long; what is left then is the janitor's.
CLOSING_SECONDS = 10.0
#: A worker process that has not left its query so long after the end is killed.
ABORT_SECONDS = 5.0
#: What workers get to report before their processes are ended.
GOODBYE_SECONDS = 1.0
#: Worker processes end within this after their client died.
ORPHAN_SECONDS = 2.0
#: The janitor leaves ownerless objects younger than this alone.
GRACE_SECONDS = 300.0


class LocalPlatform:
    """Queries on this machine. Threads may share one; one thread waits for a query."""

    def __init__(self, home: Path, settings: Settings, *, observer: str = "") -> None:
        """Open or make ``home``. No process starts before ``prewarm`` or the first query.

        ``observer`` names a function that worker processes tell of each step, for tests.
        """
        self.home = Home(home)
        self.settings = settings
        self.meter = CountingMeter()
        self._parts = open_parts(self.home, self.meter)
        self.medium = self._parts.medium
        self.store = self.medium.store
        self.objects = self.medium.objects
        self._clock = SystemClock()
        self._ids = RandomIds()
        self._control = LocalControl()
        self._options = QueryOptions.of(settings, owner=this_process())
        self._own: dict[QueryId, in_process.OwnTask] = {}
        self._closings: dict[QueryId, Future[None]] = {}
        self._open: set[QueryId] = set()
        self._lock = threading.Lock()
        self._ending = threading.Lock()  # ends of own queries are whole before the store closes
        self._closer = ThreadPoolExecutor(1, thread_name_prefix="close-query")
        self._closed = False
        self._recorder = ThreadPoolExecutor(1, thread_name_prefix="record-query")
        # Starts its thread: Ctrl-C could cut that in two as well.
        self._recorder.submit(lambda: None).result()
        self._processes = self._make_processes(home, observer)
        self.launcher = Watch(self._processes, self.store)
        self.coordinator = self._make_coordinator()

    def _make_processes(self, home: Path, observer: str) -> ProcessLauncher:
        return ProcessLauncher(
            home,
            "crossdock.local:worker_for_process",
            maximum=self.settings.worker_count,
            arguments={
                "memory": str(self.settings.memory_per_worker),
                "threads": str(self.settings.worker_threads),
                "observer": observer,
            },
            on_end=lambda launch: self._control.notify(launch.query_id),
        )

    def _make_coordinator(self) -> Coordinator:
        return Coordinator(
            self.medium,
            launcher=self.launcher,
            control=self._control,
            clock=self._clock,
            ids=self._ids,
            limits=Limits(budget=self.settings.worker_count, skew=1.0),
            terms=Terms(
                launch_seconds=60.0,
                life_seconds=LIFE_SECONDS,
                retention_seconds=RETENTION_SECONDS,
            ),
            meter=self.meter,
        )

    def prewarm(self) -> None:
        """Start all worker processes now; they wait for work."""
        self._processes.prewarm(self.settings.worker_count)

    def close(self) -> None:
        """Cancel what still runs, end the workers, close every query of this process.

        Closing again is no error.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
        # A query that was being made, or a turn that was taken, when Ctrl-C came is whole now.
        self._recorder.submit(lambda: None).result()
        with self._lock:
            still_open, own = tuple(self._open), tuple(self._own)
        for query_id in own:
            self.end_in_process(query_id, QueryStatus.CANCELLED, error=CANCELLED)
        with self._ending:
            pass  # a query that another thread was just ending has its writes behind it now
        for query_id in still_open:
            self.cancel(query_id)
        # Workers that may say goodbye do so now; the others are ended, and known to be.
        wait(self._closings.values(), timeout=GOODBYE_SECONDS)
        self._processes.close()
        self._closer.shutdown(wait=True)
        self._recorder.shutdown(wait=True)
        self._parts.close()

    # -- a query on workers ----------------------------------------------------------------------
    def submit(self, plan: StagePlan) -> QueryId:
        """Write the query; nothing runs before ``wait``."""

        def written() -> QueryId:
            query_id = submit(
                self.store, self.objects, plan, self._options, clock=self._clock, ids=self._ids
            )
            with self._lock:
                self._open.add(query_id)
            return query_id

        return self._whole(written)

    def wait(self, query_id: QueryId, on_change: Callable[[], None] = lambda: None) -> QueryRecord:
        """Take turns until the query has ended; it is swept and closed in the background then.

        ``on_change`` is called after every turn; what it raises leaves the query RUNNING.
        """
        left = threading.Event()  # this wait, by an error of any kind
        # What changes after this ends the first pause.
        self._whole(lambda: self._parts.store.wait_for_change(0.0))
        try:
            while True:
                query, delay = self._whole(lambda: self._turn(query_id))
                if query.status is not QueryStatus.RUNNING:
                    return query
                on_change()
                # In the thread of the turns: to another one their own writes would be news.
                self._whole(lambda delay=delay: self._pause(query_id, delay, left))  # type: ignore[misc]
        finally:
            left.set()

    def _turn(self, query_id: QueryId) -> tuple[QueryRecord, float]:
        """One turn: the query, which is being closed if it has ended, and seconds to the next.

        Cut in two by Ctrl-C it would keep the turn's lease, and nobody could close the query.
        """
        result = self.coordinator.turn(query_id)
        query = result.query or self.store.get_query(query_id)
        if query.status is not QueryStatus.RUNNING:
            self._close_soon(query_id)
        return query, result.delay

    def cancel(self, query_id: QueryId, error: ErrorRecord | None = None) -> QueryRecord:
        """End it CANCELLED, unless it has ended; the record as it stands.

        From any thread or process; running workers stop within a heartbeat. Raises ``NotFound``.
        """

        def cancelled() -> QueryRecord:
            query = self.coordinator.cancel(query_id, error)
            if query_id in self._open:
                self._close_soon(query_id)
            return query

        return self._whole(cancelled)

    def finish(self, query_id: QueryId, *, patience: float = CLOSING_SECONDS) -> bool:
        """Sweep and close an ended query, in this thread. False: not settled within ``patience``.

        What is not settled then (a worker that does not answer) is left to ``gc``.
        """
        started = time.monotonic()
        self._parts.store.wait_for_change(0.0)
        while not (result := self.coordinator.turn(query_id)).finished:
            passed = time.monotonic() - started
            if passed >= patience:
                _log.warning("query %s is not closed yet; gc will finish it", query_id)
                return False
            if passed >= ABORT_SECONDS:
                self._processes.end(
                    one.worker_id for one in self._processes.held() if one.query_id == query_id
                )
            self._pause(query_id, min(result.delay, ABORT_SECONDS / 5))
        shutil.rmtree(self.home.scratch / query_id, ignore_errors=True)
        return True

    def _close_soon(self, query_id: QueryId) -> None:
        with self._lock:
            self._open.discard(query_id)
            if query_id not in self._closings:
                self._closings[query_id] = self._closer.submit(self._close, query_id)

    def _close(self, query_id: QueryId) -> None:
        self.finish(query_id)

    def settle(self, query_id: QueryId) -> None:
        """Wait until an ended query of this process is closed (at most about 10 s)."""
        with self._lock:
            closing = self._closings.pop(query_id, None)
        if closing is not None:
            closing.result()

    def _pause(self, query_id: QueryId, delay: float, left: threading.Event | None = None) -> None:
        """Until something of any query changed, or a turn is due; then let changes gather.

        Short, if who waited has ``left``.
        """
        deadline = time.monotonic() + delay
        while (rest := deadline - time.monotonic()) > 0:
            if query_id in self._control.knocked() or (left is not None and left.is_set()):
                return
            if self._parts.store.wait_for_change(min(rest, GLANCE_SECONDS)):
                self._clock.sleep(COALESCE_SECONDS)
                return

    # -- looking at queries ----------------------------------------------------------------------
    def progress(self, query_id: QueryId) -> Summary:
        """The figures of a query in any state; an ended one of this process is closed first.

        Raises ``NotFound``.
        """
        self.settle(query_id)
        return summary.recall(self.store, self.objects, query_id)

    def stages(self, query_id: QueryId) -> tuple[StageProgress, ...]:
        """How far each stage has come. Raises ``NotFound`` for a closed query."""
        return read_progress(self.store, query_id)

    def queries(self, limit: int = 100) -> Sequence[QueryRecord]:
        """Newest first, those of other clients of the home included."""
        return self.store.list_queries(limit=limit)

    def result_files(self, record: QueryRecord) -> Sequence[Path]:
        """The answer's Parquet files in row order; there until ``discard``."""
        keys = cleanup.result_keys(self.objects, record)
        return [self.home.object_path(key) for key in keys]

    def discard(self, query_id: QueryId) -> None:
        """Delete the answer of an ended query, once it is closed. The receipt stays."""
        self.settle(query_id)
        try:
            record = self.store.get_query(query_id)
        except NotFound:
            return
        if record.status is not QueryStatus.RUNNING:
            self._whole(lambda: cleanup.discard_result(self.objects, record))

    def usage(self) -> Mapping[str, int]:
        """Requests of this process so far, by kind."""
        return self.meter.usage()

    # -- a one-task query in this process --------------------------------------------------------
    def begin_in_process(
        self, plan: StagePlan, on_cancel: Callable[[], None] | None = None
    ) -> QueryId:
        """Record a query that the caller runs itself.

        ``on_cancel`` is called, from another thread, when somebody else ends the query.
        """

        def written() -> QueryId:
            own = in_process.begin(
                self.store,
                plan,
                self._options,
                clock=self._clock,
                ids=self._ids,
                on_cancel=on_cancel,
            )
            with self._lock:
                self._own[own.task.query_id] = own
            return own.task.query_id

        return self._whole(written)

    def _whole(self, call: Callable[[], T]) -> T:
        """Run ``call`` where Ctrl-C cannot cut it in two: its caller leaves, it goes on.

        Ctrl-C reaches the main thread only; the calls of that one follow one another.
        """
        if self._closed or threading.current_thread() is not threading.main_thread():
            return call()
        return self._recorder.submit(call).result()

    def end_in_process(
        self,
        query_id: QueryId,
        status: QueryStatus,
        *,
        rows: int = 0,
        error: ErrorRecord | None = None,
    ) -> QueryRecord:
        """End and close it; the record as it stands: it may have been cancelled meanwhile."""

        def ended() -> QueryRecord:
            with self._ending:
                with self._lock:
                    own = self._own.pop(query_id, None)
                if own is None:  # ``close`` of another thread came first
                    return self.store.get_query(query_id)
                now = self._clock.now()
                return in_process.end(
                    self.medium,
                    own,
                    status,
                    rows=rows,
                    error=error,
                    now=now,
                    expires_at=now + RETENTION_SECONDS,
                )

        return self._whole(ended)

    # -- the janitor -----------------------------------------------------------------------------
    def gc(self, *, grace_seconds: float = GRACE_SECONDS) -> int:
        """Finish orphaned queries and delete what no query owns; how many things went."""
        orphans = janitor.orphans(self.medium)
        for query_id in orphans:
            self.cancel(query_id, janitor.ORPHANED)
        if any(janitor.unsettled_workers(self.medium, query_id) for query_id in orphans):
            self._clock.sleep(ORPHAN_SECONDS)
        for query_id in orphans:
            self.launcher.orphans.update(janitor.unsettled_workers(self.medium, query_id))
            self.finish(query_id)
        swept = janitor.sweep_home(
            self.medium,
            self.home,
            now=self._clock.now(),
            grace_seconds=grace_seconds,
            keep_seconds=RETENTION_SECONDS,
        )
        return len(orphans) + swept
