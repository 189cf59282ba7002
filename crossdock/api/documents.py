"""Records as the documents callers see."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from coordinator_state.records import (
    ErrorRecord,
    QueryRecord,
    StageRecord,
    TaskRecord,
    TaskStatus,
)
from crossdock.api.head import Head
from crossdock.api.messages import Column
from crossdock.api.models import (
    CostDocument,
    CostLine,
    ErrorDocument,
    Links,
    QueryDocument,
    ReceiptDocument,
    StageDocument,
)
from crossdock.receipt import of_summary
from crossdock.summary import StageSummary, Summary, summarize_stage

VERSION = "/v1"


def query(
    record: QueryRecord, head: Head, *, now: float, stages: tuple[StageDocument, ...] = ()
) -> QueryDocument:
    """Without a receipt."""
    ended = record.ended_at
    address = f"{VERSION}/queries/{record.query_id}"
    return QueryDocument(
        query_id=record.query_id,
        status=record.status,
        sql=head.sql or record.sql,
        exchange=record.exchange,
        created_at=_time(record.created_at),
        ended_at=None if ended is None else _time(ended),
        seconds=round(max(0.0, (now if ended is None else ended) - record.created_at), 3),
        rows=record.result_rows if ended is not None and record.error is None else None,
        columns=columns(head),
        stages=stages,
        error=error(record.error),
        links=Links(self=address, results=f"{address}/results"),
    )


def columns(head: Head) -> tuple[Column, ...]:
    return tuple(Column(name=column.name, type=column.type) for column in head.columns)


def error(record: ErrorRecord | None) -> ErrorDocument | None:
    if record is None:
        return None
    return ErrorDocument(
        kind=record.kind,
        message=record.message,
        retryable=record.retryable,
        subject=record.subject,
    )


def running_stages(
    stages: Sequence[StageRecord],
    tasks: Mapping[int, Sequence[TaskRecord]],
    labels: Sequence[str],
) -> tuple[StageDocument, ...]:
    """Stages of a query that is not closed; ``tasks`` by stage, where any could have moved."""
    return tuple(
        _stage(
            summarize_stage(stage, tasks.get(stage.stage, ())),
            labels,
            running=sum(t.status is TaskStatus.RUNNING for t in tasks.get(stage.stage, ())),
        )
        for stage in stages
    )


def closed_stages(summary: Summary, labels: Sequence[str]) -> tuple[StageDocument, ...]:
    return tuple(_stage(stage, labels) for stage in summary.stages)


def receipt(summary: Summary, labels: Sequence[str]) -> ReceiptDocument:
    """What the query used so far, priced."""
    priced = of_summary(summary, labels=labels, seconds=0.0)
    cost = priced.cost
    return ReceiptDocument(
        workers=summary.workers,
        worker_seconds=round(summary.worker_seconds, 3),
        requests=dict(priced.requests),
        cost=CostDocument(
            total=cost.total,
            region=cost.region,
            as_of=cost.as_of.isoformat(),
            items=tuple(
                CostLine(
                    service=item.service,
                    what=item.what,
                    amount=item.amount,
                    unit_price=item.unit_price,
                    dollars=item.dollars,
                )
                for item in cost.items
            ),
        ),
    )


def _stage(stage: StageSummary, labels: Sequence[str], *, running: int = 0) -> StageDocument:
    return StageDocument(
        stage=stage.stage,
        label=labels[stage.stage] if stage.stage < len(labels) else "",
        status=stage.status,
        tasks=stage.tasks,
        committed=stage.committed,
        running=running,
        attempts=stage.attempts,
        failures=stage.failures,
        rows_in=stage.rows_in,
        bytes_in=stage.bytes_in,
        rows_out=stage.rows_out,
        bytes_out=stage.bytes_out,
        seconds=round(stage.seconds, 3),
        longest=round(stage.longest, 3),
        peak_memory=stage.peak_memory,
    )


def _time(seconds: float) -> str:
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
