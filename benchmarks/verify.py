"""Every query of the benchmarks against DuckDB over the same files: rows, types and names.

    make verify SF=1                            TPC-H, TPC-DS: about an hour on two processors
    make verify SF=1 SUITE=tpch QUERIES=3,18    some of it
    make verify SUITE=clickbench                half a million rows of ClickBench's table
    python -m benchmarks.verify --help

TPC-H runs by default settings, and with a forced shuffle with 1, 2 and 7 partitions by both
exchange methods; TPC-DS with a forced shuffle with 7 partitions; ClickBench both by default and so.
One connection a configuration.
Prints seconds for each query and configuration and the largest worker process; exit code 1 when an
answer differs or a query fails.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

import crossdock
from benchmarks import data
from crossdock.client.connection import Connection
from crossdock.receipt_text import human_bytes
from tests import clickbench
from tests.oracle import Answer, ask, assert_same, is_ordered, of_cursor

SUITES = ("tpch", "tpcds")  # unless others are asked for
FORCED = {"single_task_bytes": 0, "broadcast_bytes": 0}
MARKS = {"same": "", "different": " DIFFERENT", "failed": " FAILED"}

console = Console(highlight=False, width=120)


@dataclass(frozen=True)
class Configuration:
    name: str
    exchange: str = "auto"
    settings: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    seconds: float
    verdict: str  # a key of MARKS
    peak_memory: int = 0  # bytes, largest process
    words: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    bad = 0
    for suite in options.suite:
        folder = Path(options.data) if options.data else dataset(suite, options.scale)
        bad += verify(suite, folder, configurations(suite, options), options)
    console.print("EVERY ANSWER IS DUCKDB'S" if not bad else f"{bad} DIFFERENT OR FAILED")
    return 1 if bad else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", default="1", help="scale factor of the generated data")
    parser.add_argument("--suite", type=_words, default=SUITES, help="of tpch, tpcds, clickbench")
    parser.add_argument("--data", help="folder of an existing data set, one file or folder a table")
    parser.add_argument("--queries", type=_numbers, help="such as 3,12,18")
    parser.add_argument("--partitions", type=_numbers, help="such as 1,2,7 (tpch), 7 (tpcds)")
    parser.add_argument("--exchange", type=_words, help="s3qs,batch (tpch), s3qs (tpcds)")
    parser.add_argument("--no-default", action="store_true", help="forced shuffles only")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--worker-memory", default="auto")
    return parser.parse_args(arguments)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(","))


def configurations(suite: str, options: argparse.Namespace) -> list[Configuration]:
    whole = suite == "tpch"
    default = suite != "tpcds" and not options.no_default
    found = [Configuration("default")] if default else []
    for exchange in options.exchange or (("s3qs", "batch") if whole else ("s3qs",)):
        for partitions in options.partitions or ((1, 2, 7) if whole else (7,)):
            settings = {**FORCED, "partitions": partitions}
            found.append(Configuration(f"{exchange} {partitions}", exchange, settings))
    return found


def dataset(suite: str, scale: str) -> Path:
    if suite == "clickbench":
        return clickbench.generate(clickbench.LARGE_ROWS)
    return data.dataset(suite, scale)


def tables_of(folder: Path) -> dict[str, list[Path]]:
    """Files by table: ``<table>.parquet``, or all of a folder ``<table>/``."""
    files = {path.stem: [path] for path in sorted(folder.glob("*.parquet"))}
    return files | {
        each.name: sorted(each.glob("*.parquet")) for each in folder.iterdir() if each.is_dir()
    }


class OneAnswer:
    """Judges an answer by DuckDB's own."""

    def __init__(self, sql: str, tables: dict[str, list[Path]]) -> None:
        self._answer = ask(sql, tables)
        self._ordered = is_ordered(sql)

    def check(self, answer: Answer) -> None:
        assert_same(answer, self._answer, ordered=self._ordered)


