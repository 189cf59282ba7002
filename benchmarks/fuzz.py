"""Random tables and queries against DuckDB, for as long as wanted.

Most seeds run planner and executor in this process, which is fast; every fifth runs through
workers, queues and state. Exit code 1 when an answer differed; the seed printed repeats it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import click
from rich.console import Console

from tests.fuzz.trial import Engine, InProcess, Trial, Whole

QUESTIONS = 20
WORKERS_EVERY = 5

console = Console(highlight=False, soft_wrap=True)


@click.command()
@click.option("--seconds", default=60.0, help="how long to go on")
@click.option("--first", default=None, type=int, help="first seed; default: from the clock")
@click.option("--count", default=None, type=int, help="so many seeds, whatever the time")
def main(seconds: float, first: int | None, count: int | None) -> None:
    seed = int(time.time()) if first is None else first
    deadline = None if count else time.monotonic() + seconds
    asked = differed = seeds = 0
    with tempfile.TemporaryDirectory(prefix="crossdock-fuzz-") as folder:
        whole = Whole(Path(folder) / "workers")
        in_process = InProcess(Path(folder) / "in-process")
        try:
            while seeds < count if count else time.monotonic() < (deadline or 0):
                engine: Engine = whole if seed % WORKERS_EVERY == 0 else in_process
                right, wrong = run(engine, seed)
                asked, differed = asked + right + wrong, differed + wrong
                seed, seeds = seed + 1, seeds + 1
        finally:
            whole.close()
    console.print(f"{asked} queries of {seeds} seeds, {differed} answered otherwise than DuckDB")
    one_task = sum(in_process.whole.values())
    console.print(f"{one_task} of {in_process.planned} plans were one task as a whole:")
    for reason, count in in_process.whole.most_common():
        console.print(f"  {count} {reason}", markup=False)
    sys.exit(1 if differed else 0)


def run(engine: Engine, seed: int) -> tuple[int, int]:
    """Right and wrong answers of one seed; the wrong ones are printed."""
    right = wrong = 0
    with tempfile.TemporaryDirectory(prefix="crossdock-fuzz-") as folder:
        for difference in Trial(seed, Path(folder)).run(engine, QUESTIONS):
            if difference is None:
                right += 1
                continue
            wrong += 1
            console.rule()
            console.print(str(difference), markup=False)
    return right, wrong


if __name__ == "__main__":
    main()
