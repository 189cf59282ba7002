"""When a consumer that waits for input should give its slot to a producer."""

from __future__ import annotations

import time
from collections.abc import Callable

from coordinator_state.ids import StageId
from coordinator_state.records import StageStatus, TaskRecord, TaskStatus
from coordinator_state.store import StateStore


class HandBack(Exception):
    """A task upstream waits for a worker, and this one only waits for input."""


class Starvation:
    """Looks upstream while a consumer waits; call it often, it asks the store seldom.

    A slot that waits while a producer waits for a slot could wait for ever: with a budget of one
    worker it always would. So after ``patience`` seconds of some task upstream, at any distance,
    being PENDING all along, the consumer hands back.
    """

    def __init__(
        self,
        store: StateStore,
        task: TaskRecord,
        *,
        patience: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._task = task
        self._patience = patience
        self._monotonic = monotonic
        self._looked = monotonic()
        self._since: float | None = None  # upstream unserved at every look since then

    def check(self) -> None:
        """Raise ``HandBack`` if the slot is wanted upstream."""
        now = self._monotonic()
        if now - self._looked < self._patience / 2:
            return
        self._looked = now
        if not self._unserved():
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= self._patience:
            raise HandBack(f"input of stage {self._task.stage} waits for a worker")

    def _unserved(self) -> bool:
        query_id = self._task.query_id
        stages = {s.stage: s for s in self._store.stages(query_id)}
        todo, seen = list(stages[self._task.stage].upstream), set[StageId]()
        while todo:
            stage = stages[todo.pop()]
            if stage.stage in seen:
                continue
            seen.add(stage.stage)
            todo.extend(stage.upstream)
            if stage.status is StageStatus.ACTIVE and self._store.tasks(
                query_id, stage.stage, status=TaskStatus.PENDING
            ):
                return True
        return False
