"""A platform of threads in this process, whose ports can be made to fail.

Real coordinator, workers, scheduler, shuffle and executor over the local media. Tests wrap a port
(``Wrapped``) or give workers an observer; nothing else is special about it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from coordinator_state.errors import NotFound, StateError
from coordinator_state.ids import QueryId
from coordinator_state.records import QueryRecord, QueryStatus, TaskRecord
from crossdock import cleanup, summary
from crossdock.coordinator import Coordinator, Terms
from crossdock.executor import Executor
from crossdock.local.home import Home, open_parts
from crossdock.planner.plan import StagePlan
from crossdock.platform.clock import SystemClock
from crossdock.platform.ids import RandomIds
from crossdock.platform.local.control import LocalControl
from crossdock.platform.meter import CountingMeter
from crossdock.platform.ports import Launch
from crossdock.scheduler import Limits
from crossdock.submit import QueryOptions, submit
from crossdock.summary import Summary
from crossdock.worker import Habits, ProcessUnfit, Tools, Worker

MEMORY = 300_000_000
#: Longest that any query in here may take, in seconds.
PATIENCE = 60.0

Fault = Callable[..., object]


class Wrapped:
    """A port of which some verbs are others: ``verb=function(real verb, *arguments)``."""

    def __init__(self, port: object, **verbs: Fault) -> None:
        self._port = port
        self._verbs = verbs

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._port, name)
        instead = self._verbs.get(name)
        if instead is None:
            return real
        return lambda *args, **kwargs: instead(real, *args, **kwargs)


@dataclass(kw_only=True)
class Yard:
    """Queries on threads. ``queues``, ``objects``, ``store``: faults of the workers' ports."""

    folder: Path
    workers: int = 2
    queues: Mapping[str, Fault] = field(default_factory=dict)
    objects: Mapping[str, Fault] = field(default_factory=dict)
    store: Mapping[str, Fault] = field(default_factory=dict)
    observer: Callable[[str, TaskRecord], None] = lambda step, task: None
    habits: Habits = field(default_factory=lambda: Habits(beat_seconds=0.1, idle_seconds=0.5))
    deliveries: int = 1  # of each launch, at once
    skew: float = 0.2  # seconds granted beyond leases and lives

    def __post_init__(self) -> None:
        self.home = Home(self.folder / "home")
        self.parts = open_parts(self.home, CountingMeter())
        self.medium = self.parts.medium
        self.steps: list[tuple[str, int, int, int]] = []  # step, stage, index, attempt
        self.running: dict[str, list[threading.Thread]] = {}
        self.unfit: list[str] = []
        self.coordinator = Coordinator(
            self.medium,
            launcher=self,
            control=LocalControl(),
            clock=SystemClock(),
            ids=RandomIds(),
            limits=Limits(budget=self.workers, skew=self.skew),
            terms=Terms(launch_seconds=10.0, life_seconds=60.0),
        )

    # -- the launcher ------------------------------------------------------------------------------
    def launch(self, launches: Sequence[Launch]) -> Sequence[Launch]:
        for launch in launches:
            threads = [
                threading.Thread(target=self._work, args=(launch,)) for _ in range(self.deliveries)
            ]
            self.running[launch.worker_id] = threads
            for thread in threads:
                thread.start()
        return launches

    def gone(self, worker_ids: Sequence[str]) -> frozenset[str]:
        return frozenset(
            one
            for one in worker_ids
            if one in self.running and not any(t.is_alive() for t in self.running[one])
        )

    def _work(self, launch: Launch) -> None:
        try:
            Worker(self._tools()).run(launch)
        except ProcessUnfit as error:
            self.unfit.append(str(error))

    def _tools(self) -> Tools:
        medium: Any = self.medium
        return Tools(
            store=Wrapped(medium.store, **self.store),  # type: ignore[arg-type]
            queues=Wrapped(medium.queues, **self.queues),  # type: ignore[arg-type]
            objects=Wrapped(medium.objects, **self.objects),  # type: ignore[arg-type]
            control=LocalControl(),
            clock=SystemClock(),
            ids=RandomIds(),
            meter=CountingMeter(),
            scratch=self.home.scratch,
            make_executor=lambda folder: Executor(folder, MEMORY, 1),
            wait=self.parts.store.wait_for_change,
            habits=self.habits,
            observer=self._observe,
        )

    def _observe(self, step: str, task: TaskRecord) -> None:
        self.steps.append((step, int(task.stage), task.index, task.attempt))
        self.observer(step, task)

    # -- queries -----------------------------------------------------------------------------------
    def submit(self, plan: StagePlan, **options: Any) -> QueryId:
        return submit(
            self.medium.store,
            self.medium.objects,
            plan,
            QueryOptions(**{"workers": self.workers, "lease_seconds": 1.0, **options}),
            clock=SystemClock(),
            ids=RandomIds(),
        )

    def drive(self, query_id: QueryId) -> QueryRecord:
        """Turns until the query is closed; the record of its end."""
        deadline = time.monotonic() + PATIENCE
        while not (result := self.coordinator.turn(query_id)).finished:
            assert time.monotonic() < deadline, "the query was not closed"
            if result.delay:
                self.parts.store.wait_for_change(min(result.delay, 0.05))
        return self.medium.store.get_query(query_id)

    def run(self, plan: StagePlan, **options: Any) -> QueryRecord:
        return self.drive(self.submit(plan, **options))

    def rows(self, record: QueryRecord) -> list[tuple[Any, ...]]:
        assert record.status is QueryStatus.SUCCEEDED, record.error
        files = [str(self.home.object_path(key)) for key in self.result_keys(record)]
        with duckdb.connect() as connection:
            return connection.execute("FROM read_parquet(?)", [files]).fetchall()

    def result_keys(self, record: QueryRecord) -> tuple[str, ...]:
        return cleanup.result_keys(self.medium.objects, record)

    def figures(self, record: QueryRecord) -> Summary:
        return summary.recall(self.medium.store, self.medium.objects, record.query_id)

    def close(self) -> None:
        for threads in self.running.values():
            for thread in threads:
                thread.join(PATIENCE)
        self.parts.close()

    def leftovers(self, record: QueryRecord) -> list[str]:
        """What the closed query left beside its answer and its receipt."""
        kept = {*self.result_keys(record), record.result_key}
        found = [
            o.key
            for o in self.medium.objects.list("")
            if o.key not in kept and not o.key.startswith("receipt/")
        ]
        found += self.medium.queues.names("")
        try:
            found += [f"{e.kind} {e.name}" for e in self.medium.store.owned(record.query_id)]
            found += [f"worker {w.worker_id}" for w in self.medium.store.workers(record.query_id)]
            found += [f"stage {s.stage}" for s in self.medium.store.stages(record.query_id)]
        except NotFound:
            pass  # purged, as it should be
        return found


__all__ = ["Fault", "StateError", "Wrapped", "Yard"]
