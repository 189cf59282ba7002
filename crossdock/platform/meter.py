"""Counting requests by kind, for the receipt: wrappers around the ports.

A request is counted when it is made, as AWS bills it, whether or not it succeeds. Locally the
counts say what the same query would have asked of AWS.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from coordinator_state.store import StateStore
from crossdock.platform import bodies as rules
from crossdock.platform import uploads
from crossdock.platform.ports import Control, Message, Meter, ObjectInfo, Objects, Queues

_Store = TypeVar("_Store", bound=StateStore)


class Kind(StrEnum):
    """Kinds of request; the keys of a usage mapping."""

    OBJECT_PUT = "object_put"
    OBJECT_GET = "object_get"  # ranged or whole, and looks at one object's size
    OBJECT_LIST = "object_list"  # one for every 1,000 keys
    OBJECT_DELETE = "object_delete"  # one for every 1,000 keys
    QUEUE_CREATE = "queue_create"
    QUEUE_DROP = "queue_drop"
    QUEUE_LIST = "queue_list"
    QUEUE_SEND = "queue_send"  # batches of up to 10 messages and 1 MiB
    QUEUE_MESSAGE = "queue_message"  # messages sent; not billed as such
    QUEUE_RECEIVE = "queue_receive"  # empty ones too
    QUEUE_CHUNK = "queue_chunk"  # what sends and receives are billed by: 64 KiB units, at least 1
    QUEUE_DELETE = "queue_delete"  # batches of up to 10 receipts
    STATE_WRITE = "state_write"  # items written
    STATE_READ = "state_read"  # 4 KB units, estimated from the number of items


class CountingMeter:
    """Cumulative counts of this process (``ports.Meter``); threads may share it."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def count(self, kind: str, amount: int = 1) -> None:
        with self._lock:
            self._counts[kind] += amount

    def usage(self) -> Mapping[str, int]:
        """A copy of the counts so far."""
        with self._lock:
            return {str(kind): amount for kind, amount in self._counts.items()}


class MeteredQueues:
    """Queues whose requests are counted as SQS would charge them."""

    def __init__(self, queues: Queues, meter: Meter) -> None:
        self._queues = queues
        self._meter = meter

    def create(self, *names: str) -> None:
        self._meter.count(Kind.QUEUE_CREATE, len(names))
        self._queues.create(*names)

    def send(self, name: str, bodies: Sequence[bytes]) -> None:
        for batch in rules.batches(bodies):
            self._meter.count(Kind.QUEUE_SEND)
            self._meter.count(Kind.QUEUE_MESSAGE, len(batch))
            self._meter.count(Kind.QUEUE_CHUNK, rules.chunks(batch))
        self._queues.send(name, bodies)

    def receive(self, name: str, *, limit: int = 10, wait: float = 0.0) -> Sequence[Message]:
        messages: Sequence[Message] = ()
        try:
            messages = self._queues.receive(name, limit=limit, wait=wait)
        finally:
            self._meter.count(Kind.QUEUE_RECEIVE)
            self._meter.count(Kind.QUEUE_CHUNK, rules.chunks([one.body for one in messages]))
        return messages

    def delete(self, name: str, receipts: Sequence[str]) -> None:
        self._meter.count(Kind.QUEUE_DELETE, _pages(receipts, rules.MAX_ENTRIES))
        self._queues.delete(name, receipts)

    def drop(self, *names: str) -> None:
        self._meter.count(Kind.QUEUE_DROP, len(names))
        self._queues.drop(*names)

    def names(self, prefix: str) -> Sequence[str]:
        found = self._queues.names(prefix)
        self._meter.count(Kind.QUEUE_LIST, max(1, _pages(found, 1000)))
        return found


