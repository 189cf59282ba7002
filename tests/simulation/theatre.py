"""Where a world is played: nothing in it waits in real time, and nothing of it stays."""

from __future__ import annotations

import logging
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import tenacity.nap

from coordinator_state.errors import StateError
from crossdock.errors import PlatformUnavailable
from crossdock.shuffle import envelope
from crossdock.worker import ProcessUnfit
from tests.simulation.kernel import Kernel
from tests.simulation.world import Setting, World


class _VirtualTime:
    """What ``tenacity`` sleeps by."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def sleep(self, seconds: float) -> None:
        self._kernel.pause(seconds)


class _Errors(logging.Handler):
    """Turns that failed are only logged: those of unknown reasons are violations."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self._world.errors.append((record.name, record.exc_info[1]))


#: What a process may die of when the weather is bad.
EXPECTED = (StateError, PlatformUnavailable, ProcessUnfit)


@contextmanager
def simulated(seed: int, setting: Setting) -> Iterator[World]:
    """A world whose time is virtual; everything in it is gone afterwards."""
    state = random.getstate()
    random.seed(seed)
    real_time, real_entries = tenacity.nap.time, envelope.MAX_ENTRIES
    envelope.MAX_ENTRIES = setting.entries
    logger = logging.getLogger("crossdock")
    level, propagate = logger.level, logger.propagate
    shm = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="simulation-", dir=shm if shm.is_dir() else None))
    world = World(seed, setting, folder)
    handler = _Errors(world)
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    tenacity.nap.time = _VirtualTime(world.kernel)  # type: ignore[assignment]
    try:
        yield world
    finally:
        world.kernel.close()
        tenacity.nap.time, envelope.MAX_ENTRIES = real_time, real_entries
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
        shutil.rmtree(folder, ignore_errors=True)
        random.setstate(state)


def unexpected(errors: Sequence[tuple[str, BaseException]]) -> list[str]:
    return [
        f"{who} met {type(error).__name__}: {error}"
        for who, error in errors
        if not isinstance(error, EXPECTED)
    ]
