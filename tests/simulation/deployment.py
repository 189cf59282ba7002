"""What a seed's deployment looks like, and its queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator_state.ids import QueryId
from coordinator_state.records import QueryRecord
from crossdock.planner.plan import StagePlan
from crossdock.submit import QueryOptions
from tests.simulation.fragments import Row
from tests.simulation.weather import Forecast

LEASE = 6.0
LIFE = 90.0  # seconds after which the platform ends a worker's invocation
LAUNCH = 15.0
TURN = 10.0
REVIVE = 60.0  # between two cheap rounds of the janitor
GRACE = 300.0
KEEP_DAYS = 0.5
NOT_YET = QueryId("")


@dataclass(slots=True)
class Case:
    """One query of a seed, and what became of it."""

    plan: StagePlan
    options: QueryOptions
    at: float = 0.0  # submitted so many seconds after the start
    cancel_at: float | None = None  # so many seconds after that
    query_id: QueryId = NOT_YET
    submitted_at: float = 0.0
    visible: bool = False  # the query item was written
    record: QueryRecord | None = None  # as it ended
    ended_at: float = 0.0
    last_commit_at: float = 0.0
    closed_at: float = 0.0
    rows: list[Row] | None = None
    runs: list[int] = field(default_factory=list)  # that wrote the result

    @property
    def tasks(self) -> int:
        return sum(stage.tasks for stage in self.plan.stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a seed's deployment looks like."""

    cases: Sequence[Case]
    weather: Forecast
    concurrency: int = 4  # of the deployment
    query_workers: int = 4
    pool: int = 3  # queues of the stack's pool
    max_handbacks: int = 16
    entries: int = 4000  # in one envelope at most
