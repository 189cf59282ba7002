"""Arrow tables become Parquet files, or are refused by column and type."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from crossdock.catalog import Catalog
from crossdock.errors import TableError


def test_rows_and_types_are_kept(tmp_path: Path) -> None:
    arrow = pa.table(
        {
            "u": pa.array([1, 2**64 - 1], pa.uint64()),
            "d": pa.array([1, None], pa.decimal128(38, 5)),
            "ns": pa.array([1, 2], pa.timestamp("ns")),
            "tz": pa.array([1, 2], pa.timestamp("us", "Asia/Tokyo")),
            "text": pa.array(["a", "b"], pa.large_string()),
            "view": pa.array(["a", "b"], pa.string_view()),
            "dictionary": pa.array(["a", "b"]).dictionary_encode(),
            "nested": [[{"x": 1}], []],
        }
    )
    meta = Catalog(scratch=tmp_path / "scratch").add("t", arrow)
    with duckdb.connect() as connection:
        wanted = connection.execute("DESCRIBE SELECT * FROM arrow").fetchall()
        (file,) = meta.files
        rows = connection.execute(f"FROM '{file.path}'").fetchall()
        assert rows == connection.execute("SELECT * FROM arrow").fetchall()
    assert [(c.name, c.type) for c in meta.columns] == [(name, kind) for name, kind, *_ in wanted]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([1], pa.duration("us")), "INTERVAL"),
        (pa.array([[1, 2]], pa.list_(pa.int32(), 2)), r"INTEGER\[2\]"),
        (pa.array([1], pa.timestamp("s")), "TIMESTAMP_S"),
    ],
    ids=["duration", "fixed-size list", "seconds"],
)
def test_a_type_that_parquet_changes_is_refused_by_name(
    tmp_path: Path, column: pa.Array, kind: str
) -> None:
    with pytest.raises(TableError, match=f"table t, column odd: cannot keep type {kind}"):
        Catalog(scratch=tmp_path).add("t", pa.table({"fine": [1], "odd": column}))
    assert list(tmp_path.iterdir()) == []


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.table([[1], [2]], names=["a", "A"])
    with pytest.raises(TableError, match="two columns named A"):
        Catalog(scratch=tmp_path).add("t", table)


def test_a_temporary_folder_ends_with_the_catalog() -> None:
    catalog = Catalog()
    (file,) = catalog.add("t", pa.table({"a": [1]})).files
    assert Path(file.path).exists()
    catalog.close()
    assert not Path(file.path).parent.exists()


def test_an_arrow_table_cannot_outlive_its_connection(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="ends with its connection"):
        Catalog(tmp_path).add("t", pa.table({"a": [1]}), persistent=True)
