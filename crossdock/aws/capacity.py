"""The deployment's budget of workers, shared by all queries at once."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from coordinator_state.errors import NotFound
from coordinator_state.ids import QueryId
from coordinator_state.records import WorkerRecord, WorkerStatus
from coordinator_state.store import StateStore
from crossdock.coordinator import CROWDED_SECONDS
from crossdock.platform.aws.parallel import InParallel, in_parallel
from crossdock.platform.ports import Clock, Launch, Launcher

#: Queries that wait for workers ask often; what is left is counted no more often than this, in
#: seconds. Each count reads the workers of every open query.
COUNT_SECONDS = 1.0
#: All open queries together ask for room once in so many seconds, if each asks rarely enough.
ASK_SECONDS = 0.25


class BudgetedLauncher:
    """Accepts no more launches than the deployment's budget has left (``ports.Launcher``).

    Workers are written down before they are launched, so every coordinator sees the same list: all
    that may live, oldest first. The first ``budget`` of it are within the budget, whoever asks.
    Nothing is counted up and down, so nothing can drift. A launch just written elsewhere may be
    missed; what that exceeds, the functions' reserved concurrency holds back.

    A count reads the workers of every open query. It is never left out: a query may have more
    workers than it asked for, those that were given up but still run.
    """

    def __init__(
        self,
        launcher: Launcher,
        store: StateStore,
        clock: Clock,
        *,
        budget: int,
        parallel: InParallel = in_parallel,
    ) -> None:
        self._launcher = launcher
        self._store = store
        self._clock = clock
        self._budget = budget
        self._parallel = parallel
        self._lock = threading.Lock()
        self._counted_at = -COUNT_SECONDS
        self._left = budget
        self._open = 0  # queries, when it was last counted

    def launch(self, launches: Sequence[Launch]) -> Sequence[Launch]:
        own = {QueryId(launch.query_id) for launch in launches}
        oldest = self._living(own.union(self._store.open_queries()))[: self._budget]
        within = {worker.worker_id for worker in oldest}
        allowed = [launch for launch in launches if launch.worker_id in within]
        with self._lock:
            self._left -= len(allowed)
        return self._launcher.launch(allowed) if allowed else ()

    def room(self) -> int:
        """Launches left within the budget, as of a moment ago."""
        with self._lock:
            now = self._clock.now()
            if now >= self._counted_at + COUNT_SECONDS:
                queries = self._store.open_queries()
                living = self._living(queries)
                self._counted_at, self._left = now, self._budget - len(living)
                self._open = len(queries)
            return max(0, self._left)

    def patience(self) -> float:
        """Seconds until a query that found no room should ask again."""
        with self._lock:
            return max(CROWDED_SECONDS, ASK_SECONDS * self._open)

    def gone(self, worker_ids: Sequence[str]) -> frozenset[str]:
        return self._launcher.gone(worker_ids)

    def _living(self, queries: Iterable[QueryId]) -> list[WorkerRecord]:
        """Workers of these queries that may live, oldest first."""
        now = self._clock.now()
        living = [
            worker
            for workers in self._parallel(self._workers, sorted(queries))
            for worker in workers
            if _has_slot(worker) and worker.life_until > now
        ]
        living.sort(key=lambda worker: (worker.launched_at, worker.worker_id))
        return living

    def _workers(self, query_id: QueryId) -> Sequence[WorkerRecord]:
        try:
            return self._store.workers(query_id)
        except NotFound:
            return ()  # closed and forgotten since it was listed


def _has_slot(worker: WorkerRecord) -> bool:
    """Whether its invocation may still run, or be about to.

    One that was given up because it was silent may only be slow. Lambda tells of those that died,
    and that is written down as their goodbye. One that never came is sent away when it does.
    """
    if worker.status is WorkerStatus.LOST:
        return bool(worker.registered_at) and not worker.left_at
    return worker.status is not WorkerStatus.LEFT
