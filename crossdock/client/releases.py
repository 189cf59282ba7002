"""Closing of runs nobody reads any more, away from the thread that dropped them."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crossdock.client.drivers import Run


class Releases:
    """A thread that closes runs one by one.

    Its queue is a ``SimpleQueue`` as a cursor can be collected at any line, inside ``put`` too.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Run | None] = SimpleQueue()
        self._errors: list[Exception] = []
        self._thread = threading.Thread(target=self._work, name="release-results", daemon=True)
        self._thread.start()

    def add(self, run: Run) -> None:
        """Close ``run`` soon; closing one twice is no error."""
        self._queue.put(run)

    def close(self) -> None:
        """Wait until every run is closed. Raises the first error that one of them met."""
        self._queue.put(None)
        self._thread.join()
        if self._errors:
            raise self._errors[0]

    def _work(self) -> None:
        while (run := self._queue.get()) is not None:
            try:
                run.close()
            except Exception as error:  # noqa: BLE001 - raised by close
                self._errors.append(error)
