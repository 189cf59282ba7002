"""Blocking calls and Ctrl-C: those that it ends at once, and those that it may not cut in two."""

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
    between its tasks, which can be minutes apart, and raise an error of its own for them.
    """
    return stoppable(call, connection.interrupt)


def stoppable(call: Callable[[], T], stop: Callable[[], None]) -> T:
    """Run ``call``; on Ctrl-C ``stop`` is called, again and again, until it has ended."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    with ThreadPoolExecutor(1, thread_name_prefix="crossdock-engine") as pool:
        running = pool.submit(call)
        try:
            return running.result()
        except KeyboardInterrupt:
            _stop(running, stop)
            raise


def unhindered(call: Callable[[], None]) -> None:
    """Run ``call`` to its end, Ctrl-C or not; that is raised afterwards."""
    stoppable(call, lambda: None)


def _stop(running: Future[T], stop: Callable[[], None]) -> None:
    while not running.done():
        stop()
        wait([running], timeout=INTERRUPT_SECONDS)
