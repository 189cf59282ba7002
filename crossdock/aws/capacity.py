"""The deployment's budget of workers, shared by all queries at once."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator_state.errors import NotFound
from coordinator_state.ids import QueryId
from coordinator_state.records import WorkerRecord
from coordinator_state.store import StateStore
from crossdock.platform.aws.parallel import in_parallel
from crossdock.platform.ports import Clock, Launch, Launcher
from crossdock.scheduler.snapshot import OFF


class BudgetedLauncher:
    """Accepts no more launches than the deployment's budget has left (``ports.Launcher``).

    Workers are written down before they are launched, so every coordinator sees the same list: all
    that may live, oldest first. The first ``budget`` of it are within the budget, whoever asks.
    Nothing is counted up and down, so nothing can drift. A launch just written elsewhere may be
    missed; what that exceeds, the functions' reserved concurrency holds back.
    """

    def __init__(self, launcher: Launcher, store: StateStore, clock: Clock, *, budget: int) -> None:
        self._launcher = launcher
        self._store = store
        self._clock = clock
        self._budget = budget

    def launch(self, launches: Sequence[Launch]) -> Sequence[Launch]:
        within = self._within({QueryId(launch.query_id) for launch in launches})
        allowed = [launch for launch in launches if launch.worker_id in within]
        return self._launcher.launch(allowed) if allowed else ()

    def gone(self, worker_ids: Sequence[str]) -> frozenset[str]:
        return self._launcher.gone(worker_ids)

    def _within(self, own: set[QueryId]) -> frozenset[str]:
        """Ids of the oldest ``budget`` workers that may live."""
        queries = sorted(own.union(self._store.open_queries()))
        now = self._clock.now()
        living = [
            worker
            for workers in in_parallel(self._workers, queries)
            for worker in workers
            if worker.status not in OFF and worker.life_until > now
        ]
        living.sort(key=lambda worker: (worker.launched_at, worker.worker_id))
        return frozenset(worker.worker_id for worker in living[: self._budget])

    def _workers(self, query_id: QueryId) -> Sequence[WorkerRecord]:
        try:
            return self._store.workers(query_id)
        except NotFound:
            return ()  # closed and forgotten since it was listed
