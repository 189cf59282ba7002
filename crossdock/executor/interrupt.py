"""Stopping a fragment from outside."""

from __future__ import annotations

import threading

import duckdb

from crossdock.executor.failures import FragmentInterrupted


class Interrupt:
    """Stops a running fragment from another thread.

    ``fire`` may come before, during or after the fragment; firing again is harmless, and right when
    a first call fell between two statements.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._fired = threading.Event()

    @property
    def fired(self) -> bool:
        return self._fired.is_set()

    def fire(self) -> None:
        """Stop now: the fragment raises ``FragmentInterrupted``."""
        self._fired.set()
        with self._lock:
            if self._connection is not None:
                self._connection.interrupt()

    def check(self) -> None:
        """Raise ``FragmentInterrupted`` once fired."""
        if self.fired:
            raise FragmentInterrupted("the fragment was stopped")

    def bind(self, connection: duckdb.DuckDBPyConnection | None) -> None:
        """The connection to stop, while there is one."""
        with self._lock:
            self._connection = connection
