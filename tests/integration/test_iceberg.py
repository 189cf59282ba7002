"""Iceberg tables, written by pyiceberg: snapshots, evolution, deletes, pruning, refusals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DecimalType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

import crossdock
from crossdock.client.connection import Connection

Ask = Callable[..., list[tuple[Any, ...]]]
FIRST = pa.table(
    {
        "k": pa.array([1, 2, 3], pa.int64()),
        "s": ["a", "b", None],
        "x": [1.5, math.nan, 2.5],
        "p": ["x", "x", "y"],
    }
)


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
def ask(request: pytest.FixtureRequest, connections: dict[str, Connection]) -> Ask:
    """Rows of a query in which ``{}`` stands for a table's metadata file."""

    def asked(sql: str, table: Table | str = "") -> list[tuple[Any, ...]]:
        place = table if isinstance(table, str) else table.metadata_location
        with connections[request.param].execute(sql.replace("{}", place)) as cursor:
            return cursor.fetchall()

    return asked


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog(
        "test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    catalog.create_namespace("n")
    yield catalog
    catalog.close()


@pytest.fixture
def table(warehouse: SqlCatalog) -> Table:
    """Partitioned by p; then a column was renamed and one added; four rows."""
    made = warehouse.create_table("n.t", schema=FIRST.schema)
    with made.update_spec() as spec:
        spec.add_identity("p")
    made.append(FIRST)
    with made.update_schema() as schema:
        schema.rename_column("s", "text")
        schema.add_column("extra", IntegerType())
    later = {"k": [4], "text": ["q"], "x": [0.5], "p": ["x"], "extra": pa.array([9], pa.int32())}
    made.append(pa.table(later))
    return made


def delete_positions(table: Table, name: str, positions: Sequence[int]) -> None:
    """What a merge-on-read writer leaves; pyiceberg itself writes no delete files."""
    (task,) = [each for each in table.scan().plan_files() if name in each.file.file_path]
    path = Path(urlparse(task.file.file_path).path).with_name(f"deletes-{positions[0]}.parquet")
    pq.write_table(
        pa.table(
            {
                "file_path": [task.file.file_path] * len(positions) + ["file:///other.parquet"],
                "pos": pa.array([*positions, 0], pa.int64()),
            }
        ),
        path,
    )
    add_file(table, task.file.partition, path, DataFileContent.POSITION_DELETES, FileFormat.PARQUET)


def add_file(
    table: Table,
    partition: Record,
    path: Path,
    content: DataFileContent,
    file_format: FileFormat,
    equality_ids: list[int] | None = None,
) -> None:
    file = DataFile.from_args(
        content=content,
        file_path=f"file://{path}",
        file_format=file_format,
        partition=partition,
        record_count=1,
        file_size_in_bytes=path.stat().st_size,
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        equality_ids=equality_ids,
        spec_id=table.spec().spec_id,
    )
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(file)


ALL = "SELECT k, text, extra, p FROM iceberg_scan('{}') ORDER BY k"


def test_columns_are_read_by_their_numbers(table: Table, ask: Ask) -> None:
    assert ask(ALL, table) == [
        (1, "a", None, "x"),
        (2, "b", None, "x"),
        (3, None, None, "y"),
        (4, "q", 9, "x"),
    ]
    groups = "SELECT p, count(*), count(text) FROM iceberg_scan('{}') GROUP BY p ORDER BY p"
    assert ask(groups, table) == [("x", 3, 3), ("y", 1, 0)]
    assert ask("SELECT count(*) FROM iceberg_scan('{}')", table) == [(4,)]


def test_a_name_used_again_is_another_column(table: Table, ask: Ask) -> None:
    with table.update_schema() as schema:
        schema.delete_column("text")
    with table.update_schema() as schema:
        schema.add_column("text", LongType())
    table.append(pa.table({"k": [5], "x": [0.0], "p": ["z"], "text": [55]}))
    assert ask("SELECT k, text FROM iceberg_scan('{}') ORDER BY k", table) == [
        (1, None), (2, None), (3, None), (4, None), (5, 55),
    ]  # fmt: skip


def test_types_that_were_widened_are_one_type(warehouse: SqlCatalog, ask: Ask) -> None:
    schema = Schema(NestedField(1, "n", IntegerType()), NestedField(2, "d", DecimalType(5, 2)))
    made = warehouse.create_table("n.w", schema=schema)
    kinds = pa.schema([("n", pa.int32()), ("d", pa.decimal128(5, 2))])
    made.append(pa.Table.from_pylist([{"n": 7, "d": Decimal("1.25")}], kinds))
    with made.update_schema() as change:
        change.update_column("n", LongType())
        change.update_column("d", DecimalType(12, 2))
    kinds = pa.schema([("n", pa.int64()), ("d", pa.decimal128(12, 2))])
    made.append(pa.Table.from_pylist([{"n": 2**40, "d": Decimal("99999999.75")}], kinds))
    assert ask("SELECT n, d, typeof(n), typeof(d) FROM iceberg_scan('{}') ORDER BY n", made) == [
        (7, Decimal("1.25"), "BIGINT", "DECIMAL(12,2)"),
        (2**40, Decimal("99999999.75"), "BIGINT", "DECIMAL(12,2)"),
    ]
    assert ask("SELECT n FROM iceberg_scan('{}') WHERE n < 8", made) == [(7,)]


def test_rows_deleted_by_position_are_gone(table: Table, ask: Ask) -> None:
    first = next(each.file.file_path for each in table.scan(row_filter="k = 2").plan_files())
    delete_positions(table, Path(first).name, [1])
    assert [row[0] for row in ask(ALL, table)] == [1, 3, 4]
    assert ask("SELECT count(*) FROM iceberg_scan('{}')", table) == [(3,)]
    delete_positions(table, Path(first).name, [0])
    assert [row[0] for row in ask(ALL, table)] == [3, 4]
    assert ask("SELECT sum(k) FROM iceberg_scan('{}') WHERE p = 'x'", table) == [(4,)]


def test_positions_hold_in_every_part_of_a_file(
    warehouse: SqlCatalog, connections: dict[str, Connection]
) -> None:
    rows = 20_000
    made = warehouse.create_table("n.big", schema=pa.schema([("k", pa.int64())]))
    made.append(pa.table({"k": range(rows)}))
    gone = [0, 9_999, 10_000, rows - 1]
    delete_positions(made, ".parquet", gone)
    sql = f"SELECT count(*), sum(k), min(k), max(k) FROM iceberg_scan('{made.metadata_location}')"
    connection = connections["distributed"]
    assert connection.explain(sql).stages[0].tasks == 2
    with connection.execute(sql) as cursor:
        left = rows * (rows - 1) // 2 - sum(gone)
        assert cursor.fetchall() == [(rows - 4, left, 1, rows - 2)]


def test_a_snapshot_is_named_or_the_newest(table: Table, ask: Ask) -> None:
    first = table.metadata.snapshots[0].snapshot_id
    sql = f"SELECT count(*) FROM iceberg_scan('{{}}', snapshot_from_id = {first})"
    assert ask(sql, table) == [(3,)]
    before = datetime.fromtimestamp(table.metadata.snapshots[0].timestamp_ms / 1000).astimezone()
    sql = f"SELECT count(*) FROM iceberg_scan('{{}}', snapshot_from_timestamp = '{before}')"
    assert ask(sql, table) == [(3,)]
    old = table.metadata_location
    table.delete("k > 0")
    assert ask("SELECT count(*) FROM iceberg_scan('{}')", old) == [(4,)]
    assert ask("SELECT count(*) FROM iceberg_scan('{}')", table) == [(0,)]


def test_a_folder_is_its_newest_metadata(table: Table, ask: Ask, tmp_path: Path) -> None:
    folder = tmp_path / "warehouse" / "n" / "t"
    assert ask(f"SELECT count(*) FROM iceberg_scan('{folder}')") == [(4,)]


def test_a_named_table_is_read_as_it_is_now(
    table: Table, connections: dict[str, Connection], tmp_path: Path
) -> None:
    connection = connections["one task"]
    connection.tables.add("ice", tmp_path / "warehouse" / "n" / "t", format="iceberg")
    with connection.execute("SELECT count(*) FROM ice") as cursor:
        assert cursor.fetchall() == [(4,)]
    table.append(pa.table({"k": [8], "x": [0.0], "p": ["z"]}))
    with connection.execute("SELECT count(*), max(k) FROM ice") as cursor:
        assert cursor.fetchall() == [(5, 8)]


def test_an_empty_table_has_columns(warehouse: SqlCatalog, ask: Ask) -> None:
    made = warehouse.create_table("n.e", schema=FIRST.schema)
    assert ask("SELECT * FROM iceberg_scan('{}')", made) == []
    assert ask("SELECT count(*), max(k) FROM iceberg_scan('{}')", made) == [(0, None)]


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("p = 'y'", 1),
        ("k = 4", 1),
        ("k > 100", 0),
        ("k IN (3, 4)", 2),
        ("extra = 9", 3),  # the older files tell nothing of a column they do not have
        ("text IS NULL", 1),
        ("x > 100", 3),
        ("true", 3),
    ],
)
def test_files_are_ruled_out_by_bounds_and_partitions(
    table: Table, connections: dict[str, Connection], where: str, files: int
) -> None:
    sql = f"SELECT count(*) FROM iceberg_scan('{table.metadata_location}') WHERE {where}"
    plan = connections["distributed"].explain(sql)
    read = {
        piece.path
        for stage in plan.stages
        for scan in stage.scans
        for split in scan.splits
        for piece in split
    }
    assert len(read) == files


