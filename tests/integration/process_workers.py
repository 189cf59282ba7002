"""Workers that test_launcher runs in worker processes; ``worker_class`` says what to do."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from crossdock.platform.ports import Launch


class ScriptedWorker:
    def __init__(self, home: Path, greeting: str) -> None:
        self._home = home
        self._greeting = greeting

    def run(self, launch: Launch) -> None:
        note = f"{os.getpid()} {self._greeting}"
        partial = self._home / f"{launch.worker_id}.partial"
        partial.write_text(note)
        partial.rename(self._home / launch.worker_id)
        if launch.worker_class == "noisy":
            print("printed")  # noqa: T201 - what the test is about
            os.write(1, b"written to descriptor 1\n")
            assert sys.stdin.read() == ""
        elif launch.worker_class == "failing":
            try:
                raise KeyError("a row's secret")
            except KeyError as error:
                raise ValueError("SELECT secret") from error
        elif launch.worker_class == "busy":
            time.sleep(120)
        elif launch.worker_class == "files":
            (self._home / "files").write_text("\n".join(open_files()))


def open_files() -> list[str]:
    found = []
    for link in list(Path("/proc/self/fd").iterdir()):
        # One was the listing's own.
        with suppress(FileNotFoundError):
            found.append(str(link.readlink()))
    return found


def make(home: Path, greeting: str = "hello") -> ScriptedWorker:
    return ScriptedWorker(home, greeting)


def cannot_make(home: Path) -> ScriptedWorker:
    raise RuntimeError(f"no worker in {home}")
