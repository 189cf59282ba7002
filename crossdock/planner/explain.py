"""A stage plan, readable: as text for people, as plain values for programs."""

from __future__ import annotations

from typing import Any

import msgspec

from crossdock.planner.fragment_text import on_lines
from crossdock.planner.plan import (
    Edge,
    Existing,
    ScanInput,
    ShuffleMode,
    Stage,
    StagePlan,
    WriteKind,
)

_EXISTING = {
    Existing.REFUSE: "new",
    Existing.SKIP: "unless it is there",
    Existing.REPLACE: "in place of what is there",
    Existing.ADD: "beside what is there",
}
_UNITS = ("B", "KB", "MB", "GB", "TB")


def explain_text(plan: StagePlan, *, fragments: bool = True) -> str:
    """One block a stage, in the order they run; ``fragments`` adds each stage's SQL."""
    blocks = [_heading(plan), *_writing(plan)]
    blocks += [_stage(plan, stage, fragments) for stage in plan.stages]
    blocks += [f"note: {note}" for note in plan.notes]
    return "\n".join(blocks) + "\n"


def explain_json(plan: StagePlan) -> dict[str, Any]:
    """The plan as JSON-ready values, with what a reader would have to compute added."""
    built: dict[str, Any] = msgspec.to_builtins(plan)
    for stage in built["stages"]:
        number = stage["stage"]
        stage["depth"] = plan.depth(number)
        stage["upstream"] = list(plan.upstream(number))
    return built


def _heading(plan: StagePlan) -> str:
    tasks = sum(stage.tasks for stage in plan.stages)
    form = "one task, the whole statement" if plan.one_task else _count(tasks, "task")
    return (
        f"{_count(len(plan.stages), 'stage')}, {form}, "
        f"{_count(len(plan.edges), 'shuffle')}, reads {_size(plan.scanned_bytes)}"
    )


def _writing(plan: StagePlan) -> list[str]:
    write = plan.write
    if write is None:
        return []
    what = f"table {write.target}" if write.kind is WriteKind.TABLE else write.target
    text = f"writes {what} ({_EXISTING[write.existing]}) as {write.format}"
    if write.partition_by:
        text += f", partitioned by {', '.join(write.partition_by)}"
    return [text]


def _stage(plan: StagePlan, stage: Stage, fragments: bool) -> str:
    # What a whole statement gives is DuckDB's to know.
    estimate = "" if plan.one_task else f" {_estimate(stage)}"
    lines = [
        f"stage {stage.stage}: {stage.label} [{_count(stage.tasks, 'task')}]{estimate}"
        f" -> {_destination(plan, stage)}"
    ]
    lines += [f"  {_scan(scan)}" for scan in stage.scans]
    lines += [f"  {_input(plan.edges[given.edge])}" for given in stage.exchanges]
    lines += [f"  one task: {reason}" for reason in stage.reasons]
    if stage.prefix_limit:
        lines.append(f"  any {stage.prefix_limit} rows are enough")
    if not stage.deterministic:
        lines.append("  gives other rows when run again")
    if fragments:
        lines += [f"    {line}" for line in on_lines(stage.fragment).splitlines()]
    return "\n".join(lines)


def _destination(plan: StagePlan, stage: Stage) -> str:
    if not stage.outputs:
        return "result" if plan.write is None else "files"
    consumers = dict.fromkeys(f"stage {plan.edges[edge].consumer}" for edge in stage.outputs)
    return ", ".join(consumers)


def _scan(scan: ScanInput) -> str:
    slices = [piece for split in scan.splits for piece in split]
    files = len({piece.path for piece in slices})
    reading = "read whole by each task" if scan.whole else f"{_count(len(slices), 'slice')}"
    columns = ", ".join(scan.columns) or "no columns"
    return f"{scan.name}: {scan.table} ({columns}) from {_count(files, 'file')}, {reading}"


def _input(edge: Edge) -> str:
    text = f"edge_{edge.edge}: {edge.mode.value} from stage {edge.producer}"
    if edge.mode is ShuffleMode.HASH:
        text += f" by {', '.join(edge.keys)} into {_count(edge.partitions, 'partition')}"
    return f"{text} {_estimate(edge)}"


def _estimate(of: Stage | Edge) -> str:
    return f"~{_count(of.estimated_rows, 'row')}, {_size(of.estimated_bytes)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _size(size: float) -> str:
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("the last unit always returns")
