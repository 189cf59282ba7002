"""Odd but legal input through a distributed plan: names, nesting, large values, long texts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crossdock
from crossdock.client.connection import Connection
from tests.oracle import ask, assert_same, of_cursor

NAMES = (
    *('a"b', "it's", "select", "ünïcödé 😀", "x" * 300, "a.b", "c0", " lead", "new\nline"),
    *("semi;colon", "--c", "%s", "$1", "?", "scan_0", "edge_0"),
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    folder = tmp_path_factory.mktemp("data")
    made = {
        "t": {"k": list(range(100)), "g": [i % 7 for i in range(100)]},
        "odd names": {name: [1, 2, 2] for name in NAMES},
        "wide": {f"col{i}": [i, i + 1, None] for i in range(1000)},
        "large": {"k": [1, 2, 3], "s": ["x" * 20_000_000, "y", None]},
    }
    for name, columns in made.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return {name: [folder / f"{name}.parquet"] for name in made}


@pytest.fixture(scope="module")
def connection(
    tmp_path_factory: pytest.TempPathFactory, tables: dict[str, list[Path]]
) -> Iterator[Connection]:
    with crossdock.connect(
        home=tmp_path_factory.mktemp("home"),
        tables={name: [str(path) for path in paths] for name, paths in tables.items()},
        workers=2,
        single_task_bytes=0,
        broadcast_bytes=0,
        partitions=2,
        timezone="UTC",
    ) as opened:
        yield opened


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


QUERIES = {
    "odd names": f"SELECT {', '.join(map(_quoted, NAMES))}, count(*) "
    'FROM "odd names" GROUP BY ALL ORDER BY ALL',
    "names that repeat": 'SELECT k, k, g AS k, g AS "K" FROM t WHERE k < 3 ORDER BY 1',
    "1,000 columns": "SELECT * FROM wide ORDER BY col0",
    "20 MB value": "SELECT s, count(*) FROM large GROUP BY s ORDER BY s NULLS FIRST",
    "10,000 values": "SELECT count(*) FROM t WHERE k IN "
    f"({', '.join(str(i * 2) for i in range(10_000))})",
    "300 KB of comment": f"SELECT g, count(*) /* {'c' * 300_000} */ FROM t -- ;\nGROUP BY g "
    "ORDER BY g;; ",
    "900 nested sums": f"SELECT g, sum(k{' + 1' * 900}) FROM t GROUP BY g ORDER BY g",
    "300 nested calls": f"SELECT {'abs(' * 300}k{')' * 300} AS k FROM t ORDER BY k LIMIT 3",
    "900 nested cases": f"SELECT {'CASE WHEN k > 3 THEN 1 ELSE ' * 900}k{' END' * 900} AS k "
    "FROM t ORDER BY k LIMIT 9",
    "50 nested subqueries": f"SELECT count(*) FROM {'(SELECT k FROM ' * 50}t{') AS x' * 50}",
}


@pytest.mark.parametrize("about", QUERIES)
def test_odd_query_gives_duckdbs_answer(
    about: str, connection: Connection, tables: dict[str, list[Path]]
) -> None:
    with connection.execute(QUERIES[about]) as cursor:
        assert_same(of_cursor(cursor), ask(QUERIES[about], tables), ordered=True)


def test_statement_deeper_than_the_engine_takes_is_refused(connection: Connection) -> None:
    with pytest.raises(crossdock.Error, match="nested too deeply"):
        connection.execute(f"SELECT k{' + 1' * 20_000} FROM t")
