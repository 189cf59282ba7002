"""From a stage plan to a query that a coordinator may drive: the plan object, then the items."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from coordinator_state.errors import QueryEnded
from coordinator_state.ids import QueryId, StageId
from coordinator_state.records import LedgerEntry, LedgerKind, QueryRecord, StageRecord
from coordinator_state.store import StateStore
from crossdock.engine_build import engine_build
from crossdock.errors import ObjectExists
from crossdock.planner.plan import StagePlan, WriteKind, encode_plan
from crossdock.platform.ports import Clock, Ids, Objects
from crossdock.settings import Exchange, Settings
from crossdock.shuffle.layout import plan_key


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions:
    """What a submitted query pins. Times in seconds."""

    exchange: Exchange = Exchange.AUTO
    workers: int = 0  # budget; 0: the coordinator's default
    max_attempts: int = 4
    lease_seconds: float = 30.0
    timeout_seconds: float | None = None
    client_token: str = ""
    owner: str = ""

    @classmethod
    def of(cls, settings: Settings, *, owner: str = "", client_token: str = "") -> QueryOptions:
        return cls(
            exchange=settings.exchange,
            workers=settings.worker_count,
            max_attempts=settings.max_attempts,
            lease_seconds=settings.lease_seconds,
            timeout_seconds=settings.timeout_seconds,
            client_token=client_token,
            owner=owner,
        )


def submit(
    store: StateStore,
    objects: Objects,
    plan: StagePlan,
    options: QueryOptions,
    *,
    clock: Clock,
    ids: Ids,
    query_id: QueryId | None = None,
) -> QueryId:
    """Write the plan object, then the query with its stages and tasks; nothing runs yet.

    A crash in between leaves a plan object without a query, which the janitor removes.
    """
    new_id = query_id or QueryId(ids.query_id())
    key = plan_key(new_id)
    put_plan(objects, key, plan)
    store.create_query(
        query_record(new_id, plan, options, now=clock.now(), key=key), stage_records(new_id, plan)
    )
    own_target(store, new_id, plan, now=clock.now())
    return new_id


def put_plan(objects: Objects, key: str, plan: StagePlan) -> None:
    """Write the plan object. Raises ``ObjectExists`` if another plan is there."""
    encoded = encode_plan(plan)
    try:
        objects.put(key, encoded)
    except ObjectExists:
        # A first put whose answer was lost: the key is this query's own.
        if objects.get(key) != encoded:
            raise


def own_target(store: StateStore, query_id: QueryId, plan: StagePlan, *, now: float) -> None:
    """Let the ledger own what tasks will stage at a target, before one of them runs."""
    if plan.write is None or plan.write.kind is not WriteKind.FILES:
        return
    entry = LedgerEntry(
        query_id=query_id, kind=LedgerKind.MULTIPART, name=plan.write.target, owned_at=now
    )
    with suppress(QueryEnded):  # cancelled already: no task will run
        store.own([entry])


def query_record(
    query_id: QueryId, plan: StagePlan, options: QueryOptions, *, now: float, key: str
) -> QueryRecord:
    """The query as it starts; ``exchange`` auto means queues."""
    timeout = options.timeout_seconds
    exchange = Exchange.S3QS if options.exchange is Exchange.AUTO else options.exchange
    return QueryRecord(
        query_id=query_id,
        created_at=now,
        sql=plan.sql,
        plan_key=key,
        engine_build=engine_build(),
        deadline_at=None if timeout is None else now + timeout,
        exchange=exchange.value,
        max_attempts=options.max_attempts,
        workers=options.workers,
        lease_seconds=options.lease_seconds,
        client_token=options.client_token,
        owner=options.owner,
        writes=plan.write is not None,
    )


def stage_records(query_id: QueryId, plan: StagePlan) -> tuple[StageRecord, ...]:
    return tuple(
        StageRecord(
            query_id=query_id,
            stage=StageId(stage.stage),
            depth=plan.depth(stage.stage),
            upstream=tuple(StageId(u) for u in plan.upstream(stage.stage)),
            tasks=stage.tasks,
            prefix_limit=plan.prefix_limit(stage.stage),
        )
        for stage in plan.stages
    )
