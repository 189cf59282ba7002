"""How far a running query has come, stage by stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator_state.ids import QueryId
from coordinator_state.records import StageRecord, StageStatus, TaskRecord, TaskStatus
from coordinator_state.store import StateStore


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProgress:
    """One stage; rows and bytes are of committed tasks only."""

    stage: int
    status: StageStatus
    total: int
    done: int = 0
    running: int = 0
    rows: int = 0
    bytes: int = 0


def read_progress(store: StateStore, query_id: QueryId) -> tuple[StageProgress, ...]:
    """By stage. Raises ``coordinator_state.errors.NotFound`` for a purged query."""
    return tuple(
        _of(
            stage, () if stage.status is StageStatus.WAITING else store.tasks(query_id, stage.stage)
        )
        for stage in store.stages(query_id)
    )


def _of(stage: StageRecord, tasks: Sequence[TaskRecord]) -> StageProgress:
    commits = [t.commit for t in tasks if t.commit is not None]
    return StageProgress(
        stage=stage.stage,
        status=stage.status,
        total=stage.tasks,
        done=len(commits),
        running=sum(t.status is TaskStatus.RUNNING for t in tasks),
        rows=sum(c.rows_out for c in commits),
        bytes=sum(c.bytes_out for c in commits),
    )
