"""The wall clock."""

import time


class SystemClock:
    """The machine's clock (``ports.Clock``)."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
