"""Twins of queues and objects, all of whose calls the weather meets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeVar

from crossdock.errors import ObjectExists, ObjectNotFound, PlatformUnavailable, QueueNotFound
from crossdock.platform.memory import MemoryObjects
from crossdock.platform.ports import Message, ObjectInfo
from tests.simulation.kernel import Fiber, Kernel, Killed, fiber_of, process_of
from tests.simulation.table import client_error
from tests.simulation.weather import Fault, Rate, Strike, Weather

T = TypeVar("T")
#: Seconds after which S3 or SQS certainly answered or failed.
_LATE = 5.0


class Calls:
    """Every call to the outside goes through here: it takes a while, and may meet the weather."""

    def __init__(self, kernel: Kernel, weather: Weather) -> None:
        self.kernel = kernel
        self.weather = weather
        self.tally: Counter[str] = Counter()  # "role verb" -> how often asked
        self.bodies: list[bytes] = []  # every message sent: strays are drawn from them

    def stray(self) -> bytes:
        """A message of another shuffle, or of no shuffle at all."""
        if not self.bodies or self.kernel.random.random() < 0.2:
            return b'{"protocol": 99}'
        return self.kernel.random.choice(self.bodies)

    def __call__(
        self,
        verb: str,
        subject: str,
        effect: Callable[[], T],
        failure: Callable[[Fault], Exception],
    ) -> T:
        kernel = self.kernel
        kernel.pause(self.weather.latency())
        process = process_of()
        self.tally[f"{process.role} {verb}"] += 1
        strike = self.weather.strike(process, verb)
        what = f"{verb} {subject}"
        if strike is not None:
            kernel.note(process.name, f"*** {strike.fault} at {what}")
            return self._struck(strike, what, effect, failure)
        try:
            result = effect()
        except Exception as error:
            kernel.note(process.name, f"{what} -> {type(error).__name__}")
            raise
        kernel.note(process.name, what)
        return result

    def _struck(
        self,
        strike: Strike,
        what: str,
        effect: Callable[[], T],
        failure: Callable[[Fault], Exception],
    ) -> T:
        kernel, process = self.kernel, process_of()
        match strike.fault:
            case Fault.KILL:
                process.kill()
                raise Killed
            case Fault.KILL_AFTER:
                self._quietly(what, effect)
                process.kill()
                raise Killed
            case Fault.KILL_GHOST:
                kernel.later(strike.seconds, lambda: self._quietly(what, effect))
                process.kill()
                raise Killed
            case Fault.STALL:
                kernel.freeze(process, strike.seconds)
                kernel.pause(0.0)
                return effect()
            case Fault.STALL_AFTER:
                result = effect()
                kernel.freeze(process, strike.seconds)
                kernel.pause(0.0)
                return result
            case Fault.LOST:
                self._quietly(what, effect)
            case Fault.GHOST:
                kernel.later(strike.seconds, lambda: self._quietly(what, effect))
                kernel.pause(min(strike.seconds, _LATE))
            case Fault.REPEAT:
                self._quietly(what, effect)
                kernel.pause(self.weather.latency())
                return effect()
        raise failure(strike.fault)

    def _quietly(self, what: str, effect: Callable[[], object]) -> None:
        """Nobody hears the answer, whatever it is."""
        try:
            effect()
        except Exception as error:  # noqa: BLE001 - refusals are answers too
            self.kernel.note("(unheard)", f"{what} -> {type(error).__name__}")
        else:
            self.kernel.note("(unheard)", what)


def _slow_down(fault: Fault) -> Exception:
    return PlatformUnavailable(f"503 SlowDown ({fault})")


def table_failure(fault: Fault) -> Exception:
    """What DynamoDB answers."""
    if fault is Fault.CONFLICT:
        return client_error("TransactionConflictException", "any")
    return client_error("InternalServerError", "any", status=500)


@dataclass(slots=True)
class _Held:
    body: bytes
    visible_at: float
    receipt: str = ""
    receives: int = 0


@dataclass(slots=True)
class _Queue:
    made_at: float
    messages: list[_Held] = field(default_factory=list)
    waiting: list[Fiber] = field(default_factory=list)


class QueueTwin:
    """Queues (``ports.Queues``): lossy, repeating, late and empty-handed as the weather has it."""

    def __init__(self, calls: Calls, *, visibility: float = 30.0) -> None:
        self._calls = calls
        self._kernel, self._weather = calls.kernel, calls.weather
        self._visibility = visibility
        self._queues: dict[str, _Queue] = {}
        self._receipts = count()
        self.on_send: Callable[[bytes], None] = lambda body: None

    def create(self, *names: str) -> None:
        for name in names:
            self._calls("create", name, lambda n=name: self.make(n), _slow_down)  # type: ignore[misc]

    def make(self, name: str) -> None:
        self._queues.setdefault(name, _Queue(self._kernel.now))

    def send(self, name: str, bodies: Sequence[bytes]) -> None:
        self._calls("send", name, lambda: self._put(name, bodies), _slow_down)

    def receive(self, name: str, *, limit: int = 10, wait: float = 0.0) -> Sequence[Message]:
        until = self._kernel.now + wait
        while True:
            found = self._calls("receive", name, lambda: self._take(name, limit), _slow_down)
            left = until - self._kernel.now
            if found or left <= 0:
                return found
            self._wait(name, left)

    def _wait(self, name: str, seconds: float) -> None:
        queue = self._queue(name)
        now = self._kernel.now
        coming = [m.visible_at - now for m in queue.messages if m.visible_at > now]
        fiber = fiber_of()
        queue.waiting.append(fiber)
        try:
            self._kernel.park(min([seconds, *coming]))
        finally:
            queue.waiting.remove(fiber)

    def delete(self, name: str, receipts: Sequence[str]) -> None:
        if receipts:
            self._calls("delete message", name, lambda: self._drop(name, receipts), _slow_down)

    def drop(self, *names: str) -> None:
        for name in names:
            self._calls("drop", name, lambda n=name: self._unmake(n), _slow_down)  # type: ignore[misc]

    def names(self, prefix: str) -> Sequence[str]:
        return self._calls("names", prefix, lambda: self._names(prefix), _slow_down)

    def left(self) -> list[str]:
        return sorted(self._queues)

    # -- effects ---------------------------------------------------------------------------------
    def _put(self, name: str, bodies: Sequence[bytes]) -> None:
        queue = self._queue(name)
        weather, now = self._weather, self._kernel.now
        for body in bodies:
            if weather.chance(Rate.LOSE_MESSAGE):
                self._kernel.note("(queue)", f"loses a message to {name}")
                continue
            copies = 2 if weather.chance(Rate.REPEAT_MESSAGE) else 1
            for _ in range(copies):
                late = weather.uniform(0.5, 20) if weather.chance(Rate.DELAY_MESSAGE) else 0.0
                queue.messages.append(_Held(body, now + late))
        self._calls.bodies += bodies
        for body in bodies:
            self.on_send(body)
        if weather.chance(Rate.STRAY_MESSAGE):
            queue.messages.append(_Held(self._calls.stray(), now))
        for fiber in queue.waiting:
            self._kernel.wake(fiber)

    def _take(self, name: str, limit: int) -> Sequence[Message]:
        queue, now = self._queue(name), self._kernel.now
        visible = [m for m in queue.messages if m.visible_at <= now]
        if not visible or self._weather.chance(Rate.EMPTY_RECEIVE):
            return []
        self._kernel.random.shuffle(visible)
        short = self._weather.chance(Rate.SHORT_VISIBILITY)
        taken = []
        for held in visible[:limit]:
            held.receives += 1
            held.receipt = f"r{next(self._receipts)}"
            held.visible_at = now + (0.01 if short else self._visibility)
            taken.append(Message(body=held.body, receipt=held.receipt, receives=held.receives))
        return taken

    def _drop(self, name: str, receipts: Sequence[str]) -> None:
        queue = self._queue(name)
        if self._weather.chance(Rate.MESSAGE_STAYS):
            for held in queue.messages:
                held.visible_at = min(held.visible_at, self._kernel.now + 0.4)
            return
        queue.messages = [m for m in queue.messages if m.receipt not in receipts]

    def _unmake(self, name: str) -> None:
        self._queues.pop(name, None)

    def _names(self, prefix: str) -> Sequence[str]:
        lag = 60.0 if self._weather.chance(Rate.LISTING_LAGS) else 0.0
        seen = self._kernel.now - lag
        return sorted(
            n for n, queue in self._queues.items() if n.startswith(prefix) and queue.made_at <= seen
        )

    def _queue(self, name: str) -> _Queue:
        if name not in self._queues:
            raise QueueNotFound(f"queue {name} does not exist")
        return self._queues[name]


class ObjectTwin:
    """Create-only objects (``ports.Objects``), and uploads that died half way."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._kernel, self._weather = calls.kernel, calls.weather
        self._objects: dict[str, tuple[bytes, float]] = {}
        self._uploads: dict[int, float] = {}
        self._numbers = count()
        self._fetched: set[str] = set()
        self.on_put: Callable[[str], None] = lambda key: None

    def put(self, key: str, data: bytes) -> None:
        self._calls("put", key, lambda: self._put(key, data), _slow_down)

    def put_files(self, key: str, parts: Iterable[bytes | Path]) -> int:
        data = b"".join(p if isinstance(p, bytes) else p.read_bytes() for p in parts)
        upload = next(self._numbers)
        self._uploads[upload] = self._kernel.now
        self._calls("part", key, lambda: None, _slow_down)

        def effect() -> None:
            self._uploads.pop(upload, None)
            self._put(key, data)

        try:
            self._calls("put", key, effect, _slow_down)
        except PlatformUnavailable:
            self._uploads.pop(upload, None)  # its writer aborts it
            raise
        return len(data)

    def get(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes:
        end = None if length is None else offset + length
        return self._calls("get", key, lambda: self._read(key)[offset:end], _slow_down)

    def fetch(self, key: str, target: Path, *, offset: int = 0, length: int | None = None) -> None:
        end = None if length is None else offset + length
        data = self._calls("fetch", key, lambda: self._read(key)[offset:end], _slow_down)
        target.write_bytes(data)

    def head(self, key: str) -> ObjectInfo:
        return self._calls("get", key, lambda: self._info(key), _slow_down)

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        return self._calls("list", prefix, lambda: self._list(prefix), _slow_down)

    def delete(self, keys: Sequence[str]) -> None:
        if keys:
            self._calls("delete object", " ".join(keys), lambda: self._delete(keys), _slow_down)

    def abort_uploads(self, *, older_than: float) -> int:
        old = [number for number, at in self._uploads.items() if at < older_than]
        for number in old:
            del self._uploads[number]
        return len(old)

    def open(self) -> MemoryObjects:
        """A look at the same objects that takes no time and meets no weather."""
        look = MemoryObjects(lambda: self._kernel.now)
        look._objects = self._objects
        return look

    def peek(self, key: str) -> bytes:
        """What is there, for checks. Raises ``KeyError``."""
        return self._objects[key][0]

    def left(self) -> list[str]:
        return sorted(self._objects) + [f"upload {number}" for number in self._uploads]

    # -- effects ---------------------------------------------------------------------------------
    def _put(self, key: str, data: bytes) -> None:
        if key in self._objects:
            raise ObjectExists(f"object {key} exists already")
        self.on_put(key)
        self._objects[key] = (data, self._kernel.now)

    def _read(self, key: str) -> bytes:
        self._decay(key)
        if key not in self._objects:
            raise ObjectNotFound(f"no object {key}")
        return self._objects[key][0]

    def _decay(self, key: str) -> None:
        """An exchange object goes, or is damaged; often after somebody has read of it."""
        if not key.startswith("exchange/") or key not in self._objects:
            return
        first = key not in self._fetched
        self._fetched.add(key)
        if first and self._kernel.random.random() < 0.5:
            return
        if self._weather.chance(Rate.OBJECT_LOST):
            self._kernel.note("(objects)", f"LOSES {key}")
            del self._objects[key]
        elif self._weather.chance(Rate.OBJECT_DAMAGED):
            self._kernel.note("(objects)", f"DAMAGES {key}")
            data, at = self._objects[key]
            place = self._kernel.random.randrange(len(data))
            self._objects[key] = (data[:place] + b"\xff" + data[place:], at)

    def _info(self, key: str) -> ObjectInfo:
        if key not in self._objects:
            raise ObjectNotFound(f"no object {key}")
        data, at = self._objects[key]
        return ObjectInfo(key=key, size=len(data), modified_at=at)

    def _list(self, prefix: str) -> Sequence[ObjectInfo]:
        return [self._info(key) for key in sorted(self._objects) if key.startswith(prefix)]

    def _delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._objects.pop(key, None)
