"""What the engine needs from a platform: queues, objects, a launcher, a clock, fresh ids.

Each port has a local and an AWS implementation that pass one contract suite. Ports raise
``crossdock.errors.PlatformError`` children, never the medium's own exceptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A received message; ``receipt`` is good for one delete, until its visibility ends."""

    body: bytes
    receipt: str
    receives: int = 1


class Queues(Protocol):
    """At least once, unordered, as SQS standard queues. A body is at most 1 MiB."""

    def create(self, *names: str) -> None:
        """Make queues; making one again is no error."""
        ...

    def send(self, name: str, bodies: Sequence[bytes]) -> None:
        """Send to one queue, in as few requests as limits allow. Raises ``QueueNotFound``."""
        ...

    def receive(self, name: str, *, limit: int = 10, wait: float = 0.0) -> Sequence[Message]:
        """Up to ``limit`` messages, waiting up to ``wait`` seconds for the first."""
        ...

    def delete(self, name: str, receipts: Sequence[str]) -> None:
        """Delete received messages. A stale receipt is not an error: the message is not ours."""
        ...

    def drop(self, *names: str) -> None:
        """Delete queues with their messages; dropping what is not there is no error."""
        ...

    def names(self, prefix: str) -> Sequence[str]:
        """Existing queues whose name starts with ``prefix``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    key: str
    size: int
    modified_at: float


class Objects(Protocol):
    """Objects under ``/``-separated keys, as S3."""

    def put(self, key: str, data: bytes) -> None:
        """Create-only. Raises ``ObjectExists`` (the caller compares length and checksum)."""
        ...

    def put_files(self, key: str, parts: Iterable[bytes | Path]) -> int:
        """Create-only object made of byte strings and whole files, in order; its size in bytes.

        Nothing is visible under ``key`` before all of it is. Raises ``ObjectExists``.
        """
        ...

    def get(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """One ranged read. Raises ``ObjectNotFound``."""
        ...

    def fetch(self, key: str, target: Path, *, offset: int = 0, length: int | None = None) -> None:
        """One ranged read into a new local file. Raises ``ObjectNotFound``."""
        ...

    def head(self, key: str) -> ObjectInfo:
        """Raises ``ObjectNotFound``."""
        ...

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        """Every object below ``prefix``, by key."""
        ...

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; absent ones are no error."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a worker is told when it is started."""

    query_id: str
    worker_id: str
    worker_class: str = "standard"
    # By the launching coordinator's clock, in seconds; 0: not told.
    launched_at: float = 0.0
    deadline: float = 0.0  # it registers by then, or never


class Launcher(Protocol):
    """Starts workers. Accepting a launch promises nothing: only registering does."""

    def launch(self, launches: Sequence[Launch]) -> Sequence[Launch]:
        """Start workers; returns the launches that were accepted (the rest: no capacity now)."""
        ...

    def gone(self, worker_ids: Sequence[str]) -> frozenset[str]:
        """Those of the workers that are known for certain to run no more. May know nothing."""
        ...


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment; unlike ``now`` it never jumps."""
        ...

    def sleep(self, seconds: float) -> None: ...


class Ids(Protocol):
    def query_id(self) -> str:
        """Sorts by creation time."""
        ...

    def worker_id(self) -> str: ...

    def nonce(self) -> str: ...


class Control(Protocol):
    """How workers and clients knock at the coordinator, and how it sets its own alarm."""

    def notify(self, query_id: str) -> None:
        """Something of this query changed; a turn should be taken soon."""
        ...

    def tick(self, query_id: str, number: int, *, delay: float) -> None:
        """Ask for tick ``number`` in ``delay`` seconds."""
        ...


class Meter(Protocol):
    """Counts requests by kind for the receipt (``object_put``, ``queue_send``, ...)."""

    def count(self, kind: str, amount: int = 1) -> None: ...

    def usage(self) -> Mapping[str, int]: ...
