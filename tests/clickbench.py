"""ClickBench: a made-up table of its schema, its 43 queries, and what answers they may have."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import duckdb

from tests.datasets import CACHE, FIXTURES, benchmark_queries, move_into_place
from tests.oracle import Answer, ask, assert_same, same_value

#: Of the table that ``make test`` asks.
SMALL_ROWS = 40_000
#: Enough for every query to find something, those of more than 100,000 rows a group too.
LARGE_ROWS = 500_000
FILES = 5
_GROUP_ROWS = 20_000
#: The result column that a query with a LIMIT orders by, rows of equal value in any order. Query 18
#: has no order at all; those left out have one answer.
_ORDERED_BY = {
    8: 1, 9: 1, 10: 2, 11: 1, 12: 2, 13: 1, 14: 1, 15: 2, 16: 1, 17: 2, 18: None, 19: 3, 22: 2,
    23: 3, 28: 1, 29: 1, 31: 2, 32: 2, 33: 2, 34: 1, 35: 2, 36: 4, 37: 1, 38: 1, 39: 1, 40: 5,
    41: 2, 42: 2,
}  # fmt: skip


def queries() -> dict[int, str]:
    return {int(number): text for number, text in benchmark_queries("clickbench")}


def generate(rows: int = SMALL_ROWS) -> Path:
    """Folder with the table's files; made when it is not there, renamed when whole."""
    folder = CACHE / f"clickbench-{rows}"
    if folder.is_dir():
        return folder
    CACHE.mkdir(exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="clickbench-", dir=CACHE))
    try:
        _write(rows, scratch / "hits")
        move_into_place(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


def _write(rows: int, folder: Path) -> None:
    folder.mkdir()
    edges = [rows * number // FILES for number in range(FILES + 1)]
    with duckdb.connect() as connection:
        connection.execute((FIXTURES / "clickbench_hits.sql").read_text())
        for number in range(FILES):
            connection.execute(
                f"COPY (FROM hits({rows}, {edges[number]}, {edges[number + 1]})) "
                f"TO '{folder}/{number}.parquet' "
                f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_GROUP_ROWS})"
            )


class Judge:
    """Tells whether an answer is one that DuckDB could have given over the same files."""

    def __init__(self, number: int, sql: str, files: Sequence[Path]) -> None:
        self._number = number
        began = time.perf_counter()
        self.answer = ask(sql, {"hits": files})
        self.seconds = time.perf_counter() - began
        self._all: Answer | None = None
        if number in _ORDERED_BY:
            self._all = ask(sql.partition("\nLIMIT")[0], {"hits": files})

    def check(self, actual: Answer) -> None:
        """Fail with the first difference."""
        if self._all is None:
            assert_same(actual, self.answer, ordered=True)
            return
        assert actual.columns == self.answer.columns
        assert len(actual.rows) == len(self.answer.rows)
        column = _ORDERED_BY[self._number]
        if column is not None:
            mine, theirs = ([row[column] for row in each.rows] for each in (actual, self.answer))
            assert same_value(mine, theirs), f"ordered by {mine}, not {theirs}"
        too_many = Counter(map(_key, actual.rows)) - Counter(map(_key, self._all.rows))
        assert not too_many, f"not rows of the answer: {dict(too_many)}"


def _key(row: Sequence[object]) -> str:
    """Floats to twelve digits: sums are added up in another order."""
    return repr([f"{value:.12g}" if isinstance(value, float) else value for value in row])
