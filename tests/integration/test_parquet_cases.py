"""Parquet files as other writers leave them: schemas that drift, empty files, NaN, odd folders."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crossdock
from crossdock.client.connection import Connection

Ask = Callable[..., list[tuple[Any, ...]]]
#: What the same instant is, in the three forms writers have for it.
INSTANT = "2020-06-28 22:17:33.123456"
NANOSECONDS = 1_593_382_653_123_456_789


@pytest.fixture(scope="module")
def connections(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Connection]]:
    """One that runs a query as it is, one that cuts it into tasks."""
    common = {"workers": 2, "worker_memory": "512MB", "timezone": "UTC"}
    home = tmp_path_factory.mktemp("home")
    with (
        crossdock.connect(home=home / "one", **common) as one,
        crossdock.connect(home=home / "many", single_task_bytes=0, **common) as many,
    ):
        yield {"one task": one, "distributed": many}


@pytest.fixture(params=["one task", "distributed, 1", "distributed, 7"])
def connection(request: pytest.FixtureRequest, connections: dict[str, Connection]) -> Connection:
    kind, _, partitions = request.param.partition(", ")
    opened = connections[kind]
    if partitions:
        opened.settings = replace(
            opened.settings,
            partitions=int(partitions),
            broadcast_bytes=0 if partitions == "7" else 1,
        )
    return opened


@pytest.fixture
def ask(connection: Connection) -> Ask:
    """Rows of a query over table ``t``, which is made of the sources given."""

    def asked(sql: str, *sources: Path, **tables: Path) -> list[tuple[Any, ...]]:
        if sources:
            connection.tables.add("t", [str(source) for source in sources])
        for name, path in tables.items():
            connection.tables.add(name, str(path))
        with connection.execute(sql) as cursor:
            return cursor.fetchall()

    return asked


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, **options)
    return path


# -- schemas that drift ----------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 1])
def test_files_of_other_columns_and_widths_are_one_table(
    ask: Ask, tmp_path: Path, first: int
) -> None:
    narrow = write(tmp_path / "narrow.parquet", {"id": pa.array([1, 2], pa.int32())})
    wide = write(
        tmp_path / "wide.parquet", {"c": ["x"], "id": pa.array([5_000_000_000], pa.int64())}
    )
    files = (narrow, wide) if first == 0 else (wide, narrow)
    rows = ask("SELECT id, c FROM t ORDER BY id", *files)
    assert rows == [(1, None), (2, None), (5_000_000_000, "x")]
    assert ask("SELECT count(c) FROM t") == [(1,)]
    assert ask("SELECT id, typeof(id) FROM t WHERE id < 3 ORDER BY id") == [
        (1, "BIGINT"),
        (2, "BIGINT"),
    ]
    assert ask("SELECT max(id), c FROM t GROUP BY c ORDER BY c NULLS FIRST") == [
        (2, None),
        (5_000_000_000, "x"),
    ]


def test_struct_that_gained_a_field_keeps_it(ask: Ask, tmp_path: Path) -> None:
    before = write(tmp_path / "1.parquet", {"s": [{"a": 1}]})
    after = write(tmp_path / "2.parquet", {"s": [{"a": 2, "b": "q"}]})
    for files in ((before, after), (after, before)):
        assert ask("SELECT s.a, s.b FROM t ORDER BY 1", *files) == [(1, None), (2, "q")]
        assert ask("SELECT s.b, count(*) FROM t GROUP BY s ORDER BY 1 NULLS FIRST") == [
            (None, 1),
            ("q", 1),
        ]


def test_decimals_of_all_storages_add_up(ask: Ask, tmp_path: Path) -> None:
    value = [Decimal("12.34")]
    files = (
        write(
            tmp_path / "integer.parquet",
            {"d": pa.array(value, pa.decimal128(7, 2))},
            store_decimal_as_integer=True,
        ),
        write(tmp_path / "bytes.parquet", {"d": pa.array(value, pa.decimal128(7, 2))}),
        write(tmp_path / "wide.parquet", {"d": pa.array(value, pa.decimal128(20, 2))}),
    )
    for order in (files, files[::-1]):
        assert ask("SELECT sum(d), count(*), min(d) FROM t WHERE d = 12.34", *order) == [
            (Decimal("37.02"), 3, Decimal("12.34"))
        ]


def test_string_layouts_of_arrow_are_one_type(ask: Ask, tmp_path: Path) -> None:
    kinds = (pa.string(), pa.large_string(), pa.string_view())
    files = [
        write(tmp_path / f"{i}.parquet", {"s": pa.array(["a", "b", None], kind), "n": [1, 2, i]})
        for i, kind in enumerate(kinds)
    ]
    assert ask("SELECT s, count(*) FROM t GROUP BY s ORDER BY s", *files) == [
        ("a", 3),
        ("b", 3),
        (None, 3),
    ]
    assert ask("SELECT s FROM t WHERE n = 2 AND s = 'b'") == [("b",)] * 3


# -- moments ---------------------------------------------------------------------------------------


@pytest.fixture
def instants(tmp_path: Path) -> dict[str, Path]:
    nano = pa.array([NANOSECONDS], pa.timestamp("ns"))
    micro = pa.array([datetime.fromisoformat(INSTANT)], pa.timestamp("us"))
    return {
        "int96": write(
            tmp_path / "int96.parquet", {"t": nano}, use_deprecated_int96_timestamps=True
        ),
        "ns": write(tmp_path / "ns.parquet", {"t": nano}, version="2.6"),
        "us": write(tmp_path / "us.parquet", {"t": micro}),
    }


def test_int96_has_microseconds_and_the_nanosecond_type_has_all(
    ask: Ask, instants: dict[str, Path]
) -> None:
    kinds = {"int96": "TIMESTAMP", "ns": "TIMESTAMP_NS", "us": "TIMESTAMP"}
    for name, path in instants.items():
        assert ask(f"SELECT typeof(t), count(*) FROM {name} GROUP BY ALL", **{name: path}) == [
            (kinds[name], 1)
        ]
    assert ask("SELECT count(*) FROM int96 JOIN us ON int96.t = us.t") == [(1,)]
    assert ask("SELECT count(*) FROM ns JOIN us ON ns.t = us.t") == [(0,)]
    assert ask("SELECT epoch_ns(t) FROM ns") == [(NANOSECONDS,)]


@pytest.mark.parametrize("first", ["int96", "ns", "us"])
def test_table_of_mixed_instants_has_one_type_everywhere(
    ask: Ask, instants: dict[str, Path], first: str
) -> None:
    files = [instants[first], *(path for name, path in instants.items() if name != first)]
    kinds = ask("SELECT typeof(t), count(*) FROM t GROUP BY ALL", *files)
    assert kinds == [("TIMESTAMP_NS", 3)]
    assert ask("SELECT count(DISTINCT t) FROM t") == [(2,)]


# -- files without rows ----------------------------------------------------------------------------


def test_files_without_rows_or_row_groups_keep_the_schema(ask: Ask, tmp_path: Path) -> None:
    rows = pa.table({"k": pa.array([1, 2], pa.int64()), "s": ["a", "b"]})
    none = tmp_path / "no-group.parquet"
    pq.ParquetWriter(none, rows.schema).close()
    empty = tmp_path / "empty-group.parquet"
    with pq.ParquetWriter(empty, rows.schema) as writer:
        writer.write_table(rows.slice(0, 0), row_group_size=1)
    full = tmp_path / "rows.parquet"
    pq.write_table(rows, full)
    assert ask("SELECT count(*), sum(k) FROM t", none, empty, full) == [(2, 3)]
    assert ask("SELECT s FROM t WHERE k > 1") == [("b",)]
    assert ask("SELECT count(*), sum(k) FROM t", none, empty) == [(0, None)]
    assert ask("SELECT * FROM t") == []
    assert ask("SELECT s, sum(k) FROM t GROUP BY s") == []


def test_result_of_empty_files_has_columns_and_types(
    connection: Connection, tmp_path: Path
) -> None:
    table = pa.table({"k": pa.array([], pa.int16()), "h": pa.array([], pa.list_(pa.string()))})
    pq.ParquetWriter(tmp_path / "e.parquet", table.schema).close()
    connection.tables.add("t", str(tmp_path / "e.parquet"))
    with connection.execute("SELECT * FROM t") as cursor:
        assert [each[:2] for each in cursor.description] == [("k", "SMALLINT"), ("h", "VARCHAR[]")]
        assert cursor.arrow().num_rows == 0


# -- NaN -------------------------------------------------------------------------------------------

_NAN_QUESTIONS = (
    "SELECT count(*) FROM t WHERE x <> 3",
    "SELECT count(*) FROM t WHERE x > 100",
    "SELECT count(*) FROM t WHERE NOT (x < 10)",
    "SELECT count(*) FROM t WHERE isnan(x)",
    "SELECT count(*) FROM t WHERE x = 'nan'",
    "SELECT count(*) FROM t JOIN (VALUES ('nan'::DOUBLE)) AS v(y) ON x = y",
    "SELECT count(*) FROM t WHERE s.x > 100",
    "SELECT count(*) FROM t WHERE l[1] > 100",
    "SELECT count(*) FROM t WHERE isnan(h)",
    "SELECT isnan(max(x))::INT FROM t",
    "SELECT isnan(max(s.x))::INT FROM t",
    "SELECT isnan(max(h))::INT FROM t",
)


@pytest.mark.parametrize("writer", ["arrow", "arrow without statistics", "DuckDB"])
def test_nan_outside_the_statistics_is_found(ask: Ask, tmp_path: Path, writer: str) -> None:
    nan = float("nan")
    path = tmp_path / "n.parquet"
    columns = {
        "x": [3.0, nan, 3.0],
        "s": [{"x": 3.0}, {"x": nan}, {"x": 3.0}],
        "l": [[3.0], [nan], [3.0]],
        "h": pa.array([3.0, nan, 3.0], pa.float32()),
    }
    if writer == "DuckDB":
        made = pa.table(columns)
        with duckdb.connect() as duck:
            duck.register("made", made)
            duck.execute(f"COPY made TO '{path}' (FORMAT parquet)")
    else:
        write(path, columns, write_statistics=writer == "arrow")
    assert ask(_NAN_QUESTIONS[0], path) == [(1,)]
    assert {sql: ask(sql) for sql in _NAN_QUESTIONS} == {sql: [(1,)] for sql in _NAN_QUESTIONS}


# -- names and folders -----------------------------------------------------------------------------


def test_partition_folders_are_decoded_once(ask: Ask, tmp_path: Path) -> None:
    values = ("a%2Fb", "c%20d", "100%25", "e%3Df", "0012", "%252F")
    for k, value in enumerate(values, start=1):
        write(tmp_path / f"g={value}" / "f.parquet", {"k": [k]})
    decoded = [("a/b", 1), ("c d", 2), ("100%", 3), ("e=f", 4), ("0012", 5), ("%2F", 6)]
    assert ask("SELECT g, k FROM t ORDER BY k", tmp_path) == decoded
    for value, k in decoded:
        assert ask(f"SELECT k FROM t WHERE g = '{value}'") == [(k,)]


def test_bare_equals_sign_in_a_partition_value_is_explained(ask: Ask, tmp_path: Path) -> None:
    write(tmp_path / "g=e=f" / "f.parquet", {"k": [1]})
    with pytest.raises(crossdock.Error, match=r"g=e=f.*g=e%3Df"):
        ask("SELECT * FROM t", tmp_path)


def test_markers_beside_data_are_not_read(ask: Ask, tmp_path: Path) -> None:
    for name in ("a.parquet", "deep/b.parquet"):
        write(tmp_path / name, {"k": [1, 2]})
    write(tmp_path / "_temporary" / "0" / "x.parquet", {"k": [9]})
    for marker in ("_SUCCESS", ".part.crc", "deep/.b.parquet.crc", "notes.txt"):
        (tmp_path / marker).touch()
    (tmp_path / "empty-folder").mkdir()
    assert ask("SELECT count(*), sum(k) FROM t", tmp_path) == [(4, 6)]
    (tmp_path / "zero.parquet").touch()
    with pytest.raises(crossdock.Error, match=r"zero\.parquet is empty"):
        ask("SELECT count(*) FROM t")


# -- many files, large row groups ------------------------------------------------------------------


def test_every_one_of_2345_files_is_read(
    connections: dict[str, Connection], tmp_path: Path
) -> None:
    first = write(tmp_path / "0.parquet", {"k": [1]})
    for number in range(1, 2345):
        shutil.copyfile(first, tmp_path / f"{number}.parquet")
    for connection in connections.values():
        connection.tables.add("t", str(tmp_path))
        with connection.execute("SELECT count(*), sum(k) FROM t") as cursor:
            assert cursor.fetchall() == [(2345, 2345)]


def test_row_group_three_times_the_memory_is_read_by_columns_or_explained(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path / "wide.parquet"
    rows, width = 240_000, 200
    with duckdb.connect(config={"threads": 1}) as duck:
        texts = ", ".join(f"lpad((i * {n})::VARCHAR, {width}, 'x') AS s{n}" for n in range(1, 5))
        duck.execute(
            f"COPY (SELECT i AS k, {texts} FROM range({rows}) AS r(i)) TO '{path}' "
            f"(FORMAT parquet, ROW_GROUP_SIZE {rows * 2})"
        )
    assert pq.read_metadata(path).num_row_groups == 1
    with crossdock.connect(
        home=tmp_path_factory.mktemp("home"),
        tables={"t": path},
        workers=1,
        worker_memory=64 * 1024 * 1024,
        single_task_bytes=0,
    ) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchall() == [(rows,)]
        assert connection.execute("SELECT sum(k) FROM t").fetchall() == [(rows * (rows - 1) // 2,)]
        expected = r"worker_memory \(now 64 MiB\).*wide.parquet.*largest has 240000 rows, 18\d MiB"
        with pytest.raises(crossdock.Error, match=expected):
            connection.execute("SELECT * FROM t LIMIT 1")
