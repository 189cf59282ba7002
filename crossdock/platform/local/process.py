"""A worker process: what a function environment is on Lambda. One launch at a time, then the next.

Started by ``launcher`` as ``python -m crossdock.platform.local.process HOME FACTORY ARGUMENTS``.
Launches arrive as JSON lines on standard input, answers leave as JSON lines on what was standard
output.
It lives no longer than its parent: the end of its input ends it, whatever it is doing.
"""

from __future__ import annotations

import faulthandler
import importlib
import logging
import os
import queue
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast

import msgspec

from crossdock.platform.ports import Launch

#: How often an idle watch checks for a parent that died while a third process holds our pipe open.
_WATCH_SECONDS = 1.0
#: What an orderly exit may take once the parent is gone, in seconds.
_EXIT_SECONDS = 0.5
_READ_BYTES = 65536

_log = logging.getLogger(__name__)


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The process has built its worker."""


class Ended(msgspec.Struct, frozen=True, tag="ended", omit_defaults=True):
    """A launch has run; ``failure`` names the exception that ended it ("" when none did)."""

    worker_id: str
    failure: str = ""


Answer = Ready | Ended


class ProcessWorker(Protocol):
    """What a worker process runs."""

    def run(self, launch: Launch) -> None:
        """One launch, to its end. An exception ends the process."""
        ...


#: Makes the worker of a process from the home folder and the launcher's arguments.
WorkerFactory = Callable[..., ProcessWorker]


def main(argv: Sequence[str]) -> int:
    home, factory, arguments = argv
    # Ctrl-C is the parent's to act on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    logging.basicConfig(
        level=logging.INFO,
        format=f"%(asctime)s pid={os.getpid()} %(levelname)s %(name)s %(message)s",
    )
    source, sink = _take_pipes()
    inbox: queue.SimpleQueue[Launch | None] = queue.SimpleQueue()
    threading.Thread(target=_watch, args=(source, inbox), name="watch", daemon=True).start()
    try:
        worker = resolve(factory)(Path(home), **msgspec.json.decode(arguments, type=dict[str, str]))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is recorded and ends us
        _log.error("cannot make a worker by %s: %s", factory, outline(error))
        return 1
    _answer(sink, Ready())
    while (launch := inbox.get()) is not None:
        ended = _run(worker, launch)
        _answer(sink, ended)
        if ended.failure:
            # What an exception left behind (a full disk, memory) must not reach the next launch.
            return 1
    return 0


def resolve(factory: str) -> WorkerFactory:
    """The function named by ``package.module:name``."""
    module, _, name = factory.partition(":")
    return cast(WorkerFactory, getattr(importlib.import_module(module), name))


def outline(error: BaseException) -> str:
    """An exception's types and places, without its texts: they may quote SQL or rows."""
    parts = []
    current: BaseException | None = error
    while current is not None:
        frames = traceback.extract_tb(current.__traceback__)
        places = " > ".join(f"{Path(at.filename).name}:{at.lineno} {at.name}" for at in frames)
        parts.append(f"{type(current).__qualname__} at {places or 'unknown'}")
        current = current.__cause__ or current.__context__
    return "; because of ".join(parts)


def _run(worker: ProcessWorker, launch: Launch) -> Ended:
    try:
        worker.run(launch)
    except Exception as error:  # noqa: BLE001 - recorded, answered, and ends us
        _log.error(
            "query %s worker %s failed: %s", launch.query_id, launch.worker_id, outline(error)
        )
        return Ended(launch.worker_id, failure=type(error).__qualname__)
    return Ended(launch.worker_id)


def _take_pipes() -> tuple[int, int]:
    """Keep both pipes to ourselves: a print or a read in user code must not touch the protocol."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return source, sink


def _answer(sink: int, answer: Answer) -> None:
    # Shorter than a pipe's atomic write, so it goes out whole.
    os.write(sink, msgspec.json.encode(answer) + b"\n")


def _watch(source: int, inbox: queue.SimpleQueue[Launch | None]) -> None:
    """Pass launches on until the parent is gone; then end the process."""
    _pass_on(source, inbox, os.getppid())
    inbox.put(None)
    # An idle process leaves in good order meanwhile; a busy one has nobody to work for.
    time.sleep(_EXIT_SECONDS)
    os._exit(1)


def _pass_on(source: int, inbox: queue.SimpleQueue[Launch | None], parent: int) -> None:
    pending = b""
    while os.getppid() == parent:
        readable, _, _ = select.select([source], [], [], _WATCH_SECONDS)
        if not readable:
            continue
        data = os.read(source, _READ_BYTES)
        if not data:
            return
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            inbox.put(msgspec.json.decode(line, type=Launch))


def command(home: Path, factory: str, arguments: Mapping[str, str]) -> Sequence[str]:
    """How the launcher starts a process. ``-P``: a file of the working folder shadows no module."""
    text = msgspec.json.encode(arguments).decode()
    return (sys.executable, "-P", "-m", __spec__.name, str(home), factory, text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
