"""Fresh names, fit for queue names and object keys: lower-case letters and digits only."""

from __future__ import annotations

import secrets
import threading

from crossdock.platform.clock import SystemClock
from crossdock.platform.ports import Clock

#: Five bits a character, in ASCII order, so that text sorts as the numbers do.
_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
#: 50 bits of milliseconds reach to the year 37648.
_TIME_CHARS = 10
_RANDOM_CHARS = 10


class RandomIds:
    """Ids that no two processes draw alike (``ports.Ids``).

    Query ids of one instance sort in the order they were drawn; those of different clients sort
    by the millisecond.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._last = 0

    def query_id(self) -> str:
        """20 characters: UTC milliseconds, then 50 random bits."""
        with self._lock:
            self._last = max(self._last + 1, int(self._clock.now() * 1000))
            milliseconds = self._last
        return _text(milliseconds, _TIME_CHARS) + _random(_RANDOM_CHARS)

    def worker_id(self) -> str:
        return "w" + _random(12)

    def nonce(self) -> str:
        return _random(16)


def created_at(query_id: str) -> float:
    """When a query id was drawn, in seconds since the epoch; its maker's clock, to the millisecond.

    Raises ``ValueError`` for text that is not a query id.
    """
    return int(query_id[:_TIME_CHARS], 32) / 1000


def _random(chars: int) -> str:
    return _text(secrets.randbits(5 * chars), chars)


def _text(number: int, chars: int) -> str:
    return "".join(_ALPHABET[number >> 5 * place & 31] for place in reversed(range(chars)))
