"""The wall clock."""

import time


class SystemClock:
    """The machine's clock (``ports.Clock``)."""

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
