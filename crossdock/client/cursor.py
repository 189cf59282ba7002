"""PEP 249 cursors."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crossdock.client.drivers import Parameters, Run, Wishes
from crossdock.client.rows import Row, Rows
from crossdock.errors import InterfaceError, ProgrammingError
from crossdock.planner.plan import StagePlan
from crossdock.receipt import Receipt

if TYPE_CHECKING:
    from crossdock.client.connection import Connection

#: PEP 249: name, type code, and five fields that a query engine has nothing to say on.
Description = tuple[str, str, None, None, None, None, None]


class Cursor:
    """Runs one query at a time and reads its rows; made by ``Connection.cursor``.

    The rows of a query live until the next ``execute`` or ``close``. A cursor belongs to one
    thread; only ``cancel`` may come from another.
    """

    def __init__(self, connection: Connection, wishes: Wishes) -> None:
        self.connection = connection
        self.arraysize = 1
        self.on_progress = wishes.on_progress
        self._as_text = wishes.as_text
        self._run: Run | None = None
        self._rows: Rows | None = None
        self._cancelled = False
        self._closed = False

    # -- running -----------------------------------------------------------------------------------

    def execute(self, sql: str, parameters: Parameters | None = None) -> Cursor:
        """Run one statement until its first rows can be read.

        Args:
            sql: one statement in DuckDB's dialect: a query, or one that writes.
            parameters: a sequence for ``?`` and ``$1``, a mapping for ``$name``.

        Returns:
            This cursor.

        Raises:
            SqlError: the statement is refused, with position and suggestion.
            TableError: a table cannot be read.
            QueryFailed: the query ended FAILED.
            QueryCancelled: it was cancelled, or met its deadline.
        """
        self._open()
        self._drop()
        self._cancelled = False
        wishes = Wishes(on_progress=self.on_progress, as_text=self._as_text)
        run = self.connection._begin(sql, parameters, wishes)
        self._run = run
        weakref.finalize(self, self.connection._end_soon, run).atexit = False
        if self._cancelled:  # while it was planned; asked after ``_run`` is set
            run.cancel()
        try:
            self._rows = run.start()
        except BaseException:
            self.connection._end(run)
            raise
        return self

    def executemany(self, sql: str, parameters: Sequence[Parameters]) -> Cursor:
        """Run the statement once for each set of parameters; the last one's rows can be read."""
        for each in parameters:
            self.execute(sql, each)
        return self

    def cancel(self) -> None:
        """End the running query; the call that waits for it raises ``QueryCancelled``."""
        self._cancelled = True
        run = self._run
        if run is not None:
            run.cancel()

    # -- reading -----------------------------------------------------------------------------------

    def fetchone(self) -> Row | None:
        """The next row, or None after the last."""
        return self._result().next()

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Up to ``size`` rows (default ``arraysize``); fewer only at the end."""
        wanted = self.arraysize if size is None else size
        if wanted < 0:
            raise ProgrammingError(f"fetchmany({wanted}): a number of rows cannot be negative")
        return self._result().many(wanted)

    def fetchall(self) -> list[Row]:
        """Every row not fetched yet."""
        return self._result().all()

    def arrow(self) -> pa.Table:
        """Every row as a table, with exactly the types the engine itself gives.

        Raises ``InterfaceError`` when rows of this result were fetched before.
        """
        reader = self.arrow_batches()
        return pa.Table.from_batches(list(reader), reader.schema)

    def arrow_batches(self) -> pa.RecordBatchReader:
        """Like ``arrow``, in batches: a result need not fit in memory."""
        schema, batches = self._result().batches()
        return pa.RecordBatchReader.from_batches(schema, self._held(batches))

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    # -- about the query ---------------------------------------------------------------------------

    @property
    def description(self) -> list[Description] | None:
        """Name and SQL type of each column; None before the first query."""
        if self._run is None:
            return None
        return [
            (column.name, column.type, None, None, None, None, None) for column in self._run.columns
        ]

    @property
    def rowcount(self) -> int:
        """Rows of the result once all were read, -1 before."""
        return self._rows.count if self._rows is not None and self._rows.ended else -1

    @property
    def query_id(self) -> str | None:
        """The query's id; None before the first query."""
        return self._run.query_id if self._run is not None else None

    @property
    def plan(self) -> StagePlan | None:
        """The query's stages; None before the first query, and when others planned it."""
        return self._run.plan if self._run is not None else None

    @property
    def stage_labels(self) -> Sequence[str]:
        """What each stage of the query does, in words."""
        return self._run.labels if self._run is not None else ()

    @property
    def receipt(self) -> Receipt | None:
        """What the query did and would cost, as far as it has come; None before the first."""
        return self._run.receipt if self._run is not None else None

    # -- the rest of PEP 249 -----------------------------------------------------------------------

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """No effect: parameters carry their own types."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """No effect: values are never cut."""

    def close(self) -> None:
        """Delete the result; closing again is no error."""
        if not self._closed:
            self._closed = True
            if self._run is not None:
                self.connection._end(self._run)
            self._run = None
            self._rows = None

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _drop(self) -> None:
        """Let go of the last query; its result is deleted in the background."""
        if self._run is not None:
            self.connection._end_soon(self._run)
        self._run = None
        self._rows = None

    def _held(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches; keeps this cursor, and so the result, until they are read."""
        yield from batches

    def _open(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")

    def _result(self) -> Rows:
        self._open()
        if self._rows is None:
            raise InterfaceError("no query was executed, or it failed; there are no rows")
        return self._rows