class MeteredObjects:
    """Objects whose requests are counted as S3 would charge them."""

    def __init__(self, objects: Objects, meter: Meter) -> None:
        self._objects = objects
        self._meter = meter

    def put(self, key: str, data: bytes) -> None:
        self._meter.count(Kind.OBJECT_PUT)
        self._objects.put(key, data)

    def put_files(self, key: str, parts: Iterable[bytes | Path]) -> int:
        size = 0
        try:
            size = self._objects.put_files(key, parts)
        finally:
            self._meter.count(Kind.OBJECT_PUT, uploads.requests(size))
        return size

    def get(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes:
        self._meter.count(Kind.OBJECT_GET)
        return self._objects.get(key, offset=offset, length=length)

    def fetch(self, key: str, target: Path, *, offset: int = 0, length: int | None = None) -> None:
        self._meter.count(Kind.OBJECT_GET)
        self._objects.fetch(key, target, offset=offset, length=length)

    def head(self, key: str) -> ObjectInfo:
        self._meter.count(Kind.OBJECT_GET)
        return self._objects.head(key)

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        found = self._objects.list(prefix)
        self._meter.count(Kind.OBJECT_LIST, max(1, _pages(found, 1000)))
        return found

    def delete(self, keys: Sequence[str]) -> None:
        self._meter.count(Kind.OBJECT_DELETE, _pages(keys, 1000))
        self._objects.delete(keys)


class MeteredControl:
    """Knocks and alarms whose messages are counted as SQS would charge them."""

    def __init__(self, control: Control, meter: Meter) -> None:
        self._control = control
        self._meter = meter

    def notify(self, query_id: str) -> None:
        self._count()
        self._control.notify(query_id)

    def tick(self, query_id: str, number: int, *, delay: float) -> None:
        self._count()
        self._control.tick(query_id, number, delay=delay)

    def _count(self) -> None:
        for kind in (Kind.QUEUE_SEND, Kind.QUEUE_MESSAGE, Kind.QUEUE_CHUNK):
            self._meter.count(kind)


#: Verbs of the state store that write, and how many items each writes: one, unless said here.
WRITES = frozenset(
    {
        "create_query", "end_query", "mark_swept", "close_query", "purge_query", "forget_query",
        "begin_turn", "end_turn", "advance_tick", "activate_stage", "set_capacity",
        "complete_stage", "skip_stage", "offer_again", "begin_generation", "reset_stage",
        "claim_task", "heartbeat", "observe_beat", "commit_task", "requeue_task",
        "hand_back_task", "fail_task", "rerun_task", "add_worker", "register_worker",
        "drain_worker", "leave_worker", "report_usage", "lose_worker", "own", "release",
        "drop_drafts", "lease_queue", "return_queue", "claim_token", "begin_commit", "change_table",
        "forget_table",
    }
)  # fmt: skip
#: Verbs that only read.
READS = frozenset(
    {
        "get_query", "list_queries", "open_queries", "unpurged_queries", "stages", "tasks",
        "get_task", "workers", "owned", "queue_leases", "find_token", "tables", "find_table",
    }
)  # fmt: skip
#: Items of about 500 bytes that one 4 KB read unit covers.
_ITEMS_A_UNIT = 8


class _MeteredStore:
    """Delegates every attribute; calls of the verbs above are counted."""

    def __init__(self, store: StateStore, meter: Meter) -> None:
        self._store = store
        self._meter = meter

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name in WRITES:
            counted = self._writing(name, verb)
        elif name in READS:
            counted = self._reading(verb)
        else:
            return verb
        # Next time the attribute is found without this detour.
        setattr(self, name, counted)
        return counted

    def _writing(self, name: str, verb: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(verb)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self._meter.count(Kind.STATE_WRITE, _items_written(name, args, kwargs))
            return verb(*args, **kwargs)

        return counted

    def _reading(self, verb: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(verb)
        def counted(*args: Any, **kwargs: Any) -> Any:
            found = verb(*args, **kwargs)
            units = _pages(found, _ITEMS_A_UNIT) if isinstance(found, list | tuple) else 1
            self._meter.count(Kind.STATE_READ, max(1, units))
            return found

        return counted


def metered_store(store: _Store, meter: Meter) -> _Store:
    """The same store, its reads and writes counted."""
    return cast(_Store, _MeteredStore(store, meter))


def _items_written(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    if name == "create_query":
        stages = kwargs["stages"] if "stages" in kwargs else args[1]
        tasks: int = sum(stage.tasks for stage in stages)
        return 1 + len(stages) + tasks
    if name == "own":
        return len(kwargs["entries"] if "entries" in kwargs else args[0])
    return 1


def _pages(things: Sized, size: int) -> int:
    return -(-len(things) // size)
