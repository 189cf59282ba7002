"""One execution of a planned query: in process, or by workers that a platform drives."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from coordinator_state.ids import QueryId
from coordinator_state.records import ErrorRecord, QueryRecord, QueryStatus
from crossdock.client.drivers import Run, Wishes
from crossdock.client.rows import Rows
from crossdock.client.statements import Room, as_text, open_one_task, open_result, result_query
from crossdock.errors import CrossdockError, QueryCancelled, QueryFailed
from crossdock.planner.plan import StagePlan
from crossdock.process_memory import peak_resident
from crossdock.receipt import Receipt, of_one_task, of_summary

if TYPE_CHECKING:
    from crossdock.local import LocalPlatform


class LocalRun(Run):
    """A run of this machine's platform."""

    query_id: QueryId

    def __init__(
        self, platform: LocalPlatform, plan: StagePlan, room: Room, wishes: Wishes
    ) -> None:
        self._plan = plan
        self.plan = plan
        self.columns = plan.columns
        self.labels = [stage.label for stage in plan.stages]
        self._platform = platform
        self._room = room
        self._wishes = wishes
        self._rows: Rows | None = None
        self._stopped = False
        self._began = time.perf_counter()
        self._seconds = 0.0  # to the last row, once it was read
        self._used_before = dict(platform.usage())
        self.query_id = self._register()

    @abstractmethod
    def _register(self) -> QueryId:
        """Make the query known."""

    def close(self) -> None:
        if self._rows is not None:
            self._rows.close()

    def _interrupt(self) -> None:
        self._stopped = True
        if self._rows is not None:
            self._rows.interrupt()

    def _start(self, rows: Rows, sql: str) -> Rows:
        self._rows = rows
        if self._stopped:  # asked after ``_rows`` is set: ``_interrupt`` does the reverse
            rows.interrupt()
        rows.start(self._wished(sql))
        return rows

    def _wished(self, sql: str) -> str:
        chosen = self._wishes.as_text
        return as_text(sql, self._plan.columns, chosen) if chosen else sql

    def _usage(self) -> Mapping[str, int]:
        """Requests of this process since the query began."""
        before = self._used_before
        now = self._platform.usage()
        return {kind: n - before.get(kind, 0) for kind, n in now.items() if n > before.get(kind, 0)}

    @property
    def _elapsed(self) -> float:
        return self._seconds or time.perf_counter() - self._began


class OneTaskRun(LocalRun):
    """The user's own text in this process, with the threads and memory of all workers."""

    def __init__(
        self, platform: LocalPlatform, plan: StagePlan, room: Room, wishes: Wishes
    ) -> None:
        self._status = QueryStatus.RUNNING
        super().__init__(platform, plan, room, wishes)

    def _register(self) -> QueryId:
        return self._platform.begin_in_process(self._plan, on_cancel=self._interrupt)

    def start(self) -> Rows:
        try:
            rows = open_one_task(self._plan, self._room, self._end)
            return self._start(rows, self._plan.stages[-1].fragment)
        except BaseException as error:
            self._end(0, error)
            raise

    def cancel(self) -> None:
        self._interrupt()

    @property
    def receipt(self) -> Receipt:
        return of_one_task(
            query_id=self.query_id,
            status=self._status.value,
            label=self._plan.stages[-1].label,
            seconds=self._elapsed,
            rows=self._rows.count if self._rows else 0,
            bytes_in=self._plan.scanned_bytes,
            peak_memory=peak_resident(),
            usage=self._usage(),
        )

    def _end(self, rows: int, error: BaseException | None) -> None:
        if self._status is not QueryStatus.RUNNING:
            return
        self._seconds = self._elapsed
        self._status = _status_of(error)
        self._platform.end_in_process(
            self.query_id,
            self._status,
            rows=rows,
            error=_record_of(error) if error else None,
        )


class DistributedRun(LocalRun):
    """Stages on workers; the rows are read from the result objects the query ended with."""

    def _register(self) -> QueryId:
        return self._platform.submit(self._plan)

    def start(self) -> Rows:
        try:
            record = self._platform.wait(self.query_id, self._report)
        except BaseException:
            self._platform.cancel(self.query_id)
            raise
        self._seconds = self._elapsed
        _raise_unless_succeeded(record)
        files = self._platform.result_files(record)
        rows = open_result(self._plan, files, self._room, self._end)
        return self._start(rows, result_query(self._plan.columns, files))

    def cancel(self) -> None:
        self._platform.cancel(self.query_id)
        self._interrupt()

    @property
    def receipt(self) -> Receipt:
        return of_summary(
            self._platform.progress(self.query_id),
            labels=[stage.label for stage in self._plan.stages],
            seconds=self._elapsed,
        )

    def close(self) -> None:
        """Close the query too: its queues, exchange objects and result are gone then."""
        super().close()
        self._platform.discard(self.query_id)

    def _report(self) -> None:
        if self._wishes.on_progress is not None:
            self._wishes.on_progress(self._platform.stages(self.query_id))

    def _end(self, rows: int, error: BaseException | None) -> None:
        self._seconds = time.perf_counter() - self._began


def _raise_unless_succeeded(record: QueryRecord) -> None:
    if record.status is QueryStatus.SUCCEEDED:
        return
    message = record.error.message if record.error else "no reason was recorded"
    if record.status is QueryStatus.CANCELLED:
        raise QueryCancelled(message if record.error else "the query was cancelled")
    kind = record.error.kind if record.error else ""
    raise QueryFailed(message, kind=kind, query_id=record.query_id)


def _status_of(error: BaseException | None) -> QueryStatus:
    if error is None:
        return QueryStatus.SUCCEEDED
    stopped = isinstance(error, QueryCancelled | KeyboardInterrupt)
    return QueryStatus.CANCELLED if stopped else QueryStatus.FAILED


def _record_of(error: BaseException) -> ErrorRecord:
    kind = error.kind if isinstance(error, QueryFailed) else type(error).__name__
    words = str(error) if isinstance(error, CrossdockError) else type(error).__name__
    return ErrorRecord(kind=kind, message=words, scope="query")