def test_nan_outside_the_bounds_is_found(table: Table, ask: Ask) -> None:
    assert ask("SELECT k FROM iceberg_scan('{}') WHERE x > 100", table) == [(2,)]
    assert ask("SELECT isnan(max(x)) FROM iceberg_scan('{}')", table) == [(True,)]


def test_nested_columns_and_exact_types(warehouse: SqlCatalog, ask: Ask) -> None:
    inner = StructType(NestedField(5, "a", IntegerType()), NestedField(6, "b", StringType()))
    schema = Schema(
        NestedField(1, "l", ListType(element_id=4, element_type=inner)),
        NestedField(2, "u", UUIDType()),
        NestedField(3, "d", LongType()),
    )
    made = warehouse.create_table("n.nested", schema=schema)
    rows = [{"l": [{"a": 1, "b": "x"}, {"a": None, "b": None}], "u": b"\x01" * 16, "d": 1}]
    made.append(pa.Table.from_pylist(rows, made.schema().as_arrow()))
    assert ask("SELECT l[1].a, len(l), u::VARCHAR, typeof(l) FROM iceberg_scan('{}')", made) == [
        (1, 2, "01010101-0101-0101-0101-010101010101", "STRUCT(a INTEGER, b VARCHAR)[]")
    ]


def test_dates_and_moments_prune_in_their_own_order(warehouse: SqlCatalog, ask: Ask) -> None:
    kinds = pa.schema([("d", pa.date32()), ("t", pa.timestamp("us"))])
    made = warehouse.create_table("n.times", schema=kinds)
    for day in (1, 20):
        row = {"d": date(1969, 12, day), "t": datetime(1969, 12, day, 23, 59, 59, 999999)}
        made.append(pa.Table.from_pylist([row], kinds))
    for where in ("d < '1969-12-02'", "t < '1969-12-02'", "d = '1969-12-01'"):
        assert ask(f"SELECT day(d) FROM iceberg_scan('{{}}') WHERE {where}", made) == [(1,)]


