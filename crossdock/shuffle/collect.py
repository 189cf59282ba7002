"""The consumer's side: bring every section of its partitions here, exactly once, early.

Messages wake it, the table is the truth. The order of events is free: a consumer may start before
its producers, after all of them, or a second time after its messages were deleted.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from coordinator_state.ids import StageId
from coordinator_state.records import Commit, TaskRecord
from coordinator_state.store import StateStore
from crossdock.errors import ExchangeError, QueueNotFound
from crossdock.planner.plan import StagePlan
from crossdock.platform.ports import Message, Objects, Queues
from crossdock.shuffle import layout
from crossdock.shuffle.envelope import decode_envelope
from crossdock.shuffle.exchange_object import Index, fetch_section, read_index
from crossdock.shuffle.inbox import BindingMoved, Counts, Inbox, Wanted
from crossdock.shuffle.spec import AttemptId

_log = logging.getLogger(__name__)
#: Makes a pool of so many threads, named so.
MakePool = Callable[[int, str], Executor]
#: Fetches under way at once.
PARALLEL_FETCHES = 6
#: Longest single wait, in seconds, so that ``on_wait`` is asked at least that often.
LONGEST_WAIT = 1.0
#: While producers are merely slow, the table is read less and less often; at least this often (s).
LONGEST_PATIENCE = 20.0


class Step(StrEnum):
    """What an observer is told."""

    BOUND = "bound"  # the table names this producer attempt
    FETCHING = "fetching"
    FETCHED = "fetched"
    HEALING = "healing"  # re-reading commit records and trailers
    RESTARTED = "restarted"


@dataclass(frozen=True, slots=True)
class Event:
    """One step; ``edge`` is -1 where it concerns none."""

    step: Step
    producer: AttemptId | None = None
    edge: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """All input of one consumer attempt, as section files by edge, in a fixed order."""

    files: Mapping[int, tuple[Path, ...]]
    bound: tuple[tuple[StageId, int, int], ...]
    rows_in: int
    bytes_in: int
    counts: Counts
    folder: Path

    def discard(self) -> None:
        """Delete the files; call at the end of the task."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Collector:
    """Collects the input of ``task``; one instance, one ``collect``.

    With ``queues`` None or ``exchange`` "batch" it reads commit records and trailers only, which is
    right at any time but cheapest once every producer has committed.
    """

    def __init__(
        self,
        plan: StagePlan,
        stage: int,
        task: TaskRecord,
        *,
        queues: Queues | None,
        store: StateStore,
        objects: Objects,
        folder: Path,
        exchange: str = "s3qs",
        patience: float = 2.0,
        on_wait: Callable[[], None] = lambda: None,
        on_missing: Callable[[], None] = lambda: None,
        observer: Callable[[Event], None] = lambda event: None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        make_pool: MakePool = ThreadPoolExecutor,
    ) -> None:
        """``folder`` is the attempt's own and is deleted by ``Collected.discard``.

        ``patience`` (seconds): after so long without a new section the table is read again.
        ``on_wait`` is called about every second and before each wait, ``on_missing`` too while not
        all producers are known; what they raise ends the collection. ``observer`` is called from
        several threads.
        """
        edges = [edge for edge in plan.edges if edge.consumer == stage]
        producers = {edge.producer: plan.stages[edge.producer].tasks for edge in edges}
        enough = {each: plan.prefix_limit(each) for each in producers}
        self._inbox = Inbox(str(task.query_id), task.index, edges, producers, enough)
        self._task = task
        self._queues = None if exchange == "batch" else queues
        # A task keeps its queue through all generations: attempts tell old envelopes from new.
        self._queue = layout.queue_name(task.query_id, stage, 0, task.index)
        self._store = store
        self._objects = objects
        self._folder = folder
        self._patience = patience
        self._on_wait = on_wait
        self._on_missing = on_missing
        self._observer = observer
        self._monotonic = monotonic
        self._sleep = sleep
        self._make_pool = make_pool
        self._fetches: dict[Future[None], Wanted] = {}
        self._files: dict[int, dict[tuple[AttemptId, int], Path]] = {}
        self._rows = 0
        self._bytes = 0

    def collect(self) -> Collected:
        """Return when all input is here.

        Raises ``ExchangeLost`` or ``ExchangeCorrupt`` (naming the producer attempt), what
        ``on_wait`` raises, and what the platform raises. The folder is gone when it raises.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        pool = self._make_pool(PARALLEL_FETCHES, "fetch")
        try:
            self._collect(pool)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        pool.shutdown()
        bound = self._inbox.bound
        used = frozenset(AttemptId(*each) for each in bound)
        return Collected(
            files={edge.edge: self._in_order(edge.edge, used) for edge in self._inbox.edges},
            bound=tuple((StageId(stage), i, a) for stage, i, a in bound),
            rows_in=self._rows,
            bytes_in=self._bytes,
            counts=self._inbox.counts,
            folder=self._folder,
        )

    def _collect(self, pool: Executor) -> None:
        # A retried consumer's messages are gone with its first attempt: it need not wait for them.
        heal_now = self._queues is None or self._task.attempt > 1
        while True:
            try:
                self._until_complete(pool, heal_now)
                return
            except BindingMoved as moved:
                _log.info("input of %s starts again: %s", self._queue, moved)
                self._start_again()
                heal_now = True

    def _until_complete(self, pool: Executor, heal_now: bool) -> None:
        last_new = self._monotonic()
        patience = self._patience
        if heal_now:
            self._heal(pool)
        while not (self._inbox.complete and not self._fetches):
            self._on_wait()
            self._reap()
            left = last_new + patience - self._monotonic()
            if self._inbox.complete:
                wait(self._fetches, timeout=LONGEST_WAIT, return_when=FIRST_COMPLETED)
                continue
            self._on_missing()
            if left <= 0:
                found = self._heal(pool)
                patience = self._patience if found else self._longer(patience)
                last_new = self._monotonic()
            elif self._receive(pool, min(left, LONGEST_WAIT)):
                patience = self._patience
                last_new = self._monotonic()
        self._reap()

    def _longer(self, patience: float) -> float:
        return max(self._patience, min(2 * patience, LONGEST_PATIENCE))

    def _receive(self, pool: Executor, seconds: float) -> bool:
        """Wait for messages up to ``seconds``. True if they told of a section not known before."""
        if self._queues is None:
            self._pause(seconds)
            return False
        try:
            messages = self._queues.receive(self._queue, wait=seconds)
            # Deleted before they are used: what they say can be read again from the table.
            self._queues.delete(self._queue, [message.receipt for message in messages])
        except QueueNotFound:
            _log.info("queue %s is gone; going on with commit records only", self._queue)
            self._queues = None
            return False
        return self._use(pool, messages)

    def _pause(self, seconds: float) -> None:
        if self._fetches:
            wait(self._fetches, timeout=seconds, return_when=FIRST_COMPLETED)
        else:
            self._sleep(seconds)

    def _use(self, pool: Executor, messages: Sequence[Message]) -> bool:
        envelopes = []
        for message in messages:
            envelope = decode_envelope(message.body)
            if envelope is None or not self._inbox.concerns(envelope):
                self._inbox.counts.strangers += 1
            else:
                envelopes.append(envelope)
        self._bind({e.stage for e in envelopes if not self._inbox.knows(e)})
        fetched = [self._fetch(pool, self._inbox.accept(envelope)) for envelope in envelopes]
        return sum(fetched) > 0

    def _bind(self, stages: Iterable[int]) -> None:
        """Ask the table which attempts of these stages count. Raises ``BindingMoved``."""
        for stage in sorted(stages):
            for attempt in self._inbox.bind(self._store.tasks(self._task.query_id, StageId(stage))):
                self._observer(Event(Step.BOUND, attempt))

    def _heal(self, pool: Executor) -> bool:
        """Read the commit records again, and the trailers of those whose entries are missing.

        True if that told of anything new.
        """
        self._observer(Event(Step.HEALING))
        self._bind(self._inbox.unfinished_stages())
        missing = self._inbox.incomplete()
        for (attempt, _), index in zip(missing, pool.map(self._index, missing), strict=True):
            self._fetch(pool, self._inbox.heal(attempt, index.grouped()))
        return bool(missing)

    def _index(self, missing: tuple[AttemptId, Commit]) -> Index:
        attempt, commit = missing
        if not commit.object_key:
            return Index(())
        try:
            return read_index(self._objects, commit, attempt)
        except ExchangeError:
            self._raise_if_moved(attempt)
            raise

    def _fetch(self, pool: Executor, wanted: Sequence[Wanted]) -> int:
        for each in wanted:
            self._fetches[pool.submit(self._fetch_one, each)] = each
        return len(wanted)

    def _fetch_one(self, wanted: Wanted) -> None:
        self._observer(Event(Step.FETCHING, wanted.producer, wanted.edge))
        try:
            fetch_section(
                self._objects,
                wanted.object_key,
                wanted.entry,
                self._path(wanted),
                wanted.producer,
            )
        except ExchangeError:
            self._raise_if_moved(wanted.producer)
            raise
        self._observer(Event(Step.FETCHED, wanted.producer, wanted.edge))

    def _raise_if_moved(self, producer: AttemptId) -> None:
        """An unreadable object of an attempt that no longer counts is nobody's loss."""
        task = self._store.get_task(self._task.query_id, StageId(producer.stage), producer.index)
        if task.attempt != producer.attempt:
            raise BindingMoved(f"task {producer.stage}/{producer.index} is at {task.attempt}")

    def _reap(self) -> None:
        """Take in finished fetches; raises what went wrong in one."""
        for future in [future for future in self._fetches if future.done()]:
            wanted = self._fetches.pop(future)
            future.result()
            place = self._files.setdefault(wanted.edge, {})
            place[(wanted.producer, wanted.sequence)] = self._path(wanted)
            self._rows += wanted.entry.rows
            self._bytes += wanted.entry.length

    def _start_again(self) -> None:
        for future in self._fetches:
            future.cancel()
        wait(self._fetches)
        self._fetches.clear()
        self._files.clear()
        self._rows = self._bytes = 0
        self._inbox.forget()
        shutil.rmtree(self._folder)
        self._folder.mkdir(parents=True)
        self._observer(Event(Step.RESTARTED))

    def _path(self, wanted: Wanted) -> Path:
        producer = wanted.producer
        name = f"{wanted.edge}-{producer.index}-{producer.attempt}-{wanted.sequence}.parquet"
        return self._folder / name

    def _in_order(self, edge: int, used: frozenset[AttemptId]) -> tuple[Path, ...]:
        files = self._files.get(edge, {})
        return tuple(files[key] for key in sorted(files) if key[0] in used)
