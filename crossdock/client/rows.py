"""Rows of a running statement: the engine's own Python values, or its own Arrow."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from crossdock.client.interrupts import INTERRUPT_SECONDS, interruptible
from crossdock.errors import CrossdockError, InterfaceError

#: A row as the engine's Python interface gives it.
Row = tuple[Any, ...]
T = TypeVar("T")

#: Rows fetched ahead while a cursor is iterated.
_BLOCK = 2048
#: Rows of one Arrow batch.
BATCH_ROWS = 131_072


class Rows:
    """The open result of one statement on a connection of its own.

    Args:
        connection: used by nobody else; closed with the rows.
        translate: turns the engine's error into one of ours.
        on_end: told once how the statement ended: rows read, and the error if one ended it.
        on_close: told once that the connection is closed.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        *,
        translate: Callable[[duckdb.Error], CrossdockError],
        on_end: Callable[[int, BaseException | None], None],
        on_close: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._translate = translate
        self._on_end = on_end
        self._on_close = on_close
        self._ahead: deque[Row] = deque()
        self._stopped = False
        self._idle = threading.Event()  # no call is inside the engine
        self._idle.set()
        self._closed = False
        self._ended = False
        self.count = 0  # rows read so far

    @property
    def ended(self) -> bool:
        """Whether the last row was read, or an error came."""
        return self._ended

    def start(self, sql: str) -> None:
        """Run the statement until its first rows are ready."""
        self._call(lambda: self._connection.execute(sql))

    def next(self) -> Row | None:
        """One row, fetched ahead in blocks; None at the end."""
        if not self._ahead:
            self._ahead.extend(self._fetch(_BLOCK))
        return self._ahead.popleft() if self._ahead else None

    def many(self, size: int) -> list[Row]:
        rows = [self._ahead.popleft() for _ in range(min(size, len(self._ahead)))]
        missing = size - len(rows)
        return rows + self._fetch(missing) if missing else rows

    def all(self) -> list[Row]:
        rows = list(self._ahead)
        self._ahead.clear()
        if not self._ended:
            rest = self._call(self._connection.fetchall)
            self.count += len(rest)
            self._end(None)
            rows += rest
        return rows

    def batches(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """What is left of the result as Arrow record batches, with the engine's types.

        Raises:
            InterfaceError: the result was read to its end, or is being iterated.
        """
        if self._ended or self._ahead:
            raise InterfaceError("rows of this result were read already; execute the query again")
        reader = self._call(self._arrow_reader)
        return reader.schema, self._drain(reader)

    def interrupt(self) -> None:
        """Make the running call, or the next one, end with an error; for another thread.

        Returns when no call is inside the engine any more.
        """
        self._stopped = True
        # Again and again: the engine forgets an interrupt that comes before it has started.
        while not self._idle.wait(0):
            self._connection.interrupt()
            self._idle.wait(INTERRUPT_SECONDS)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._end(None)
            self._connection.close()
            self._on_close()

    def _fetch(self, size: int) -> list[Row]:
        if self._ended:
            return []
        rows = self._call(lambda: self._connection.fetchmany(size))
        self.count += len(rows)
        if len(rows) < size:
            self._end(None)
        return rows

    def _arrow_reader(self) -> pa.RecordBatchReader:
        with warnings.catch_warnings():
            # The engine advises a lazy relation, which would not have run in ``execute``.
            warnings.simplefilter("ignore", UserWarning)
            reader = self._connection.to_arrow_reader(BATCH_ROWS)
        if reader is None:
            raise InterfaceError("rows of this result were read already; execute the query again")
        return reader

    def _drain(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        while True:
            try:
                batch = self._call(reader.read_next_batch)
            except StopIteration:
                self._end(None)
                return
            self.count += batch.num_rows
            yield batch

    def _call(self, call: Callable[[], T]) -> T:
        if self._closed:
            raise InterfaceError("the result is closed")
        try:
            return self._in_engine(call)
        except duckdb.Error as error:
            ours = self._translate(error)
            self._end(ours)
            raise ours from error
        except KeyboardInterrupt as stop:
            self._end(stop)
            raise

    def _in_engine(self, call: Callable[[], T]) -> T:
        self._idle.clear()
        try:
            if self._stopped:  # asked after clearing ``_idle``: ``interrupt`` does the reverse
                raise duckdb.InterruptException("stopped before it began")
            return interruptible(self._connection, call)
        finally:
            self._idle.set()

    def _end(self, error: BaseException | None) -> None:
        if not self._ended:
            self._ended = True
            self._on_end(self.count, error)
