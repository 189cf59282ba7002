"""What the functions are: sizes, timeouts, concurrency, environment. Data only."""

from __future__ import annotations

from collections.abc import Mapping

from infra.constructs.engine_function import FunctionSpec
from infra.settings import Settings
from infra.stacks.queues import COORDINATOR_SECONDS

#: An HTTP API gives up on its function after 30 s.
API_SECONDS = 29
JANITOR_SECONDS = 300

_GB = 1024**3

_LIGHT = ("engine", "base")
_RUNS = (*_LIGHT, "duckdb")
_PLANS = (*_RUNS, "arrow")


def api(settings: Settings, environment: Mapping[str, str]) -> FunctionSpec:
    return FunctionSpec(
        name="api",
        folder="api",
        description="Answers the HTTP API",
        memory_mb=settings.api_memory_mb,
        timeout_seconds=API_SECONDS,
        layers=_LIGHT,
        reserved=_reserved(settings, settings.api_concurrency),
        snap_start=settings.snap_start,
        environment={**environment, **_rules(settings)},
    )


def coordinator(settings: Settings, environment: Mapping[str, str]) -> FunctionSpec:
    return FunctionSpec(
        name="coordinator",
        folder="coordinator",
        description="Plans queries and takes their turns",
        memory_mb=settings.coordinator_memory_mb,
        timeout_seconds=COORDINATOR_SECONDS,
        layers=_PLANS,
        reserved=_reserved(settings, settings.coordinator_concurrency),
        # Its ticks are messages it sends to its own queue, for as long as a query runs.
        loops=True,
        environment={**environment, **_rules(settings)},
    )


def janitor(settings: Settings) -> FunctionSpec:
    return FunctionSpec(
        name="janitor",
        folder="janitor",
        description="Revives forgotten queries and removes what nobody owns",
        memory_mb=settings.api_memory_mb,
        timeout_seconds=JANITOR_SECONDS,
        layers=_RUNS,
        # Its two schedules may ring together.
        reserved=_reserved(settings, 2),
    )


def workers(settings: Settings, kind: str) -> tuple[FunctionSpec, ...]:
    """The copies of a worker function, ``kind`` being ``producer`` or ``consumer``.

    A copy is a function and not an alias, because the launch rate is limited by function.
    """
    memory = {"producer": settings.producer_memory_mb, "consumer": settings.consumer_memory_mb}
    scratch = {"producer": settings.producer_scratch_mb, "consumer": settings.consumer_scratch_mb}
    share = -(-settings.concurrency // settings.worker_copies)
    return tuple(
        FunctionSpec(
            name=f"{kind}-{copy}",
            folder=kind,
            description=f"Runs tasks as a {kind}",
            memory_mb=memory[kind],
            scratch_mb=scratch[kind],
            timeout_seconds=settings.worker_timeout_seconds,
            layers=_RUNS,
            reserved=_reserved(settings, share),
            # Coordinator, worker, control queue, coordinator: one round for each launch that
            # follows from another's goodbye.
            loops=True,
        )
        for copy in range(settings.worker_copies)
    )


def _rules(settings: Settings) -> Mapping[str, str]:
    """What callers are allowed."""
    return {
        "CROSSDOCK_AUTH": settings.auth,
        "CROSSDOCK_OTHER_OWNERS": settings.other_owners,
        "CROSSDOCK_MAX_OPEN_QUERIES": str(settings.open_queries),
        "CROSSDOCK_MAX_SCANNED_BYTES": str(settings.max_scanned_gb * _GB),
    }


def _reserved(settings: Settings, amount: int) -> int | None:
    return amount if settings.reserve_concurrency else None
