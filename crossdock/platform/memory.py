"""Ports held in memory: one process, nothing on disk. For tests, and as the shortest example.

The contract suite runs over these as over every other implementation.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from crossdock.errors import ObjectExists, ObjectNotFound, PlatformError, QueueNotFound
from crossdock.platform import bodies as rules
from crossdock.platform.keys import checked
from crossdock.platform.ports import Message, ObjectInfo


@dataclass(slots=True)
class _Held:
    body: bytes
    number: int
    receives: int = 0
    receipt: str = ""
    hidden_until: float = 0.0


@dataclass(slots=True)
class _Queue:
    messages: list[_Held] = field(default_factory=list)


class MemoryQueues:
    """Queues with visibility timeouts (``ports.Queues``)."""

    def __init__(
        self,
        *,
        visibility_seconds: float = 30.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._visibility = visibility_seconds
        self._monotonic = monotonic
        self._queues: dict[str, _Queue] = {}
        self._changed = threading.Condition()
        self._numbers = count()

    def create(self, *names: str) -> None:
        with self._changed:
            for name in names:
                self._queues.setdefault(name, _Queue())

    def send(self, name: str, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            rules.text_of(body)
        with self._changed:
            self._queue(name).messages += [_Held(body, next(self._numbers)) for body in bodies]
            self._changed.notify_all()

    def receive(self, name: str, *, limit: int = 10, wait: float = 0.0) -> Sequence[Message]:
        until = self._monotonic() + wait
        with self._changed:
            while True:
                queue = self._queue(name)
                now = self._monotonic()
                visible = [held for held in queue.messages if held.hidden_until <= now]
                if visible:
                    return [self._hand_out(held, now) for held in visible[:limit]]
                if now >= until:
                    return []
                hidden = [held.hidden_until for held in queue.messages]
                self._changed.wait(max(0.0, min([until, *hidden]) - now))

    def delete(self, name: str, receipts: Sequence[str]) -> None:
        with self._changed:
            queue = self._queue(name)
            queue.messages = [held for held in queue.messages if held.receipt not in receipts]

    def drop(self, *names: str) -> None:
        with self._changed:
            for name in names:
                self._queues.pop(name, None)
            self._changed.notify_all()

    def names(self, prefix: str) -> Sequence[str]:
        with self._changed:
            return sorted(name for name in self._queues if name.startswith(prefix))

    def _queue(self, name: str) -> _Queue:
        if name not in self._queues:
            raise QueueNotFound(f"queue {name} does not exist")
        return self._queues[name]

    def _hand_out(self, held: _Held, now: float) -> Message:
        held.receives += 1
        held.receipt = f"{held.number}-{held.receives}"
        held.hidden_until = now + self._visibility
        return Message(body=held.body, receipt=held.receipt, receives=held.receives)


class MemoryObjects:
    """Create-only objects in a dictionary (``ports.Objects``)."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, float]] = {}

    def put(self, key: str, data: bytes) -> None:
        self.put_files(key, (data,))

    def put_files(self, key: str, parts: Iterable[bytes | Path]) -> int:
        checked(key)
        data = b"".join(_bytes_of(part) for part in parts)
        with self._lock:
            if key in self._objects:
                raise ObjectExists(f"object {key} exists already")
            self._objects[key] = (data, self._now())
        return len(data)

    def get(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes:
        data, _ = self._object(key)
        return data[offset:] if length is None else data[offset : offset + length]

    def fetch(self, key: str, target: Path, *, offset: int = 0, length: int | None = None) -> None:
        data = self.get(key, offset=offset, length=length)
        try:
            target.write_bytes(data)
        except OSError as error:
            raise PlatformError(f"object {key}: {error.strerror}: {target}") from error

    def head(self, key: str) -> ObjectInfo:
        data, modified_at = self._object(key)
        return ObjectInfo(key=key, size=len(data), modified_at=modified_at)

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        with self._lock:
            keys = sorted(key for key in self._objects if key.startswith(prefix))
        return [self.head(key) for key in keys]

    def delete(self, keys: Sequence[str]) -> None:
        with self._lock:
            for key in keys:
                self._objects.pop(checked(key), None)

    def _object(self, key: str) -> tuple[bytes, float]:
        with self._lock:
            if checked(key) not in self._objects:
                raise ObjectNotFound(f"no object {key}")
            return self._objects[key]


def _bytes_of(part: bytes | Path) -> bytes:
    if isinstance(part, bytes):
        return part
    try:
        return part.read_bytes()
    except OSError as error:
        raise PlatformError(f"cannot read {part}: {error.strerror}") from error
