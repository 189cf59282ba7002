"""Processor time of planning TPC-DS over tables of 1,000 files, whose footers were read before.

    python -m benchmarks.planning
    python -m benchmarks.planning --files 5000 --queries 14,64,66

Binding and planning, by the process's own clock: beside other work wall-clock time means little.
Exit code 1 when the largest takes longer than --limit, or a footer was read twice.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
from rich.console import Console
from rich.table import Table

from benchmarks import data
from crossdock.catalog import Catalog, footers
from crossdock.catalog.sources import FoundFile
from crossdock.planner.binder import Binder
from crossdock.planner.options import PlannerOptions
from crossdock.planner.planning import plan_query

#: They share the files; each dimension is one.
FACTS = (
    *("store_sales", "catalog_sales", "web_sales", "inventory"),
    *("store_returns", "catalog_returns", "web_returns"),
)
ROUNDS = 5

console = Console(highlight=False, width=100)


@click.command()
@click.option("--files", default=1000, help="of all tables together")
@click.option("--queries", default="", help="numbers such as 14,64; default: all")
@click.option("--limit", default=50.0, help="milliseconds for the largest query")
@click.option("--scale", default="0.01", help="of the generated data")
def main(files: int, queries: str, limit: float, scale: str) -> None:
    chosen = {int(number) for number in queries.split(",") if number}
    texts = {n: sql for n, sql in data.queries("tpcds").items() if not chosen or n in chosen}
    read: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="planning-", dir=data.CACHE) as folder,
        patch.object(footers, "read_footer", _counting(read)),
    ):
        catalog = tables(data.dataset("tpcds", scale), Path(folder), files)
        times = {number: best_of(catalog, sql) for number, sql in texts.items()}
    show(times)
    largest = max(times, key=lambda number: sum(times[number]))
    seconds = sum(times[largest])
    twice = sum(count > 1 for count in read.values())
    console.print(
        f"{len(read):,} footers read, {twice} twice; the largest is query {largest}: "
        f"{seconds * 1000:.1f} ms"
    )
    sys.exit(1 if twice or seconds * 1000 > limit else 0)


def tables(source: Path, folder: Path, files: int) -> Catalog:
    """Each fact table as so many links to its one file."""
    catalog = Catalog()
    paths = sorted(source.glob("*.parquet"))
    share = (files - len(paths) + len(FACTS)) // len(FACTS)
    for path in paths:
        target = folder / path.stem
        target.mkdir()
        shutil.copy(path, target / "00000.parquet")
        for number in range(1, share if path.stem in FACTS else 1):
            (target / f"{number:05d}.parquet").hardlink_to(target / "00000.parquet")
        catalog.add(path.stem, str(target))
    return catalog


def best_of(catalog: Catalog, sql: str) -> tuple[float, float]:
    """Seconds of the processor for binding and for planning, the best of a few rounds."""
    binder = Binder(catalog, timezone="UTC")
    options = PlannerOptions(workers=64)
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        bound = binder.bind(sql)
        between = time.process_time()
        plan_query(bound, options)
        found.append((between - began, time.process_time() - between))
    binder.close()
    return min(found, key=sum)


def _counting(read: Counter[str]) -> Callable[..., footers.Footer]:
    original = footers.read_footer

    def counted(file: FoundFile, *more: Any) -> footers.Footer:
        read[file.path] += 1
        return original(file, *more)

    return counted


def show(times: dict[int, tuple[float, float]]) -> None:
    table = Table(title="milliseconds of the processor", box=None, pad_edge=False)
    for heading in ("query", "bind", "plan", "both"):
        table.add_column(heading, justify="right")
    for number in sorted(times, key=lambda number: -sum(times[number]))[:15]:
        cells = (*times[number], sum(times[number]))
        table.add_row(str(number), *(f"{seconds * 1000:.1f}" for seconds in cells))
    console.print(table)


if __name__ == "__main__":
    main()
