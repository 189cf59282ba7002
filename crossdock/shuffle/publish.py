"""Telling consumers, after the commit, which sections of it are theirs."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor

from crossdock.errors import QueueNotFound
from crossdock.planner.plan import Edge, ShuffleMode, StagePlan
from crossdock.platform.ports import Queues
from crossdock.shuffle import layout
from crossdock.shuffle.envelope import Envelope, encode_envelope, entries_of, split
from crossdock.shuffle.exchange_object import Index

_log = logging.getLogger(__name__)
#: Sends under way at once; each waits for the network, not for the processor.
_PARALLEL_SENDS = 8
#: Below so many queues a pool costs more than it saves.
_FEW_QUEUES = 4


def partition_of(edge: Edge, task_index: int) -> int:
    """The partition of ``edge`` that consumer task ``task_index`` reads."""
    return task_index if edge.mode is ShuffleMode.HASH and edge.partitions > 1 else 0


def publish(
    queues: Queues,
    plan: StagePlan,
    *,
    stage: int,
    task_index: int,
    attempt: int,
    generation: int,
    object_key: str,
    index: Index,
    consumer_generations: Mapping[int, int] | None = None,
    make_pool: Callable[[int, str], Executor] = ThreadPoolExecutor,
) -> int:
    """Send every consumer task its envelopes; returns how many were sent.

    ``generation`` is that of the shuffles this stage writes. A queue's name has the generation of
    the *consumer's* stage, 0 unless ``consumer_generations`` knows better. A missing queue is no
    error: its query has ended, or its consumer will read the commit record instead.
    """
    bodies: dict[str, list[bytes]] = defaultdict(list)
    sections = index.grouped()
    query_id = layout.query_of_key(object_key)
    for edge in plan.edges:
        if edge.producer != stage:
            continue
        reader_generation = (consumer_generations or {}).get(edge.consumer, 0)
        for reader in range(plan.stages[edge.consumer].tasks):
            partition = partition_of(edge, reader)
            envelope = Envelope(
                query=query_id,
                edge=edge.edge,
                generation=generation,
                partition=partition,
                stage=stage,
                index=task_index,
                attempt=attempt,
                object_key=object_key,
                entries=entries_of(sections.get((edge.edge, partition), ())),
            )
            name = layout.queue_name(query_id, edge.consumer, reader_generation, reader)
            bodies[name] += [encode_envelope(part) for part in split(envelope)]
    return _send(queues, bodies, make_pool)


def _send(
    queues: Queues,
    bodies: Mapping[str, list[bytes]],
    make_pool: Callable[[int, str], Executor],
) -> int:
    def one(item: tuple[str, list[bytes]]) -> int:
        name, envelopes = item
        try:
            queues.send(name, envelopes)
        except QueueNotFound:
            _log.info("queue %s is gone; its consumer reads the commit record", name)
            return 0
        return len(envelopes)

    if len(bodies) <= _FEW_QUEUES:
        return sum(map(one, bodies.items()))
    with make_pool(_PARALLEL_SENDS, "publish") as pool:
        return sum(pool.map(one, bodies.items()))
