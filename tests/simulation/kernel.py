"""Virtual time: processes made of greenlets, run one at a time in an order the seed decides.

Real code runs inside fibers. Whatever it asks of the outside (a store, a queue, a clock) pauses the
fiber, and the kernel goes on with whoever is due next. Nothing here waits in real time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from heapq import heappop, heappush
from itertools import count
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

T = TypeVar("T")

#: Virtual time begins here, in seconds since the epoch.
EPOCH = 1_790_000_000.0
#: Resumptions after which a seed is taken for a livelock.
MAX_STEPS = 40_000
_TRACE_KEPT = 60_000


class Killed(BaseException):
    """The process is dead; raised by whatever it asks for from then on."""


class Stuck(AssertionError):
    """More happened than any seed may need."""


class Process:
    """One function invocation, client or janitor: fibers that die and freeze together."""

    def __init__(self, kernel: Kernel, name: str, role: str, skew: float) -> None:
        self.name = name
        self.role = role  # worker | coordinator | client | janitor
        self.skew = skew  # seconds its clock is ahead
        self.alive = True
        self.frozen_until = 0.0
        self.error: BaseException | None = None
        self.on_end: Callable[[Process], None] = lambda process: None
        self._kernel = kernel
        self._ended = False

    def kill(self) -> None:
        """From now on nothing it asks for happens. Its fibers unwind when they are next due."""
        if self.alive:
            self.alive = False
            self._kernel.note(self.name, "KILLED")
            self.end()

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self.alive = False
            self.on_end(self)


class Fiber(greenlet):
    process: Process
    main: bool
    token: int  # moves with every resumption, so that a wake-up counts once
    waiting: bool


class Kernel:
    """The clock, the queue of who is due, and the trace."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = EPOCH
        self.steps = 0
        self.trace: list[tuple[float, str, str]] = []
        self._due: list[tuple[float, float, int, Any, int]] = []
        self._numbers = count()
        self._hub = getcurrent()

    # -- the trace -------------------------------------------------------------------------------
    def note(self, who: str, what: str) -> None:
        self.trace.append((self.now, who, what))
        if len(self.trace) > _TRACE_KEPT:
            del self.trace[: _TRACE_KEPT // 2]

    def story(self, last: int = 0) -> str:
        """The trace as text."""
        lines = [f"{at - EPOCH:10.3f} {who:18} {what}" for at, who, what in self.trace[-last:]]
        return "\n".join(lines)

    # -- processes -------------------------------------------------------------------------------
    def process(self, name: str, role: str, *, skew: float = 0.0) -> Process:
        return Process(self, name, role, skew)

    def start(
        self, process: Process, run: Callable[[], object], *, delay: float = 0.0, main: bool = True
    ) -> Fiber:
        """Run something in the process; with ``main`` the process ends with it."""
        fiber = Fiber(lambda: self._live(process, run, main=main), self._hub)
        fiber.process, fiber.main, fiber.token, fiber.waiting = process, main, 0, False
        self._push(self.now + delay, fiber)
        return fiber

    def _live(self, process: Process, run: Callable[[], object], *, main: bool) -> None:
        try:
            process_of()
            run()
        except Killed:
            return
        except Exception as error:  # noqa: BLE001 - what a process dies of is what we look for
            process.error = error
            self.note(process.name, f"died of {type(error).__name__}: {error}")
            process.end()
            return
        if main:
            process.end()

    def later(self, delay: float, do: Callable[[], object]) -> None:
        """Do something in ``delay`` seconds that belongs to no process and does not pause."""
        self._push(self.now + delay, do)

    # -- pausing ---------------------------------------------------------------------------------
    def pause(self, seconds: float) -> None:
        """Let others go on for so long."""
        fiber = _fiber()
        process_of()
        self._push(self.now + seconds, fiber)
        self._hub.switch()
        process_of()

    def park(self, seconds: float) -> None:
        """Pause until woken, at most for so long."""
        fiber = _fiber()
        fiber.waiting = True
        try:
            self.pause(seconds)
        finally:
            fiber.waiting = False

    def wake(self, fiber: Fiber) -> None:
        if fiber.waiting:
            self._push(self.now, fiber)

    def freeze(self, process: Process, seconds: float) -> None:
        process.frozen_until = max(process.frozen_until, self.now + seconds)
        self.note(process.name, f"FROZEN for {seconds:.1f} s")

    # -- running ---------------------------------------------------------------------------------
    def run(self, until: float, *, stop: Callable[[], bool] = lambda: False) -> None:
        """Go on until that moment, until nobody is due, or until ``stop`` says so."""
        due = self._due
        while not stop():
            if not due or due[0][0] > until:
                self.now = max(self.now, until)
                return
            at, tie, number, what, token = heappop(due)
            self.now = max(self.now, at)
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise Stuck(f"{MAX_STEPS} steps and no end")
            if not isinstance(what, Fiber):
                what()
            elif not what.dead and token == what.token:
                self._resume(what, tie, number)

    def _resume(self, fiber: Fiber, tie: float, number: int) -> None:
        process = fiber.process
        if process.alive and process.frozen_until > self.now:
            heappush(self._due, (process.frozen_until, tie, number, fiber, fiber.token))
            return
        fiber.token += 1
        fiber.switch()

    def close(self) -> None:
        """Unwind every fiber that is left."""
        while self._due:
            *_, what, _token = heappop(self._due)
            if isinstance(what, Fiber) and not what.dead:
                what.process.alive = False
                what.token += 1
                what.switch()

    def _push(self, at: float, what: Fiber | Callable[[], object]) -> None:
        token = what.token if isinstance(what, Fiber) else 0
        heappush(self._due, (at, self.random.random(), next(self._numbers), what, token))


def _fiber() -> Fiber:
    fiber = getcurrent()
    assert isinstance(fiber, Fiber), "only a process may pause"
    return fiber


def fiber_of() -> Fiber:
    """The fiber that runs now."""
    return _fiber()


def process_of() -> Process:
    """The process that runs now. Raises ``Killed`` when it is dead."""
    process = _fiber().process
    if not process.alive:
        raise Killed
    return process


class VirtualClock:
    """``ports.Clock``: wrong by the process's skew, as clocks are; ``monotonic`` is not."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def now(self) -> float:
        return self._kernel.now + process_of().skew

    def monotonic(self) -> float:
        return self._kernel.now

    def sleep(self, seconds: float) -> None:
        self._kernel.pause(max(0.0, seconds))


class InlinePool(Executor):
    """Does what is submitted at once, in the caller's own fiber."""

    def __init__(self, size: int, name: str) -> None:
        del size, name

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - handed to whoever asks for the result
            future.set_exception(error)
        return future


def one_by_one(do: Callable[[Any], Any], things: Sequence[Any]) -> list[Any]:
    """``InParallel`` without threads."""
    return [do(thing) for thing in things]


class FiberPulse:
    """``heartbeat.Pulse``: beats in a fiber of the worker's process."""

    def __init__(self, kernel: Kernel, dies: Callable[[], bool] = lambda: False) -> None:
        """``dies``: asked before every beat; True ends this pulse alone, as a thread may die."""
        self._kernel = kernel
        self._dies = dies

    def __call__(
        self, beat: Callable[[], float | None], *, first: float, name: str
    ) -> Callable[[], None]:
        stopped = False

        def run() -> None:
            pause: float | None = first
            while pause is not None:
                self._kernel.pause(pause)
                if stopped or self._dies():
                    return
                pause = beat()

        def stop() -> None:
            nonlocal stopped
            stopped = True

        self._kernel.start(process_of(), run, main=False)
        return stop