def verify(
    suite: str, folder: Path, chosen: Sequence[Configuration], options: argparse.Namespace
) -> int:
    """Run one suite; the number of answers that differ or are missing."""
    texts = data.queries(suite)
    numbers = [n for n in sorted(texts) if not options.queries or n in options.queries]
    tables = tables_of(folder)
    console.print(f"[bold]{suite}[/] in {folder}: {len(numbers)} queries, {len(chosen)} ways")
    answers = {number: timed_judge(suite, number, texts[number], tables) for number in numbers}
    results: dict[str, dict[int, Result]] = {}
    for configuration in chosen:
        of_this = results[configuration.name] = {}
        with connected(configuration, tables, options) as connection:
            for number in numbers:
                of_this[number] = check(connection, texts[number], answers[number][1])
                tell(suite, configuration, number, of_this[number])
    show(suite, {number: answer[0] for number, answer in answers.items()}, results)
    return sum(r.verdict != "same" for one in results.values() for r in one.values())


def timed_judge(
    suite: str, number: int, sql: str, tables: dict[str, list[Path]]
) -> tuple[float, OneAnswer | clickbench.Judge]:
    """Seconds that DuckDB took, and who compares answers with its own."""
    if suite == "clickbench":
        judge = clickbench.Judge(number, sql, tables["hits"])
        return judge.seconds, judge
    began = time.perf_counter()
    answer = OneAnswer(sql, tables)
    return time.perf_counter() - began, answer


@contextmanager
def connected(
    configuration: Configuration, tables: dict[str, list[Path]], options: argparse.Namespace
) -> Iterator[Connection]:
    """A connection with a home of its own that goes with it."""
    data.CACHE.mkdir(exist_ok=True)
    home = tempfile.mkdtemp(prefix="verify-home-", dir=data.CACHE)
    try:
        with crossdock.connect(
            home=home,
            tables={name: [str(path) for path in paths] for name, paths in tables.items()},
            workers=options.workers,
            worker_memory=options.worker_memory,
            exchange=configuration.exchange,
            timezone="UTC",
            **configuration.settings,
        ) as connection:
            yield connection
    finally:
        shutil.rmtree(home, ignore_errors=True)


def check(connection: Connection, sql: str, judge: OneAnswer | clickbench.Judge) -> Result:
    began = time.perf_counter()
    try:
        with connection.execute(sql) as cursor:
            answer = of_cursor(cursor)
            seconds = time.perf_counter() - began
            peak = cursor.receipt.peak_memory if cursor.receipt else 0
    except crossdock.Error as error:
        return Result(time.perf_counter() - began, "failed", words=str(error))
    try:
        judge.check(answer)
    except AssertionError as difference:
        return Result(seconds, "different", peak, str(difference))
    return Result(seconds, "same", peak)


def tell(suite: str, configuration: Configuration, number: int, result: Result) -> None:
    mark = MARKS[result.verdict]
    console.print(
        f"{suite} {configuration.name} q{number}: {result.seconds:.2f} s{mark}", markup=False
    )
    if result.words:
        console.print(result.words[:2000], markup=False)


def show(suite: str, reference: dict[int, float], results: dict[str, dict[int, Result]]) -> None:
    table = Table(title=f"{suite}: seconds", box=None, pad_edge=False)
    for heading in ("query", "duckdb", *results):
        table.add_column(heading, justify="right")
    for number, seconds in reference.items():
        cells = [one[number] for one in results.values()]
        table.add_row(
            str(number),
            f"{seconds:.2f}",
            *(f"{cell.seconds:.2f}{MARKS[cell.verdict]}" for cell in cells),
        )
    sums = [sum(cell.seconds for cell in one.values()) for one in results.values()]
    table.add_row("sum", f"{sum(reference.values()):.2f}", *(f"{each:.2f}" for each in sums))
    peaks = [max(cell.peak_memory for cell in one.values()) for one in results.values()]
    table.add_row("peak", "", *map(human_bytes, peaks))
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
