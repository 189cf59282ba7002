"""Ctrl-C and SIGTERM, from the first line of a command to its last.

A command runs in a thread of its own while the main thread listens. What a signal means is raised
in the main thread only, at any line and inside any library; some make another error of it, end the
process or forget it. So nothing is ever cut in two: a query is cancelled like any other.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143
#: Seconds that a command may take to end when there is nothing to cancel, and when there is.
_GRACE, _PATIENCE = 0.5, 20.0
#: Seconds between two looks for a signal, and between two cancels: one may come before its query.
_GLANCE, _AGAIN = 0.05, 0.25


class Signals:
    """What this process was sent, and how its command is stopped."""

    def __init__(self) -> None:
        self.number = 0  # of the signal that came; 0: none
        self._cancel: Callable[[], object] | None = None

    def attend(self, command: Callable[[], int]) -> int:
        """The exit code of ``command``, which is stopped when a signal comes."""
        outcome: list[int | BaseException] = []

        def run() -> None:
            try:
                outcome.append(command())
            except BaseException as error:  # noqa: BLE001 - raised in the main thread
                outcome.append(error)

        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._heard)
        # Not a daemon, nor are the threads that it starts: some may not be left when Python ends.
        thread = threading.Thread(target=run, name="command")
        thread.start()
        while thread.is_alive() and not self.number:
            thread.join(_GLANCE)
        if self.number and not self._stopped(thread):
            self._leave()
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return outcome[0]

    def cancels(self, cancel: Callable[[], object]) -> None:
        """What a signal does from now on. Raises ``KeyboardInterrupt`` if one has come."""
        self._cancel = cancel
        if self.number:  # asked after ``_cancel`` is set: ``_stopped`` does the reverse
            raise KeyboardInterrupt

    def tell(self) -> int:
        """Say on stderr what ended the command; its exit code."""
        word = "terminated" if self.number == signal.SIGTERM else "interrupted"
        effect = "; the query was cancelled" if self._cancel else ""
        sys.stderr.write(f"error: {word}{effect}\n")
        return EXIT_TERMINATED if self.number == signal.SIGTERM else EXIT_INTERRUPTED

    def _heard(self, number: int, frame: object) -> None:
        self.number = number
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)  # the second one ends the process at once

    def _stopped(self, thread: threading.Thread) -> bool:
        """Cancel what runs. False: the command has not ended in its time."""
        began = time.monotonic()
        while thread.is_alive():
            if time.monotonic() - began > (_PATIENCE if self._cancel else _GRACE):
                return False
            if self._cancel is not None:
                self._call(self._cancel)
            thread.join(_AGAIN)
        return True

    def _call(self, cancel: Callable[[], object]) -> None:
        from coordinator_state.errors import StateError
        from crossdock.errors import CrossdockError

        with suppress(StateError, CrossdockError):  # ended, closed or gone: the command tells
            cancel()

    def _leave(self) -> None:
        """End a process whose command waits for something else, such as its input."""
        code = self.tell()
        sys.stderr.flush()
        os._exit(code)


#: Those of this process.
SIGNALS = Signals()
