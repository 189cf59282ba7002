"""Twins of Lambda and the control queue, and fresh names in a fixed order."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from crossdock.platform.ports import Launch
from tests.simulation.media import Calls
from tests.simulation.table import client_error
from tests.simulation.weather import Fault, Rate


class FunctionTwin:
    """Lambda's asynchronous invocations: refused, late, twice, or never run."""

    EVENT_AGE = 60.0  # seconds an event may wait for a free slot

    def __init__(
        self, calls: Calls, run: Callable[[Launch, float], None], *, concurrency: int
    ) -> None:
        """``run`` starts a worker for a launch after so many seconds."""
        self._calls = calls
        self._run = run
        self._concurrency = concurrency
        self.waiting: list[Launch] = []
        self.running = 0

    def invoke(self, *, FunctionName: str, InvocationType: str, Payload: bytes) -> Any:
        del FunctionName, InvocationType
        launch = msgspec.json.decode(Payload, type=Launch)
        weather = self._calls.weather

        def effect() -> None:
            if weather.chance(Rate.LAUNCH_REFUSED):
                raise client_error("TooManyRequestsException", "Invoke", status=429)
            if weather.chance(Rate.LAUNCH_NEVER):
                return
            for _ in range(2 if weather.chance(Rate.LAUNCH_TWICE) else 1):
                late = weather.uniform(20, 90) if weather.chance(Rate.LAUNCH_LATE) else 0.0
                self._calls.kernel.later(late, lambda: self.accept(launch))

        def failure(fault: Fault) -> Exception:
            return client_error("TooManyRequestsException", "Invoke", status=429)

        return self._calls("invoke", launch.worker_id, effect, failure)

    def accept(self, launch: Launch) -> None:
        """Start it when there is room."""
        self.waiting.append(launch)
        self.fill()
        if launch in self.waiting:
            self._calls.kernel.later(self.EVENT_AGE, lambda: self._expire(launch))

    def _expire(self, launch: Launch) -> None:
        if launch in self.waiting:
            self.waiting.remove(launch)
            self._calls.kernel.note("(functions)", f"{launch.worker_id} expired")

    def fill(self) -> None:
        while self.waiting and self.running < self._concurrency:
            self.running += 1
            self._run(self.waiting.pop(0), self._calls.weather.uniform(0.02, 0.3))

    def ended(self) -> None:
        self.running -= 1
        self.fill()


@dataclass(slots=True)
class _Letter:
    body: str
    visible_at: float
    receives: int = 0


class ControlTwin:
    """The control queue, and what Lambda does with it: batches, each in an invocation."""

    VISIBILITY = 30.0
    RECEIVES = 5  # then it is set aside

    def __init__(
        self, calls: Calls, serve: Callable[[list[Any], Callable[..., None]], None]
    ) -> None:
        """``serve`` runs an invocation over a batch, and calls back with what failed of it."""
        self._calls = calls
        self._kernel, self._weather = calls.kernel, calls.weather
        self._serve = serve
        self.letters: list[_Letter] = []
        self.alarms = 0  # sent
        self.set_aside = 0

    def send_message(self, *, QueueUrl: str, MessageBody: str, DelaySeconds: int = 0) -> Any:
        del QueueUrl
        alarm = "tick" in MessageBody
        verb = "tick" if alarm else "notify"

        def effect() -> dict[str, Any]:
            self.alarms += alarm
            self.post(MessageBody, float(DelaySeconds))
            return {}

        def failure(fault: Fault) -> Exception:
            return client_error("ServiceUnavailable", "SendMessage", status=503)

        return self._calls(verb, MessageBody, effect, failure)

    def post(self, body: str, delay: float = 0.0) -> None:
        weather = self._weather
        for _ in range(2 if weather.chance(Rate.REPEAT_CONTROL) else 1):
            late = weather.uniform(0.5, 20) if weather.chance(Rate.DELAY_CONTROL) else 0.0
            wait = delay + late + weather.uniform(0.005, 0.03)
            self.letters.append(_Letter(body, self._kernel.now + wait))
            self._kernel.later(wait, self._deliver)

    def _deliver(self) -> None:
        now = self._kernel.now
        batch = [letter for letter in self.letters if letter.visible_at <= now][:10]
        if not batch:
            return
        for letter in [one for one in batch if one.receives >= self.RECEIVES]:
            batch.remove(letter)
            self.letters.remove(letter)
            self.set_aside += 1
        for letter in batch:
            letter.receives += 1
            letter.visible_at = now + self.VISIBILITY
        if self._weather.chance(Rate.LOSE_CONTROL):
            self._kernel.note("(control)", f"sets {len(batch)} aside")
            self._settle(batch, failed=())
            return
        records = [{"messageId": str(i), "body": one.body} for i, one in enumerate(batch)]
        self._serve(records, lambda failed: self._settle(batch, failed))
        self._kernel.later(self.VISIBILITY + 0.001, self._deliver)

    def _settle(self, batch: Sequence[_Letter], failed: Iterable[str]) -> None:
        """An invocation has answered; without an answer messages come again by themselves."""
        again = {int(name) for name in failed}
        for number, letter in enumerate(batch):
            if number not in again or letter.receives >= self.RECEIVES:
                self.set_aside += number in again
                if letter in self.letters:
                    self.letters.remove(letter)


class SimulatedIds:
    """Fresh names in a fixed order; a process's own draw of a nonce is as good as random."""

    def __init__(self, rng: random.Random) -> None:
        self._random = rng
        self._numbers = count(1)

    def query_id(self) -> str:
        return f"{next(self._numbers):010d}{self._random.randrange(10**10):010d}"

    def worker_id(self) -> str:
        return f"w{next(self._numbers):04d}"

    def nonce(self) -> str:
        return f"n{next(self._numbers):05d}"
