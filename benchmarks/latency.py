"""Seconds of tiny queries in an open connection: what the engine itself costs.

    make latency
    python -m benchmarks.latency --rounds 50

A query of one task runs in this process; one of two stages goes through planning, worker processes,
a shuffle and the result. Both over 40 rows, after a first run that is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table

import crossdock

SQL = "SELECT g, sum(v) AS s FROM tiny GROUP BY g"
#: Seconds that the median may take.
WAYS: dict[str, tuple[float, dict[str, object]]] = {
    "one task": (0.1, {}),
    "two stages, s3qs": (0.6, {"single_task_bytes": 0, "exchange": "s3qs"}),
    "two stages, batch": (0.6, {"single_task_bytes": 0, "exchange": "batch"}),
}

console = Console(highlight=False, width=100)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args(arguments)
    table = Table(box=None, pad_edge=False)
    for heading in ("seconds", "first", "best", "median", "worst", "goal"):
        table.add_column(heading, justify="left" if heading == "seconds" else "right")
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (goal, settings) in WAYS.items():
            first, times = measure(Path(folder) / name, settings, options.rounds)
            median = statistics.median(times)
            figures = (first, min(times), median, max(times))
            table.add_row(name, *(f"{each:.3f}" for each in figures), f"{goal:.1f}")
            if median > goal:
                missed.append(name)
    console.print(table)
    console.print(f"slower than the goal: {', '.join(missed)}" if missed else "goals met")
    return 1 if missed else 0


def measure(
    folder: Path, settings: dict[str, object], rounds: int
) -> tuple[float, Sequence[float]]:
    """Seconds of the first run, with the workers' start, and of each later one."""
    folder.mkdir()
    path = folder / "tiny.parquet"
    rows = "SELECT i % 4 AS g, i AS v FROM range(40) AS r(i)"
    duckdb.sql(f"COPY ({rows}) TO '{path}'")
    with crossdock.connect(
        home=folder / "home", tables={"tiny": path}, workers=2, **settings
    ) as connection:
        seconds = []
        for _ in range(rounds + 1):
            began = time.perf_counter()
            with connection.execute(SQL) as cursor:
                assert len(cursor.fetchall()) == 4
                seconds.append(time.perf_counter() - began)
        stages = len(connection.explain(SQL).stages)
        assert stages == (2 if settings else 1), stages
    return seconds[0], seconds[1:]


if __name__ == "__main__":
    sys.exit(main())
