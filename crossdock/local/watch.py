"""The launcher as the coordinator of a home folder sees it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coordinator_state.ids import QueryId
from coordinator_state.records import WorkerStatus
from coordinator_state.store import StateStore
from crossdock.platform.local.launcher import ProcessLauncher
from crossdock.platform.ports import Launch


class Watch:
    """Launches of this process; and workers of dead clients, which died with them."""

    def __init__(self, processes: ProcessLauncher, store: StateStore) -> None:
        self._processes = processes
        self._store = store
        self.orphans: set[str] = set()

    def launch(self, launches: Sequence[Launch]) -> Sequence[Launch]:
        """What finds no place now may find that of a worker which was given up as silent."""
        accepted = self._processes.launch(launches)
        if len(accepted) < len(launches):
            self._processes.end(self._given_up())
        return accepted

    def _given_up(self) -> Iterator[str]:
        held = self._processes.held()
        for query_id in {QueryId(launch.query_id) for launch in held}:
            lost = {
                w.worker_id for w in self._store.workers(query_id) if w.status is WorkerStatus.LOST
            }
            yield from lost.intersection(launch.worker_id for launch in held)

    def gone(self, worker_ids: Sequence[str]) -> frozenset[str]:
        return self._processes.gone(worker_ids) | self.orphans.intersection(worker_ids)
