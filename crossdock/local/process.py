"""The worker of a worker process."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from crossdock.executor import Executor, Spare
from crossdock.executor.remote import RemoteSources
from crossdock.local.home import Home, open_parts
from crossdock.platform.aws.on_demand import s3_files
from crossdock.platform.clock import SystemClock
from crossdock.platform.ids import RandomIds
from crossdock.platform.local.control import LocalControl
from crossdock.platform.local.process import resolve
from crossdock.platform.meter import CountingMeter
from crossdock.worker import Habits, Observer, Tools, Worker
from crossdock.worker.tools import unobserved

#: A worker process has no given life; this is beyond any query, in seconds.
LIFE_SECONDS = 7 * 86_400.0
#: A cancelled query stops its workers within this, in seconds.
BEAT_SECONDS = 0.5


def worker_for_process(home: Path, *, memory: str, threads: str, observer: str = "") -> Worker:
    """What ``ProcessLauncher`` calls in each new process.

    Args:
        home: the home folder.
        memory: bytes the process may use.
        threads: DuckDB threads.
        observer: ``package.module:name`` of a ``worker.Observer``, told of every step.
    """
    places = Home(home)
    meter = CountingMeter()
    parts = open_parts(places, meter)
    spare = Spare()
    spare.prepare()
    sources = RemoteSources(s3_files(meter))
    tools = Tools(
        store=parts.medium.store,
        queues=parts.medium.queues,
        objects=parts.medium.objects,
        control=LocalControl(),
        clock=SystemClock(),
        ids=RandomIds(),
        meter=meter,
        scratch=places.scratch,
        make_executor=lambda folder: Executor(
            folder, int(memory), int(threads), sources=sources, spare=spare
        ),
        wait=parts.store.wait_for_change,
        outbox=parts.medium.outbox,
        habits=Habits(life_seconds=LIFE_SECONDS, beat_seconds=BEAT_SECONDS),
        observer=cast(Observer, resolve(observer)) if observer else unobserved,
    )
    return Worker(tools)
