"""Verbs on stages."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator_state import changes, rulings
from coordinator_state.changes import Changes
from coordinator_state.ids import QueryId, StageId
from coordinator_state.records import StageRecord, StageStatus, TaskStatus
from coordinator_state.sqlite import rows
from coordinator_state.sqlite.database import Database
from coordinator_state.transitions import STAGE_MOVES, TASK_MOVES, landed


class StageVerbs:
    _database: Database

    def stages(self, query_id: QueryId) -> Sequence[StageRecord]:
        with self._database.read() as cx:
            found = rows.get_stages(cx, query_id)
            if not found:
                rows.get_query(cx, query_id)
            return found

    def activate_stage(self, query_id: QueryId, stage: StageId) -> StageRecord:
        with self._database.write() as cx:
            current = rows.get_stage(cx, query_id, stage)
            if landed(
                STAGE_MOVES["activate_stage"],
                current.status,
                rulings.stage_name(current),
                current=current,
            ):
                return current
            return rows.change_stage(cx, current, changes.ACTIVATED)

    def set_capacity(
        self, query_id: QueryId, stage: StageId, *, admitted: int, desired: int
    ) -> StageRecord:
        with self._database.write() as cx:
            current = rows.get_stage(cx, query_id, stage)
            change: Changes = {"admitted": max(admitted, current.admitted), "desired": desired}
            return rows.change_stage(cx, current, change)

    def complete_stage(self, query_id: QueryId, stage: StageId) -> StageRecord:
        with self._database.write() as cx:
            current = rows.get_stage(cx, query_id, stage)
            if landed(
                STAGE_MOVES["complete_stage"],
                current.status,
                rulings.stage_name(current),
                current=current,
            ):
                return current
            missing = rows.count_tasks_not(cx, query_id, stage, TaskStatus.COMMITTED)
            rulings.require_all_committed(current, missing)
            return rows.change_stage(cx, current, changes.completed(current.tasks))

    def skip_stage(self, query_id: QueryId, stage: StageId) -> StageRecord:
        with self._database.write() as cx:
            current = rows.get_stage(cx, query_id, stage)
            if not landed(
                STAGE_MOVES["skip_stage"],
                current.status,
                rulings.stage_name(current),
                current=current,
            ):
                current = rows.change_stage(cx, current, changes.STAGE_SKIPPED)
            for task in rows.get_tasks(cx, query_id, stage):
                if TASK_MOVES["skip_stage"].starts_from(task.status):
                    rows.change_task(cx, task, changes.skipped(task))
            return current

    def offer_again(self, query_id: QueryId, stage: StageId, indexes: Sequence[int]) -> None:
        with self._database.write() as cx:
            current = rows.get_stage(cx, query_id, stage)
            fresh = tuple(
                index
                for index in dict.fromkeys(indexes)
                if not rulings.is_on_offer(current, index)
                and rows.get_task(cx, query_id, stage, index).status is TaskStatus.PENDING
            )
            if fresh:
                rows.change_stage(cx, current, {"offers": changes.Append(fresh)})

    def begin_generation(self, query_id: QueryId, stage: StageId, *, expected: int) -> StageRecord:
        with self._database.write() as cx:
            current = rows.get_stage(cx, query_id, stage)
            if rulings.generation_landed(current, expected):
                return current
            return rows.change_stage(cx, current, changes.NEW_GENERATION)

    def reset_stage(self, query_id: QueryId, stage: StageId, *, now: float) -> None:
        with self._database.write() as cx:
            current = rows.get_stage(cx, query_id, stage)
            if current.status is StageStatus.WAITING:
                return
            for task in rows.get_tasks(cx, query_id, stage):
                rows.change_task(cx, task, changes.reset(task, now=now))
            rows.change_stage(cx, current, changes.STAGE_RESET)
