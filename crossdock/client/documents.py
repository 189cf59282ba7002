"""Documents of the HTTP API as what local queries give: progress and receipts."""

from __future__ import annotations

import datetime

from coordinator_state.records import StageStatus
from crossdock.api.models import QueryDocument, ReceiptDocument, StageDocument
from crossdock.pricing import US_EAST_1, Cost, CostItem
from crossdock.progress import StageProgress
from crossdock.receipt import Receipt, StageReceipt


def progress_of(document: QueryDocument) -> tuple[StageProgress, ...]:
    """How far each stage has come."""
    return tuple(
        StageProgress(
            stage=stage.stage,
            status=StageStatus(stage.status),
            total=stage.tasks,
            done=stage.committed,
            running=stage.running,
            rows=stage.rows_out,
            bytes=stage.bytes_out,
        )
        for stage in document.stages
    )


def receipt_of(document: QueryDocument, *, seconds: float) -> Receipt:
    """What the deployment knows so far; ``seconds`` as the client saw them."""
    known = document.receipt
    return Receipt(
        query_id=document.query_id,
        status=document.status.value,
        exchange=document.exchange,
        seconds=seconds,
        workers=known.workers if known else 0,
        result_rows=document.rows or 0,
        stages=tuple(map(_stage, document.stages)),
        requests=dict(known.requests) if known else {},
        cost=_cost(known) if known else _nothing(),
    )


def _stage(stage: StageDocument) -> StageReceipt:
    return StageReceipt(
        stage=stage.stage,
        label=stage.label,
        tasks=stage.tasks,
        attempts=stage.attempts,
        rows_in=stage.rows_in,
        bytes_in=stage.bytes_in,
        rows_out=stage.rows_out,
        bytes_out=stage.bytes_out,
        seconds=stage.seconds,
        longest=stage.longest,
        peak_memory=stage.peak_memory,
    )


def _cost(known: ReceiptDocument) -> Cost:
    items = tuple(
        CostItem(
            service=line.service,
            what=line.what,
            amount=line.amount,
            unit_price=line.unit_price,
            dollars=line.dollars,
        )
        for line in known.cost.items
    )
    as_of = datetime.date.fromisoformat(known.cost.as_of)
    return Cost(items=items, region=known.cost.region, as_of=as_of)


def _nothing() -> Cost:
    return Cost(items=(), region=US_EAST_1.region, as_of=US_EAST_1.as_of)
