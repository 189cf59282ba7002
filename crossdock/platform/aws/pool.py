"""Queues from a stack's pool while it has any left; beyond it, queues made on demand.

A pool queue is there already: no delay to make it, and no name that is refused for 60 s after its
deletion. Leases are items of the state store, and users of a queue find it there by the name the
shuffle gives it. A name without a lease is a queue made on demand.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Sequence

from coordinator_state.records import QueueLease
from coordinator_state.store import StateStore
from crossdock.platform.aws.parallel import InParallel, in_parallel
from crossdock.platform.ports import Clock, Message, Queues

#: Names whose queue is remembered; each is used by one query only.
_REMEMBERED = 20_000


class PoolQueues:
    """Queues under their users' names (``ports.Queues``); threads may share it.

    Messages of a queue's earlier holder are strangers to the next one, who drops them, so nothing
    is emptied between two leases.
    """

    def __init__(
        self,
        pooled: Queues,
        made: Queues,
        pool: Sequence[str],
        *,
        store: StateStore,
        clock: Clock,
        parallel: InParallel = in_parallel,
    ) -> None:
        """``pool``: names of the stack's queues in ``pooled``; others are made in ``made``."""
        self._pooled = pooled
        self._made = made
        self._pool = pool
        self._store = store
        self._clock = clock
        self._parallel = parallel
        self._places: dict[str, tuple[Queues, str]] = {}
        self._settled: set[str] = set()  # groups of names whose leases were read
        self._lock = threading.Lock()

    def create(self, *names: str) -> None:
        leases = self._leases()
        held = {lease.holder for lease in leases}
        free = sorted(set(self._pool).difference(lease.queue for lease in leases))
        # Coordinators of several queries lease at once: most should meet at no queue.
        random.shuffle(free)
        left = deque(free)
        wanted = [name for name in names if name not in held]
        leased = self._parallel(lambda name: self._lease(name, left), wanted)
        self._made.create(*(name for name, taken in zip(wanted, leased, strict=True) if not taken))

    def send(self, name: str, bodies: Sequence[bytes]) -> None:
        queues, place = self._place(name)
        queues.send(place, bodies)

    def receive(self, name: str, *, limit: int = 10, wait: float = 0.0) -> Sequence[Message]:
        queues, place = self._place(name)
        return queues.receive(place, limit=limit, wait=wait)

    def delete(self, name: str, receipts: Sequence[str]) -> None:
        queues, place = self._place(name)
        queues.delete(place, receipts)

    def drop(self, *names: str) -> None:
        wanted = set(names)
        leases = [one for one in self._leases() if one.holder in wanted]
        self._parallel(lambda one: self._store.return_queue(one.queue, one.holder), leases)
        self._made.drop(*sorted(wanted.difference(one.holder for one in leases)))
        with self._lock:
            for name in names:
                self._places.pop(name, None)
                self._settled.discard(_group(name))

    def names(self, prefix: str) -> Sequence[str]:
        leased = {one.holder for one in self._leases() if one.holder.startswith(prefix)}
        return sorted(leased.union(self._made.names(prefix)))

    def _leases(self) -> Sequence[QueueLease]:
        return self._store.queue_leases() if self._pool else ()

    def _lease(self, name: str, free: deque[str]) -> bool:
        """Take a free queue for ``name``. False: none is left."""
        while True:
            try:
                queue = free.popleft()
            except IndexError:
                return False
            lease = QueueLease(queue=queue, holder=name, leased_at=self._clock.now())
            if self._store.lease_queue(lease).holder == name:
                return True

    def _place(self, name: str) -> tuple[Queues, str]:
        """Where a name's messages are. A stage's queues are all there before it has any user."""
        group = _group(name)
        with self._lock:
            if known := self._places.get(name):
                return known
            settled = group in self._settled
        if not settled:
            self._learn(group)
        with self._lock:
            return self._places.get(name, (self._made, name))

    def _learn(self, group: str) -> None:
        # By queue, descending: of two leases under one name, which only two coordinators at once
        # can cause, everybody takes the first.
        leases = reversed(self._leases())
        with self._lock:
            if len(self._places) > _REMEMBERED:
                self._places.clear()
                self._settled.clear()
            self._settled.add(group)
            self._places.update({one.holder: (self._pooled, one.queue) for one in leases})


def _group(name: str) -> str:
    """What the queues of one stage have in common."""
    return name.rpartition("-")[0]
