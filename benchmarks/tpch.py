"""TPC-H in one run: DuckDB itself, Crossdock by default, Crossdock with a forced shuffle.

The engines take turns on each query, so that a busy moment of the machine hits all of them; the
best of the rounds counts. Every engine has the same number of threads: DuckDB as many as Crossdock
has workers of one thread. Times are from the statement to the last row, as Arrow; rows are compared
with DuckDB's.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import data
import duckdb
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import crossdock
from crossdock.receipt_text import human_bytes

#: Digits of a float that must agree: aggregates add floats up in another order.
DIGITS = 9
#: Counted in messages or payload, not in requests.
NOT_REQUESTS = ("queue_message", "queue_chunk")

console = Console(highlight=False, width=110)


@dataclass(kw_only=True)
class Outcome:
    """One engine on one query."""

    seconds: float
    rows: list[tuple[object, ...]]
    types: list[str] = field(default_factory=list)
    requests: int = 0
    shuffled: int = 0  # bytes of exchange objects
    peak_memory: int = 0  # bytes, largest worker process


@dataclass(kw_only=True)
class Engine:
    """A way to run a query."""

    name: str
    run: Callable[[str], Outcome]
    close: Callable[[], None]
    best: dict[int, Outcome] = field(default_factory=dict)
    different: list[int] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    folder = Path(options.data) if options.data else data.tpch(options.scale)
    data.CACHE.mkdir(exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="bench-home-", dir=data.CACHE))
    engines: list[Engine] = []
    try:
        engines += [
            duckdb_engine(folder, options.workers),
            crossdock_engine("default", folder, home / "default", options.workers, {}),
            crossdock_engine(
                "forced",
                folder,
                home / "forced",
                options.workers,
                {"single_task_bytes": 0, "broadcast_bytes": 0},
            ),
        ]
        if options.peer == "spark":
            engines.append(spark_engine(folder, options.workers))
        return compete(engines, options)
    finally:
        for engine in engines:
            engine.close()
        shutil.rmtree(home, ignore_errors=True)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="1", help="TPC-H scale factor")
    parser.add_argument("--data", help="folder of an existing data set, one Parquet file a table")
    parser.add_argument(
        "--queries", type=lambda text: [int(n) for n in text.split(",")], help="such as 3,12,18"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--peer", choices=["spark"])
    return parser.parse_args(arguments)


def compete(engines: Sequence[Engine], options: argparse.Namespace) -> int:
    texts = data.queries()
    console.print(
        f"TPC-H scale {options.scale}, {options.workers} threads each, best of {options.rounds}; "
        "seconds, and times DuckDB's"
    )
    for number in options.queries or sorted(texts):
        for _ in range(options.rounds):
            for engine in engines:
                outcome = engine.run(texts[number])
                if number not in engine.best or outcome.seconds < engine.best[number].seconds:
                    engine.best[number] = outcome
        reference = engines[0].best[number]
        for engine in engines[1:]:
            if not same(engine.best[number], reference):
                engine.different.append(number)
        console.print(progress_line(engines, number), markup=False)
    return report(engines)


# -- engines ---------------------------------------------------------------------------------------


def duckdb_engine(folder: Path, threads: int) -> Engine:
    connection = duckdb.connect(config={"threads": threads})
    for table in data.TABLES:
        path = folder / f"{table}.parquet"
        connection.execute(f"CREATE VIEW {table} AS FROM read_parquet('{path}')")

    def run(sql: str) -> Outcome:
        began = time.perf_counter()
        rows = connection.sql(sql).to_arrow_table()
        return outcome_of(time.perf_counter() - began, rows)

    return Engine(name="duckdb", run=run, close=connection.close)


def crossdock_engine(
    name: str, folder: Path, home: Path, workers: int, settings: dict[str, object]
) -> Engine:
    connection = crossdock.connect(
        home=home,
        tables={table: folder / f"{table}.parquet" for table in data.TABLES},
        workers=workers,
        **settings,
    )
    # Workers are started by the first query, which is not counted.
    connection.execute("SELECT r_name, count(*) FROM region GROUP BY r_name").fetchall()

    def run(sql: str) -> Outcome:
        with connection.cursor() as cursor:
            began = time.perf_counter()
            rows = cursor.execute(sql).arrow()
            outcome = outcome_of(time.perf_counter() - began, rows)
            receipt = cursor.receipt
        if receipt is not None:
            counted = receipt.requests.items()
            outcome.requests = sum(n for kind, n in counted if kind not in NOT_REQUESTS)
            outcome.shuffled = receipt.shuffled_bytes
            outcome.peak_memory = receipt.peak_memory
        return outcome

    return Engine(name=name, run=run, close=connection.close)


def spark_engine(folder: Path, threads: int) -> Engine:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master(f"local[{threads}]")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.shuffle.partitions", str(4 * threads))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    for table in data.TABLES:
        session.read.parquet(str(folder / f"{table}.parquet")).createOrReplaceTempView(table)

    def run(sql: str) -> Outcome:
        began = time.perf_counter()
        rows = session.sql(sql).collect()
        return Outcome(seconds=time.perf_counter() - began, rows=[tuple(row) for row in rows])

    return Engine(name="spark", run=run, close=session.stop)


def outcome_of(seconds: float, table: pa.Table) -> Outcome:
    columns = [column.to_pylist() for column in table.columns]
    return Outcome(
        seconds=seconds,
        rows=list(zip(*columns, strict=True)),
        types=[str(field.type) for field in table.schema],
    )


# -- comparing and printing ------------------------------------------------------------------------


def same(mine: Outcome, reference: Outcome) -> bool:
    """Equal rows and types; Spark has types of its own, so only its number of rows is compared."""
    if not mine.types:
        return len(mine.rows) == len(reference.rows)
    if mine.types != reference.types:
        return False
    return sorted(map(as_text, mine.rows)) == sorted(map(as_text, reference.rows))


def as_text(row: tuple[object, ...]) -> str:
    return repr([f"{v:.{DIGITS}e}" if isinstance(v, float) else v for v in row])


def progress_line(engines: Sequence[Engine], number: int) -> str:
    base = engines[0].best[number].seconds
    cells = []
    for engine in engines:
        seconds = engine.best[number].seconds
        ratio = f" ({seconds / base:.2f}x)" if engine is not engines[0] else ""
        wrong = " DIFFERENT" if number in engine.different else ""
        cells.append(f"{engine.name} {seconds:.3f}{ratio}{wrong}")
    return f"q{number:02d}  " + "  ".join(cells)


def report(engines: Sequence[Engine]) -> int:
    """The whole table; exit code 1 when rows differ."""
    reference, _, forced = engines[:3]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("query")
    for engine in engines:
        table.add_column(engine.name, justify="right")
        if engine is not reference:
            table.add_column("ratio", justify="right")
    for heading in ("requests", "shuffled", "memory"):
        table.add_column(heading, justify="right")
    for number, base in reference.best.items():
        cells = [str(number)]
        for engine in engines:
            cells.append(f"{engine.best[number].seconds:.3f}")
            if engine is not reference:
                cells.append(f"{engine.best[number].seconds / base.seconds:.2f}x")
        outcome = forced.best[number]
        cells += [
            f"{outcome.requests:,}",
            human_bytes(outcome.shuffled),
            human_bytes(outcome.peak_memory),
        ]
        table.add_row(*cells)
    console.print(table)
    for engine in engines[1:]:
        ratio = geomean(
            [outcome.seconds / reference.best[n].seconds for n, outcome in engine.best.items()]
        )
        console.print(f"{engine.name}: {ratio:.2f}x DuckDB (geometric mean)")
    if engines[-1].name == "spark":
        ratio = geomean([o.seconds / forced.best[n].seconds for n, o in engines[-1].best.items()])
        console.print(f"forced shuffle is {ratio:.1f}x faster than Spark (geometric mean)")
    different = {engine.name: engine.different for engine in engines if engine.different}
    console.print(f"DIFFERENT rows: {different}" if different else "rows and types are DuckDB's")
    return 1 if different else 0


def geomean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


if __name__ == "__main__":
    sys.exit(main())
