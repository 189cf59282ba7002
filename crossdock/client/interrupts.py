"""Blocking engine calls that Ctrl-C ends at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

import duckdb

T = TypeVar("T")

#: Seconds between two interrupt calls: one that comes before the engine starts is lost.
INTERRUPT_SECONDS = 0.05


def interruptible(connection: duckdb.DuckDBPyConnection, call: Callable[[], T]) -> T:
    """Run ``call``, which blocks inside ``connection``; Ctrl-C interrupts it and is raised again.

    In the main thread the call moves to another one, as the engine would look for signals only
    between its tasks, which can be minutes apart.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    with ThreadPoolExecutor(1, thread_name_prefix="crossdock-engine") as pool:
        running = pool.submit(call)
        try:
            return running.result()
        except KeyboardInterrupt:
            _interrupt(connection, running)
            raise


def _interrupt(connection: duckdb.DuckDBPyConnection, running: Future[T]) -> None:
    while not running.done():
        connection.interrupt()
        wait([running], timeout=INTERRUPT_SECONDS)