def test_a_renamed_field_inside_a_column_is_refused(warehouse: SqlCatalog, ask: Ask) -> None:
    kinds = pa.schema([("s", pa.struct([("a", pa.int32())]))])
    made = warehouse.create_table("n.s", schema=kinds)
    made.append(pa.Table.from_pylist([{"s": {"a": 1}}], kinds))
    with made.update_schema() as change:
        change.rename_column("s.a", "b")
    with pytest.raises(crossdock.Error, match=r"inside its column"):
        ask("SELECT * FROM iceberg_scan('{}')", made)


@pytest.mark.parametrize(
    ("content", "file_format", "ids", "said"),
    [
        (DataFileContent.EQUALITY_DELETES, FileFormat.PARQUET, [1], "equality deletes"),
        (DataFileContent.DATA, FileFormat.ORC, None, "ORC files"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(
    table: Table,
    ask: Ask,
    tmp_path: Path,
    content: DataFileContent,
    file_format: FileFormat,
    ids: list[int] | None,
    said: str,
) -> None:
    (tmp_path / "odd").write_bytes(b"x")
    add_file(table, Record("x"), tmp_path / "odd", content, file_format, ids)
    with pytest.raises(crossdock.Error, match=said):
        ask("SELECT * FROM iceberg_scan('{}')", table)


def test_a_file_added_without_field_ids_is_refused_and_not_read_as_null(
    warehouse: SqlCatalog, ask: Ask, tmp_path: Path
) -> None:
    made = warehouse.create_table("n.added", schema=pa.schema([("k", pa.int64())]))
    pq.write_table(pa.table({"k": [1]}), tmp_path / "bare.parquet")
    made.add_files([f"file://{tmp_path}/bare.parquet"])
    with pytest.raises(crossdock.Error, match=r"bare\.parquet has no field ids"):
        ask("SELECT k FROM iceberg_scan('{}')", made)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("FROM iceberg_scan('/none')", "/none is no Iceberg table"),
        ("FROM iceberg_scan('/none/x.metadata.json')", "cannot read /none/x.metadata.json"),
        ("FROM iceberg_scan('{}', snapshot_from_id = 1)", "there is no snapshot 1"),
        ("FROM iceberg_scan('{}', snapshot_from_timestamp = 'then')", "no date and time"),
        ("FROM iceberg_scan('{}', snapshot_from_timestamp = '1999-01-01')", "no snapshot at"),
        ("FROM iceberg_scan('{}', mode = 'x')", "option mode is not supported"),
    ],
)
def test_wrong_references_are_explained(table: Table, ask: Ask, sql: str, said: str) -> None:
    with pytest.raises(crossdock.Error, match=said):
        ask(sql, table)


def test_a_data_file_that_is_gone_is_named(table: Table, ask: Ask) -> None:
    path = next(iter(table.scan().plan_files())).file.file_path
    Path(urlparse(path).path).unlink()
    with pytest.raises(crossdock.Error, match=Path(path).name):
        ask("SELECT * FROM iceberg_scan('{}')", table)
