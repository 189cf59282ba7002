"""CSV and JSON files as inputs: DuckDB's rows and types, in one task and in many."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import crossdock
from crossdock.client.connection import Connection
from tests.oracle import Answer, assert_same, of_cursor

Files = dict[str, str | bytes]


def zstd(text: str) -> bytes:
    return pa.Codec("zstd").compress(text.encode(), asbytes=True)


LINES = "".join(json.dumps({"a": n, "s": {"t": f"x{n}", "l": [n, None]}}) + "\n" for n in range(40))
#: Name, files, statement; DuckDB answers in the same folder.
CASES: dict[str, tuple[Files, str]] = {
    "plain": ({"a.csv": "x,y\n007,1\n008,\n"}, "SELECT x, y + 1 AS y FROM 'a.csv'"),
    "alias of a compressed file": (
        {"z.csv.gz": gzip.compress(b"x,y\n1,a\n2,b\n")},
        "SELECT z.x, count(*) FROM 'z.csv.gz' GROUP BY ALL",
    ),
    "zstd": ({"z.csv.zst": zstd("x;y\n1,5;a\n")}, "FROM read_csv('z.csv.zst', delim = ';')"),
    "a type that only the second file shows": (
        {"a.csv": "x,y\n007,1\n", "b.csv": "x,y\nabc,2\n"},
        "SELECT x, sum(y) FROM read_csv('*.csv') GROUP BY x",
    ),
    "columns in another order": (
        {"a.csv": "x,y\n1,2\n", "b.csv": "y,x\n4,3\n"},
        "SELECT x, y FROM read_csv('*.csv')",
    ),
    "each file has its own separators": (
        {"a.csv": "x,y\n1,2\n", "b.csv": 'x;y\r\n3;"4"\r\n'},
        "SELECT x, y FROM read_csv('*.csv')",
    ),
    "dates of a country": (
        {"a.csv": "d,t\n12/31/2020,01/02/2020 13:00:00\n01/13/2020,01/02/2020 01:00:00\n"},
        "SELECT d, t FROM 'a.csv' WHERE d > '2020-02-01'",
    ),
    "without a header": (
        {"a.csv": "1,2\n3,4\n", "b.csv": "5,6\n"},
        "SELECT sum(column0), max(column1) FROM read_csv('*.csv')",
    ),
    "a header alone": (
        {"a.csv": "x,y\n", "b.csv": "x,y\n1,2\n"},
        "SELECT count(*), sum(y) FROM read_csv('*.csv')",
    ),
    "files of no bytes": (
        {"a.csv": "", "b.csv": "x,y\n1,2\n"},
        "SELECT * FROM read_csv(['b.csv', 'a.csv'])",
    ),
    "only no bytes": ({"a.csv": ""}, "FROM 'a.csv'"),
    "columns named by the statement": (
        {"a.tsv": "p\tq\n1\tz\n"},
        "FROM read_csv('a.tsv', columns = {'p': 'INTEGER', 'q': 'VARCHAR'})",
    ),
    "nothing guessed": (
        {"a.csv": "1|z\n2|NA\n"},
        "FROM read_csv('a.csv', auto_detect = false, delim = '|', nullstr = 'NA', header = false, "
        "columns = {'k': 'UTINYINT', 'v': 'VARCHAR'})",
    ),
    "types, NULLs, decimals with a comma": (
        {"a.csv": "k;v;w\n1;1,5;-\n2;-;b\n"},
        "FROM read_csv('a.csv', delim = ';', decimal_separator = ',', nullstr = ['-', 'x'], "
        "types = {'v': 'DECIMAL(9,2)'})",
    ),
    "rows that are too short": (
        {"a.csv": "x,y\n1,2\n3\n5,6,7\n"},
        "FROM read_csv('a.csv', null_padding = true)",
    ),
    "rows that do not fit are left out": (
        {"a.csv": "x,y\n1,2\n3,b\n5,6\n"},
        "SELECT sum(x), sum(y) FROM read_csv('a.csv', types = {'y': 'INTEGER'}, "
        "ignore_errors = true)",
    ),
    "partition folders of text": (
        {
            "d=2024-01-31/n=1/a.csv": "x\n1\n",
            "d=2024-02-29/n=2/a.csv": "x\n2\n",
            "d=__HIVE_DEFAULT_PARTITION__/n=3/a.csv": "x\n3\n",
        },
        "SELECT d, n, x FROM read_csv('*/*/*.csv', hive_partitioning = true) WHERE n < 3",
    ),
    "lines of JSON": (
        {"a.jsonl": LINES},
        "SELECT a % 3 AS g, max(s.t), sum(s.l[1]), count(s.l[2]) FROM 'a.jsonl' GROUP BY g",
    ),
    "an array, and lines": (
        {"a.json": '[{"a": 1, "b": "x"}, {"a": 2}]', "b.json.gz": gzip.compress(b'{"a": 2.5}\n')},
        "SELECT a, b FROM read_json(['a.json', 'b.json.gz'])",
    ),
    "values that are no records": ({"a.json": "[1, 2, 3]"}, "SELECT sum(json) FROM 'a.json'"),
    "one after another": (
        {"a.json": '{"a": "2020-01-02 03:04:05"} {"a": "2021-01-02 03:04:05"}'},
        "FROM 'a.json'",
    ),
    "dates of JSON in another form": (
        {"a.json": '{"d": "12-31-2020"}\n{"d": "01-13-2020"}\n'},
        "FROM 'a.json' WHERE d > '2020-06-01'",
    ),
    "only rows are counted": ({"a.ndjson": LINES}, "SELECT count(*) FROM read_ndjson('a.ndjson')"),
    "JSON with columns given": (
        {"a.json": '{"a": "1", "c": 3}\n{"b": [1]}\n'},
        "FROM read_json('a.json', columns = {'a': 'INTEGER', 'b': 'BIGINT[]'})",
    ),
    "a map where keys differ": (
        {"a.json": "".join(f'{{"m": {{"k{n}": {n}}}}}\n' for n in range(300))},
        "SELECT typeof(m), count(*) FROM 'a.json' GROUP BY ALL",
    ),
    "Parquet beside text": (
        {"a.csv": "x\n1\n2\n2\n"},
        "SELECT a.x, count(*) FROM 'a.csv' AS a JOIN 'a.csv' AS b USING (x) GROUP BY ALL",
    ),
}


@pytest.fixture(scope="module")
def connections(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Connection]]:
    common = {"workers": 2, "worker_memory": "512MB", "timezone": "UTC"}
    home = tmp_path_factory.mktemp("home")
    with (
        crossdock.connect(home=home / "one", **common) as one,
        crossdock.connect(
            home=home / "many", single_task_bytes=0, broadcast_bytes=0, partitions=3, **common
        ) as many,
    ):
        yield {"one task": one, "distributed": many}


@pytest.fixture(params=["one task", "distributed"])
def connection(request: pytest.FixtureRequest, connections: dict[str, Connection]) -> Connection:
    return connections[request.param]


@pytest.fixture
def lay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Files], Path]:
    def laid(files: Files) -> Path:
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        monkeypatch.chdir(tmp_path)
        return tmp_path

    return laid


def duckdbs(sql: str) -> Answer:
    with duckdb.connect() as duck:
        duck.execute("SET TimeZone = 'UTC'")
        rows = duck.execute(sql).fetchall()
        kinds = [(each[0], str(each[1])) for each in duck.description]
    return Answer(tuple(kinds), tuple(rows))


@pytest.mark.parametrize("case", CASES)
def test_texts_are_read_as_duckdb_reads_them(
    case: str, connection: Connection, lay: Callable[[Files], Path]
) -> None:
    files, sql = CASES[case]
    lay(files)
    with connection.execute(sql) as cursor:
        assert_same(of_cursor(cursor), duckdbs(sql), ordered=False)


def test_files_of_other_columns_are_one_table(
    connection: Connection, lay: Callable[[Files], Path]
) -> None:
    lay({"a.csv": "x,y\n1,2\n", "b.csv": "z,x\nc,3\n"})
    for sources in ("['a.csv', 'b.csv']", "['b.csv', 'a.csv']"):
        with connection.execute(f"SELECT x, y, z FROM read_csv({sources}) ORDER BY x") as cursor:
            assert cursor.fetchall() == [(1, 2, None), (3, None, "c")]


def test_tables_of_texts_are_named_and_typed(
    connection: Connection, lay: Callable[[Files], Path]
) -> None:
    folder = lay({"t/1.csv": "k,v\n1,a\n", "t/2.csv": "k,v\n2,b\n", "t/_tmp/3.csv": "k,v\n9,z\n"})
    connection.tables.add("t", str(folder / "t"), format="csv", options={"all_varchar": True})
    with connection.execute("SELECT k, v FROM t ORDER BY k") as cursor:
        assert cursor.fetchall() == [("1", "a"), ("2", "b")]
    connection.tables.add("u", str(folder / "t/*.csv"))
    with connection.execute("SELECT sum(k) FROM u") as cursor:
        assert cursor.fetchall() == [(3,)]
    assert not connection.tables.get("u").is_counted


def test_a_file_is_a_split(
    connections: dict[str, Connection], lay: Callable[[Files], Path]
) -> None:
    lay({f"{n}.csv": "k\n" + "1\n" * 5000 for n in range(5)})
    plan = connections["distributed"].explain("SELECT sum(k) FROM '*.csv'")
    (scan,) = plan.stages[0].scans
    assert len([split for split in scan.splits if split]) == plan.stages[0].tasks == 2
    assert sorted(piece.path[-5:] for split in scan.splits for piece in split) == [
        f"{n}.csv" for n in range(5)
    ]
    assert all(piece.last < 0 for split in scan.splits for piece in split)


@pytest.mark.parametrize(
    ("files", "sql", "said"),
    [
        ({"m.csv": "x\n" + "1\n" * 30_000 + "abc\n"}, "SELECT sum(x) FROM 'm.csv'", r"m\.csv"),
        ({"m.json": '{"a":1}\n{"a":'}, "FROM 'm.json'", r"m\.json"),
        ({"m.csv.gz": b"no gzip"}, "FROM 'm.csv.gz'", r"m\.csv\.gz"),
        (
            {"a.csv": "x\n1\n", "a.json": "[]"},
            "FROM read_csv(['a.csv', 'b.csv'])",
            "b.csv does not",
        ),
        ({"a.csv": "x\n1\n", "a.json": "[]"}, "FROM 'a.*'", "two formats: .*a.csv is CSV"),
        ({"t/a.csv": "x\n1\n"}, "FROM './t'", "no Parquet file .* but CSV files"),
    ],
)
def test_what_cannot_be_read_is_named(
    connection: Connection, lay: Callable[[Files], Path], files: Files, sql: str, said: str
) -> None:
    lay(files)
    with pytest.raises(crossdock.Error, match=said):
        connection.execute(sql).fetchall()


def test_a_text_written_again_is_looked_at_again(
    connections: dict[str, Connection], lay: Callable[[Files], Path]
) -> None:
    folder = lay({"a.csv": "x\n1\n"})
    connection = connections["one task"]
    cursor: Any = connection.execute("SELECT x FROM 'a.csv'")
    cursor.close()
    (folder / "a.csv").write_text("x\nb\n")
    with connection.execute("SELECT x FROM 'a.csv'") as again:
        assert again.fetchall() == [("b",)]
