"""Queries through the public connection whose workers note every step and can be held in one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest

import crossdock.local
from crossdock.client.connection import Connection
from tests.integration import handmade

#: Longest that anything may take, in seconds: far beyond what it takes on a loaded machine.
PATIENCE = 60.0


def observe(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Connections opened from here on have workers steered by files in ``folder``."""
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv(handmade.HOOKS, str(folder))
    platform = partial(crossdock.local.LocalPlatform, observer="tests.integration.handmade:hook")
    monkeypatch.setattr(crossdock.local, "LocalPlatform", platform)


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for: {what}"
        time.sleep(0.002)


class Running:
    """A query in a thread of its own."""

    def __init__(self, connection: Connection, sql: str) -> None:
        self.cursor = connection.cursor()
        self.rows: list[tuple[object, ...]] = []
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(sql,))
        self._thread.start()

    def _run(self, sql: str) -> None:
        try:
            self.rows = self.cursor.execute(sql).fetchall()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test looks at it
            self.error = error

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(PATIENCE)
        assert self.over, "the query did not end"


@contextmanager
def running(connection: Connection, sql: str) -> Iterator[Running]:
    """Cancelled at the end of the block if it has not ended by then."""
    query = Running(connection, sql)
    try:
        yield query
    finally:
        if not query.over:
            query.cursor.cancel()
        query.join()


def worker_processes(home: Path) -> list[int]:
    """Live worker processes that this process started for ``home``, by number."""
    return sorted(one.pid for one in psutil.Process().children() if _works_for(one, home))


def _works_for(process: psutil.Process, home: Path) -> bool:
    try:
        return {"crossdock.platform.local.process", str(home)} <= set(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
