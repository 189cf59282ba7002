"""The worker of a function invocation."""

from __future__ import annotations

import logging
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from crossdock.executor import Executor
from crossdock.executor.remote import RemoteSources
from crossdock.platform.clock import SystemClock
from crossdock.remedies import DEPLOYED
from crossdock.worker import Habits, Tools, Worker

if TYPE_CHECKING:
    from crossdock.aws import Deployment

_log = logging.getLogger(__name__)

#: Kept free at the end of an invocation, in seconds: for a goodbye, before the function is stopped.
_GOODBYE_SECONDS = 3.0
#: Share of a life, and seconds at most, below which no task is begun.
_RESERVE_SHARE = 0.2
_RESERVE_SECONDS = 30.0


def habits(seconds_left: float) -> Habits:
    """Of a worker whose invocation is stopped in ``seconds_left``.

    An idle function costs as much as a busy one, so it leaves soon; what comes later finds a warm
    environment all the same.
    """
    life = max(0.0, seconds_left - _GOODBYE_SECONDS)
    return Habits(
        life_seconds=life,
        reserve_seconds=min(_RESERVE_SECONDS, _RESERVE_SHARE * life),
        idle_seconds=1.0,
        poll_seconds=0.25,
        remedies=DEPLOYED,
    )


def make_worker(deployment: Deployment, seconds_left: float) -> Worker:
    """A worker with this process's memory and threads, good for one launch."""
    config = deployment.config
    sources = RemoteSources(deployment.table_files)
    tools = Tools(
        store=deployment.medium.store,
        queues=deployment.medium.queues,
        objects=deployment.medium.objects,
        control=deployment.control,
        clock=SystemClock(),
        ids=deployment.ids,
        meter=deployment.meter,
        scratch=_own_scratch(config.scratch / "workers"),
        make_executor=lambda folder: Executor(
            folder,
            config.memory_bytes,
            config.threads,
            sources=sources,
            remedies=DEPLOYED,
        ),
        wait=time.sleep,
        outbox=deployment.medium.outbox,
        habits=habits(seconds_left),
    )
    return Worker(tools)


def _own_scratch(scratch: Path) -> Path:
    """This process's folder, empty: what an invocation that was stopped left there goes first."""
    own = scratch / str(os.getpid())
    scratch.mkdir(parents=True, exist_ok=True)
    for folder in scratch.iterdir():
        if folder == own or not _is_alive(folder.name):
            shutil.rmtree(folder, ignore_errors=True)
    own.mkdir()
    return own


def _is_alive(name: str) -> bool:
    """Whether a process of that number runs; environments may share a disk where they are tried."""
    try:
        os.kill(int(name), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True
