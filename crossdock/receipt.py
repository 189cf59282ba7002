"""What a query did and what the same would cost on AWS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from crossdock.pricing import Cost, price
from crossdock.summary import StageSummary, Summary

#: Memory a task is priced at on AWS when nothing was measured, in bytes.
_SMALLEST_FUNCTION = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReceipt:
    """One stage: sums over its tasks' committed attempts. Sizes are bytes."""

    stage: int
    label: str
    tasks: int
    attempts: int
    rows_in: int
    bytes_in: int
    rows_out: int
    bytes_out: int
    seconds: float  # of work, summed over tasks
    longest: float  # seconds of the slowest task
    peak_memory: int  # of the largest worker process


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A query's itemised account; ``cost`` prices it as if it had run on AWS."""

    query_id: str
    status: str
    exchange: str  # s3qs, batch, or none for a query of one task
    seconds: float  # from the statement's arrival to its last row
    workers: int
    result_rows: int
    stages: tuple[StageReceipt, ...]
    requests: Mapping[str, int] = field(default_factory=dict)  # by kind, all processes
    cost: Cost

    def stage(self, stage: int) -> StageReceipt:
        """Raises ``KeyError`` when the plan has no such stage."""
        for each in self.stages:
            if each.stage == stage:
                return each
        raise KeyError(stage)

    @property
    def attempts(self) -> int:
        """Claims of all tasks, the lost ones included."""
        return sum(stage.attempts for stage in self.stages)

    @property
    def shuffled_bytes(self) -> int:
        """Bytes of exchange objects: what every stage but the last wrote."""
        return sum(stage.bytes_out for stage in self.stages[:-1])

    @property
    def peak_memory(self) -> int:
        """Bytes resident in the largest worker process."""
        return max((stage.peak_memory for stage in self.stages), default=0)

    def to_json(self) -> str:
        """One JSON object: these fields, and the bill's lines."""
        document = msgspec.to_builtins(self, enc_hook=str)
        document["cost"]["total"] = self.cost.total
        return msgspec.json.encode(document).decode()

    def to_text(self) -> str:
        """A table of stages, then requests and price, for a terminal of 100 columns."""
        from crossdock.receipt_text import render_receipt

        return render_receipt(self)


def of_summary(
    summary: Summary,
    *,
    labels: Sequence[str],
    seconds: float,
) -> Receipt:
    """The receipt of a distributed query; requests of workers and coordinator are added up.

    Args:
        summary: the figures kept by the coordinator.
        labels: what each stage does, in words, by stage id.
        seconds: wall time as the client saw it.
    """
    requests: dict[str, int] = {}
    for usage in (summary.worker_usage, summary.coordinator_usage):
        for kind, amount in usage.items():
            requests[kind] = requests.get(kind, 0) + amount
    stages = tuple(_stage(stage, labels) for stage in summary.stages)
    priced = {**requests, "worker_launch": summary.workers}
    return Receipt(
        query_id=summary.query_id,
        status=summary.status.value,
        exchange=summary.exchange,
        seconds=seconds,
        workers=summary.workers,
        result_rows=summary.result_rows,
        stages=stages,
        requests=dict(sorted(requests.items())),
        cost=price(priced, _gb_seconds(stages)),
    )


def _stage(stage: StageSummary, labels: Sequence[str]) -> StageReceipt:
    return StageReceipt(
        stage=stage.stage,
        label=labels[stage.stage] if stage.stage < len(labels) else "",
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


def of_one_task(
    *,
    query_id: str,
    status: str,
    label: str,
    seconds: float,
    rows: int,
    bytes_in: int,
    peak_memory: int,
    usage: Mapping[str, int],
) -> Receipt:
    """The receipt of a query that ran in process; its bytes in are estimated from footers."""
    stage = StageReceipt(
        stage=0,
        label=label,
        tasks=1,
        attempts=1,
        rows_in=0,
        bytes_in=bytes_in,
        rows_out=rows,
        bytes_out=0,
        seconds=seconds,
        longest=seconds,
        peak_memory=peak_memory,
    )
    return Receipt(
        query_id=query_id,
        status=status,
        exchange="none",
        seconds=seconds,
        workers=0,
        result_rows=rows,
        stages=(stage,),
        requests=dict(sorted(usage.items())),
        cost=price({**usage, "worker_launch": 1}, _gb_seconds((stage,))),
    )


def _gb_seconds(stages: Sequence[StageReceipt]) -> float:
    """Memory times time of the tasks; waiting between tasks is not counted."""
    return sum(s.seconds * max(s.peak_memory, _SMALLEST_FUNCTION) for s in stages) / 1e9
