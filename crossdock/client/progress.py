"""How far a running query is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crossdock.planner.plan import StagePlan
from crossdock.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProgress:
    """One stage; ``done`` counts its committed tasks."""

    stage: int
    label: str
    status: str
    tasks: int
    done: int
    rows_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A query at one moment, stages in plan order."""

    query_id: str
    stages: Sequence[StageProgress]

    @property
    def done(self) -> int:
        return sum(stage.done for stage in self.stages)

    @property
    def tasks(self) -> int:
        return sum(stage.tasks for stage in self.stages)


def of_summary(plan: StagePlan, summary: Summary) -> Progress:
    return Progress(
        query_id=summary.query_id,
        stages=tuple(
            StageProgress(
                stage=stage.stage,
                label=plan.stages[stage.stage].label,
                status=stage.status,
                tasks=stage.tasks,
                done=stage.committed,
                rows_out=stage.rows_out,
            )
            for stage in summary.stages
        ),
    )
