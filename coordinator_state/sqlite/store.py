"""The state store in one SQLite file; each verb is one short transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from coordinator_state import changes, rulings
from coordinator_state.changes import Changes
from coordinator_state.errors import AlreadyExists
from coordinator_state.ids import QueryId, WorkerId
from coordinator_state.records import WorkerRecord
from coordinator_state.sqlite import rows
from coordinator_state.sqlite.database import Database
from coordinator_state.sqlite.queries import QueryVerbs
from coordinator_state.sqlite.shared import SharedVerbs
from coordinator_state.sqlite.stages import StageVerbs
from coordinator_state.sqlite.tasks import TaskVerbs
from coordinator_state.store import StateStore
from coordinator_state.transitions import WORKER_MOVES, landed


class SqliteStateStore(QueryVerbs, StageVerbs, TaskVerbs, SharedVerbs, StateStore):
    """Safe for many threads and processes at once, and across ``fork``."""

    def __init__(self, path: Path | str, *, busy_seconds: float = 10.0) -> None:
        """Open ``path``, making it if absent; wait up to ``busy_seconds`` for other writers."""
        self._database = Database(Path(path), busy_seconds=busy_seconds)

    @property
    def path(self) -> Path:
        return self._database.path

    def wait_for_change(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds until another thread or process has changed something.

        True at once if that happened since this thread last returned from here.
        """
        return self._database.wait_for_change(timeout)

    def close(self) -> None:
        self._database.close()

    # -- workers ---------------------------------------------------------------------------------
    def add_worker(self, worker: WorkerRecord) -> None:
        with self._database.write() as cx:
            rulings.require_running(rows.get_query(cx, worker.query_id))
            existing = rows.find_worker(cx, worker.query_id, worker.worker_id)
            if existing is not None:
                raise AlreadyExists(f"worker {worker.worker_id} exists", current=existing)
            rows.insert_worker(cx, worker)

    def register_worker(
        self, query_id: QueryId, worker_id: WorkerId, *, now: float, life_until: float
    ) -> WorkerRecord:
        with self._database.write() as cx:
            worker = rows.get_worker(cx, query_id, worker_id)
            rulings.require_registrable(worker)
            return rows.change_worker(
                cx, worker, changes.registered(now=now, life_until=life_until)
            )

    def drain_worker(self, query_id: QueryId, worker_id: WorkerId) -> WorkerRecord:
        return self._move_worker("drain_worker", query_id, worker_id, changes.DRAINED)

    def lose_worker(self, query_id: QueryId, worker_id: WorkerId) -> WorkerRecord:
        return self._move_worker("lose_worker", query_id, worker_id, changes.LOST)

    def leave_worker(
        self, query_id: QueryId, worker_id: WorkerId, *, now: float, usage: Mapping[str, int]
    ) -> None:
        with self._database.write() as cx:
            worker = rows.get_worker(cx, query_id, worker_id)
            leaving = WORKER_MOVES["leave_worker"].starts_from(worker.status)
            change = changes.left if leaving else changes.left_late
            rows.change_worker(cx, worker, change(now=now, usage=usage))

    def report_usage(
        self, query_id: QueryId, worker_id: WorkerId, usage: Mapping[str, int]
    ) -> WorkerRecord:
        with self._database.write() as cx:
            worker = rows.get_worker(cx, query_id, worker_id)
            return rows.change_worker(cx, worker, changes.used(usage))

    def workers(self, query_id: QueryId) -> Sequence[WorkerRecord]:
        with self._database.read() as cx:
            found = rows.get_workers(cx, query_id)
            if not found:
                rows.get_query(cx, query_id)
            return found

    def _move_worker(
        self, verb: str, query_id: QueryId, worker_id: WorkerId, change: Changes
    ) -> WorkerRecord:
        with self._database.write() as cx:
            worker = rows.get_worker(cx, query_id, worker_id)
            name = f"worker {worker_id}"
            if landed(WORKER_MOVES[verb], worker.status, name, current=worker):
                return worker
            return rows.change_worker(cx, worker, change)
