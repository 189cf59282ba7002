"""Verbs on stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from coordinator_state import changes, conditions, rulings, schema
from coordinator_state.changes import Append, Changes
from coordinator_state.dynamodb import keys
from coordinator_state.dynamodb.items import decode
from coordinator_state.dynamodb.table import ConditionFailed, Table
from coordinator_state.errors import Refused
from coordinator_state.ids import QueryId, StageId
from coordinator_state.records import StageRecord, StageStatus, TaskRecord, TaskStatus
from coordinator_state.transitions import STAGE_MOVES, TASK_MOVES, landed

#: Indexes offered in one write; an expression may be 4 KB long.
_OFFERS_PER_WRITE = 40


class StageVerbs:
    _table: Table

    def stages(self, query_id: QueryId) -> Sequence[StageRecord]:
        partition = schema.query_partition(query_id)
        items = self._table.partition(partition, prefix=schema.STAGE_PREFIX)
        if not items:
            keys.read_query(self._table, query_id)
        return [decode(item, StageRecord) for item in items]

    def activate_stage(self, query_id: QueryId, stage: StageId) -> StageRecord:
        return self._move_stage(
            "activate_stage", query_id, stage, conditions.ACTIVATE_STAGE, changes.ACTIVATED
        )

    def set_capacity(
        self, query_id: QueryId, stage: StageId, *, admitted: int, desired: int
    ) -> StageRecord:
        key = keys.stage_key(query_id, stage)
        try:
            change: Changes = {"admitted": admitted, "desired": desired}
            item = self._table.update(
                key, conditions.RAISE_ADMITTED, change, {"admitted": admitted}
            )
        except ConditionFailed as refusal:
            keys.found_stage(refusal.item, query_id, stage)
            return self._move_stage(
                "set_capacity", query_id, stage, conditions.EXISTS, {"desired": desired}
            )
        return decode(item, StageRecord)

    def complete_stage(self, query_id: QueryId, stage: StageId) -> StageRecord:
        before = keys.read_stage(self._table, query_id, stage)
        move = STAGE_MOVES["complete_stage"]
        if landed(move, before.status, rulings.stage_name(before), current=before):
            return before
        tasks = self.tasks_of(before)
        committed = sum(task.status is TaskStatus.COMMITTED for task in tasks)
        rulings.require_all_committed(before, before.tasks - committed)
        return self._move_stage(
            "complete_stage",
            query_id,
            stage,
            conditions.COMPLETE_STAGE,
            changes.completed(before.tasks),
            {"reopened": before.reopened},
        )

    def skip_stage(self, query_id: QueryId, stage: StageId) -> StageRecord:
        skipped = self._move_stage(  # first, so that nothing more is claimed
            "skip_stage", query_id, stage, conditions.SKIP_STAGE, changes.STAGE_SKIPPED
        )
        move = TASK_MOVES["skip_stage"]
        for task in self.tasks_of(skipped):
            self._settle(task, lambda t: changes.skipped(t) if move.starts_from(t.status) else None)
        return skipped

    def offer_again(self, query_id: QueryId, stage: StageId, indexes: Sequence[int]) -> None:
        current = keys.read_stage(self._table, query_id, stage)
        wanted = [i for i in dict.fromkeys(indexes) if not rulings.is_on_offer(current, i)]
        found = self._table.get_many([keys.task_key(query_id, stage, i) for i in wanted])
        tasks = (decode(item, TaskRecord) for item in found.values())
        pending = sorted(task.index for task in tasks if task.status is TaskStatus.PENDING)
        in_order = [index for index in wanted if index in set(pending)]
        for start in range(0, len(in_order), _OFFERS_PER_WRITE):
            self.offer(query_id, stage, in_order[start : start + _OFFERS_PER_WRITE])

    def begin_generation(self, query_id: QueryId, stage: StageId, *, expected: int) -> StageRecord:
        try:
            item = self._table.update(
                keys.stage_key(query_id, stage),
                conditions.BEGIN_GENERATION,
                changes.NEW_GENERATION,
                {"generation": expected},
            )
        except ConditionFailed as refusal:
            current = keys.found_stage(refusal.item, query_id, stage)
            rulings.generation_landed(current, expected)
            return current
        return decode(item, StageRecord)

    def reset_stage(self, query_id: QueryId, stage: StageId, *, now: float) -> None:
        current = keys.read_stage(self._table, query_id, stage)
        if current.status is StageStatus.WAITING:
            return
        for task in self.tasks_of(current):
            self._settle(task, lambda t: changes.reset(t, now=now))
        try:  # last: until then nothing of it is offered anew, and dying here repeats it all
            self._table.update(
                keys.stage_key(query_id, stage), conditions.RESET_STAGE, changes.STAGE_RESET
            )
        except ConditionFailed as refusal:
            keys.found_stage(refusal.item, query_id, stage)

    # -- for the task verbs too ------------------------------------------------------------------
    def tasks_of(self, stage: StageRecord) -> Sequence[TaskRecord]:
        """Consistent read of every task, by index."""
        return [
            decode(item, TaskRecord)
            for partition in keys.task_partitions(stage)
            for item in self._table.partition(partition)
        ]

    def offer(self, query_id: QueryId, stage: StageId, indexes: Sequence[int]) -> None:
        """Append tasks that are known to be PENDING, unless they are on offer."""
        fresh = tuple(indexes)
        while fresh:  # each refusal shows some of them on offer, so the list only shrinks
            values = {f"index{i}": index for i, index in enumerate(fresh)}
            try:
                self._table.update(
                    keys.stage_key(query_id, stage),
                    conditions.offer_again(len(fresh)),
                    {"offers": Append(fresh)},
                    values,
                )
                return
            except ConditionFailed as refusal:
                current = keys.found_stage(refusal.item, query_id, stage)
                fresh = tuple(i for i in fresh if not rulings.is_on_offer(current, i))

    def reopen(self, query_id: QueryId, stage: StageId) -> None:
        """COMPLETE -> ACTIVE, and refuse a completion decided before. Other states stay."""
        try:
            self._table.update(
                keys.stage_key(query_id, stage), conditions.REOPEN_STAGE, changes.REOPENED
            )
        except ConditionFailed as refusal:
            keys.found_stage(refusal.item, query_id, stage)

    def _settle(
        self, task: TaskRecord, decide: Callable[[TaskRecord], Changes | None]
    ) -> TaskRecord:
        """Compare and set until it holds: a refusal means that somebody else moved the task."""
        while (change := decide(task)) is not None:
            values = {"status": task.status, "attempt": task.attempt, "nonce": task.nonce}
            key = keys.task_key(task.query_id, task.stage, task.index)
            try:
                item = self._table.update(key, conditions.UNMOVED_TASK, change, values)
                return decode(item, TaskRecord)
            except ConditionFailed as refusal:
                found = keys.found_task(refusal.item, task)
                if found == changes.apply(task, change):
                    return found  # it had landed, only its answer was lost
                task = found
        return task

    def _move_stage(
        self,
        verb: str,
        query_id: QueryId,
        stage: StageId,
        condition: str,
        change: Changes,
        values: Mapping[str, object] | None = None,
    ) -> StageRecord:
        try:
            item = self._table.update(keys.stage_key(query_id, stage), condition, change, values)
        except ConditionFailed as refusal:
            current = keys.found_stage(refusal.item, query_id, stage)
            name = rulings.stage_name(current)
            if landed(STAGE_MOVES[verb], current.status, name, current=current):
                return current
            raise Refused(f"{verb} of {name}: a task was taken back", current=current) from None
        return decode(item, StageRecord)
