"""What the client asks of a platform: to run a plan's stages and to hand over the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from coordinator_state.ids import QueryId
from coordinator_state.records import ErrorRecord, QueryRecord, QueryStatus
from crossdock.planner.plan import StagePlan
from crossdock.summary import Summary


class Driver(Protocol):
    """A platform, as a connection uses it."""

    def submit(self, plan: StagePlan) -> QueryId:
        """Make the query known; nothing runs before ``wait``."""
        ...

    def wait(self, query_id: QueryId, on_change: Callable[[], None]) -> QueryRecord:
        """Drive the query to its end; ``on_change`` is called now and then while it runs.

        An exception from ``on_change``, such as Ctrl-C, leaves the query RUNNING.
        """
        ...

    def cancel(self, query_id: QueryId) -> QueryRecord:
        """End the query as CANCELLED unless it has ended; workers stop within a heartbeat."""
        ...

    def progress(self, query_id: QueryId) -> Summary:
        """The figures of a query, running or ended."""
        ...

    def result_files(self, record: QueryRecord) -> Sequence[Path]:
        """The result's Parquet files in row order, local and readable until ``discard``."""
        ...

    def discard(self, query_id: QueryId) -> None:
        """Delete the result of an ended query; repeating is no error."""
        ...

    def begin_in_process(self, plan: StagePlan) -> QueryId:
        """Record a query that this process runs itself."""
        ...

    def end_in_process(
        self, query_id: QueryId, status: QueryStatus, *, rows: int, error: ErrorRecord | None
    ) -> None:
        """Record the end of a query that this process ran."""
        ...

    def usage(self) -> Mapping[str, int]:
        """Requests of this process so far, by kind."""
        ...

    def close(self) -> None:
        """Cancel what still runs, end the workers, remove scratch files."""
        ...
