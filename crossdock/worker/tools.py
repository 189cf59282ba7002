"""What a worker works with."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from coordinator_state.records import TaskRecord
from coordinator_state.store import StateStore
from crossdock.executor import Executor
from crossdock.platform.ports import Clock, Control, Ids, Meter, Objects, Queues
from crossdock.remedies import LOCAL, Remedies
from crossdock.shuffle.collect import MakePool
from crossdock.worker.heartbeat import Pulse, thread_pulse
from crossdock.writes.outbox import NO_OUTBOX, Outbox

#: Told of each step of an attempt ("claimed", "collected", "ran", "written", "committing",
#: "committed", "published") and of its collector's (``shuffle.collect.Step``), from several
#: threads; it may block or raise, as if the step had taken long or failed.
Observer = Callable[[str, TaskRecord], None]


def unobserved(step: str, task: TaskRecord) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """A worker's numbers; times in seconds."""

    life_seconds: float = 900.0  # longest life of one run
    reserve_seconds: float = 30.0  # no task is claimed with less time left
    idle_seconds: float = 2.0  # leaves after so long without a task
    poll_seconds: float = 0.5  # longest pause between two looks for a task
    beat_seconds: float = 10.0  # heartbeat at least this often; and at least thrice a lease
    input_patience: float = 2.0  # without a new section for so long: read the table instead
    starve_seconds: float = 1.0  # input unserved for so long: hand back
    max_handbacks: int = 16  # beyond this a handback counts as a failure
    remedies: Remedies = LOCAL  # what errors advise
    usage_seconds: float = 1.0  # report usage at most this often while running


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The ports, and what runs fragments. ``wait`` pauses until something may have changed.

    ``pulse`` and ``pool`` are how things run beside an attempt: on threads, but in a simulation.
    """

    store: StateStore
    queues: Queues
    objects: Objects
    control: Control
    clock: Clock
    ids: Ids
    meter: Meter
    scratch: Path
    make_executor: Callable[[Path], Executor]
    wait: Callable[[float], object]
    outbox: Outbox = NO_OUTBOX
    habits: Habits = Habits()
    observer: Observer = unobserved
    pulse: Pulse = thread_pulse
    pool: MakePool = ThreadPoolExecutor
