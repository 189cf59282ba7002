"""Columns of tables whose files differ, and of partition folders."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossdock.catalog import Catalog, ReadOptions, TableMeta
from crossdock.errors import TableError


def write(path: Path, table: pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


def columns(meta: TableMeta) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in meta.columns]


@pytest.fixture
def differing(tmp_path: Path) -> list[Path]:
    return [
        write(tmp_path / "f1.parquet", pa.table({"id": pa.array([1, 2], pa.int32())})),
        write(
            tmp_path / "f2.parquet",
            pa.table({"c": ["x"], "id": pa.array([5_000_000_000], pa.int64())}),
        ),
    ]


def test_an_added_and_a_widened_column_are_seen_in_either_order(differing: list[Path]) -> None:
    meta = Catalog().add("t", differing)
    assert meta.union_by_name
    assert columns(meta) == [("id", "BIGINT"), ("c", "VARCHAR")]
    assert columns(Catalog().add("t", differing[::-1])) == [("c", "VARCHAR"), ("id", "BIGINT")]


def test_a_struct_that_gained_a_field_has_it(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", pa.table({"s": [{"a": 1}]}))
    write(tmp_path / "2.parquet", pa.table({"s": [{"a": 2, "b": "q"}]}))
    assert columns(Catalog().add("t", tmp_path)) == [("s", "STRUCT(a BIGINT, b VARCHAR)")]


def test_partition_folders_are_typed_columns(tmp_path: Path) -> None:
    for day, code in (("2024-01-01", "1"), ("2024-01-02", "20")):
        write(tmp_path / f"day={day}" / f"code={code}" / "x.parquet", pa.table({"k": [1]}))
    meta = Catalog().add("t", tmp_path)
    assert dict(meta.hive_types) == {"day": "DATE", "code": "BIGINT"}
    assert dict(columns(meta)) == {"k": "BIGINT", "day": "DATE", "code": "BIGINT"}


def test_encoded_partition_values_are_text(tmp_path: Path) -> None:
    for value in ("a%2Fb", "c%20d", "100%25", "e%3Df", "0012", "__HIVE_DEFAULT_PARTITION__"):
        write(tmp_path / f"g={value}" / "x.parquet", pa.table({"k": [1]}))
    assert Catalog().add("t", tmp_path).hive_types == (("g", "VARCHAR"),)


def test_a_raw_equals_sign_in_a_partition_value_is_named(tmp_path: Path) -> None:
    write(tmp_path / "g=ok" / "x.parquet", pa.table({"k": [1]}))
    write(tmp_path / "g=e=f" / "x.parquet", pa.table({"k": [2]}))
    with pytest.raises(TableError, match=r"the folder g=e=f .* must be written g=e%3Df"):
        Catalog().add("t", tmp_path)


def test_folders_that_not_all_files_have_are_no_columns(tmp_path: Path) -> None:
    write(tmp_path / "g=1" / "x.parquet", pa.table({"k": [1]}))
    write(tmp_path / "x.parquet", pa.table({"k": [2]}))
    meta = Catalog().add("t", tmp_path)
    assert (meta.hive_types, columns(meta)) == ((), [("k", "BIGINT")])


def test_a_partition_key_hides_the_files_own_column_and_its_statistics(tmp_path: Path) -> None:
    write(tmp_path / "k=9" / "x.parquet", pa.table({"k": [1], "v": [2]}))
    meta = Catalog().add("t", tmp_path)
    stats = meta.files[0].row_groups[0].stats
    assert set(stats) == {"k", "v"}
    assert (stats["k"].minimum, stats["k"].maximum, stats["k"].nulls) == (9, 9, 0)


def test_partition_folders_can_be_switched_off(tmp_path: Path) -> None:
    path = write(tmp_path / "g=1" / "x.parquet", pa.table({"k": [1]}))
    off = Catalog().read("t", [str(path)], ReadOptions(hive_partitioning=False))
    assert columns(off) == [("k", "BIGINT")]


def test_columns_are_those_duckdb_describes(tmp_path: Path) -> None:
    path = tmp_path / "all.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            f"""COPY (SELECT 1::UTINYINT a, 1.5::DECIMAL(20, 3) b, 'x'::BLOB c, [1] d,
            {{'p q': 1}} e, MAP {{'k': 1}} f, TIMESTAMPTZ '2020-01-01' g, TIME '01:00' h,
            uuid() i, 1::HUGEINT j, TIMESTAMP_NS '2020-01-01' k, '{{}}'::JSON l)
            TO '{path}' (FORMAT parquet)"""
        )
        wanted = connection.execute(f"DESCRIBE FROM '{path}'").fetchall()
    assert columns(Catalog().add("t", path)) == [(name, kind) for name, kind, *_ in wanted]
