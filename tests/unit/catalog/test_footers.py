"""What footers tell: rows, row groups, bytes, statistics."""

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossdock.catalog import Catalog, ColumnStats, RowGroupMeta


def groups_of(path: Path, table: pa.Table, **options: object) -> tuple[RowGroupMeta, ...]:
    pq.write_table(table, path, **options)
    (file,) = Catalog().add("t", path).files
    assert file.rows == table.num_rows
    assert file.size == path.stat().st_size
    assert file.version == str(path.stat().st_mtime_ns)
    return file.row_groups


def test_row_groups_have_positions_and_bounds(tmp_path: Path) -> None:
    groups = groups_of(tmp_path / "x.parquet", pa.table({"k": range(10)}), row_group_size=4)
    assert [(g.first_row, g.rows) for g in groups] == [(0, 4), (4, 4), (8, 2)]
    assert [g.stats["k"] for g in groups] == [
        ColumnStats(minimum=0, maximum=3, nulls=0),
        ColumnStats(minimum=4, maximum=7, nulls=0),
        ColumnStats(minimum=8, maximum=9, nulls=0),
    ]


@pytest.mark.parametrize(
    ("kind", "values", "low", "high"),
    [
        (pa.int8(), [-3, 5], -3, 5),
        (pa.uint64(), [1, 2**64 - 1], 1, 2**64 - 1),
        (
            pa.decimal128(7, 2),
            [Decimal("-1.10"), Decimal("2.50")],
            Decimal("-1.10"),
            Decimal("2.50"),
        ),
        (pa.date32(), [date(2020, 1, 1), date(1969, 1, 1)], date(1969, 1, 1), date(2020, 1, 1)),
        (pa.string(), ["b", "é"], "b", "é"),
        (
            pa.timestamp("us"),
            [datetime(2020, 1, 1, 2, 3, 4, 5), datetime(1960, 1, 1)],
            datetime(1960, 1, 1),
            datetime(2020, 1, 1, 2, 3, 4, 5),
        ),
        (
            pa.timestamp("ms", "UTC"),
            [0, 1500],
            datetime(1970, 1, 1),
            datetime(1970, 1, 1, 0, 0, 1, 500000),
        ),
    ],
    ids=str,
)
def test_bounds_are_python_values(
    tmp_path: Path, kind: pa.DataType, values: list[object], low: object, high: object
) -> None:
    table = pa.table({"c": pa.array([*values, None], kind)})
    (group,) = groups_of(tmp_path / "x.parquet", table)
    assert group.stats["c"] == ColumnStats(minimum=low, maximum=high, nulls=1)  # type: ignore[arg-type]


def test_nanoseconds_are_rounded_outwards(tmp_path: Path) -> None:
    table = pa.table({"c": pa.array([1500, -1500], pa.timestamp("ns"))})
    (group,) = groups_of(tmp_path / "x.parquet", table)
    assert group.stats["c"].minimum == datetime(1969, 12, 31, 23, 59, 59, 999998)
    assert group.stats["c"].maximum == datetime(1970, 1, 1, 0, 0, 0, 2)


def test_columns_that_must_not_be_pruned_by_have_no_bounds(tmp_path: Path) -> None:
    table = pa.table(
        {
            "float": [1.0, float("nan")],
            "blob": [b"\xff", b"a"],
            "struct": [{"x": 1}, {"x": 2}],
            "list": [[1], [2]],
            "bool": [True, False],
            "far": pa.array([2**62, 0], pa.timestamp("s"))
            .cast(pa.int64())
            .cast(pa.timestamp("us")),
        }
    )
    (group,) = groups_of(tmp_path / "x.parquet", table)
    assert group.stats == {}
    assert set(group.column_bytes) == set(table.column_names)
    assert all(size > 0 for size in group.column_bytes.values())


def test_a_dot_in_a_name_is_no_nesting(tmp_path: Path) -> None:
    table = pa.table({"a.b": [1, 2], "a": [{"b": 3, "c": 4}, {"b": 5, "c": 6}]})
    (group,) = groups_of(tmp_path / "x.parquet", table)
    assert group.stats == {"a.b": ColumnStats(minimum=1, maximum=2, nulls=0)}
    assert set(group.column_bytes) == {"a.b", "a"}


def test_all_null_columns_say_so_and_absent_statistics_say_nothing(tmp_path: Path) -> None:
    table = pa.table({"c": pa.array([None, None], pa.int32())})
    (group,) = groups_of(tmp_path / "x.parquet", table)
    assert group.stats["c"] == ColumnStats(minimum=None, maximum=None, nulls=2)
    (group,) = groups_of(tmp_path / "y.parquet", table, write_statistics=False)
    assert group.stats == {}


def test_files_without_rows_keep_their_schema(tmp_path: Path) -> None:
    schema = pa.schema({"k": pa.int32()})
    with pq.ParquetWriter(tmp_path / "0-no-group.parquet", schema):
        pass
    with pq.ParquetWriter(tmp_path / "1-empty-group.parquet", schema) as writer:
        writer.write_table(schema.empty_table())
    catalog = Catalog()
    meta = catalog.add("empty", tmp_path)
    assert (meta.rows, [c.type for c in meta.columns]) == (0, ["INTEGER"])
    pq.write_table(pa.table({"k": pa.array([1, 2], pa.int32())}), tmp_path / "2-rows.parquet")
    meta = catalog.get("empty")
    assert (meta.rows, len(meta.files), meta.union_by_name) == (2, 3, False)


def test_a_changed_file_is_read_again_and_an_unchanged_one_is_not(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"k": [1]}), tmp_path / "b.parquet")
    catalog = Catalog()
    before = catalog.add("t", tmp_path)
    pq.write_table(pa.table({"k": [1, 2], "new": ["x", "y"]}), tmp_path / "b.parquet")
    after = catalog.get("t")
    assert after.files[0] is before.files[0]
    assert after.rows == 3
    assert [c.name for c in after.columns] == ["k", "new"]
