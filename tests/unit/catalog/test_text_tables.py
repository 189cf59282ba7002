"""What is known of CSV and JSON tables before a query: columns, estimates, pinned options."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from crossdock.catalog import Catalog, ReadOptions
from crossdock.errors import TableError
from crossdock.formats import Format, compression_of, format_of
from crossdock.remote_files import SCHEME
from tests.remote_folder import FolderFiles


@pytest.mark.parametrize(
    ("name", "kind", "compression"),
    [
        ("a.parquet", Format.PARQUET, "none"),
        ("A.CSV", Format.CSV, "none"),
        ("a.tsv.gz", Format.CSV, "gzip"),
        ("a.b.ndjson.zst", Format.JSON, "zstd"),
        ("a.parquet.gz", None, "gzip"),
        ("csv", None, "none"),
    ],
)
def test_a_name_tells_its_format(name: str, kind: Format | None, compression: str) -> None:
    assert format_of(name) is kind
    assert compression_of(name) == compression


def test_rows_are_estimated_and_a_file_is_one_group(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,v\n" + "12345,abcdef\n" * 50_000)
    (tmp_path / "b.csv").write_bytes(b"")
    table = Catalog().add("t", tmp_path / "*.csv")
    full, empty = table.files
    assert 45_000 < full.rows < 55_000
    assert len(full.row_groups) == 1
    assert (empty.rows, empty.row_groups) == (0, ())
    assert not table.is_counted


def test_what_duckdb_found_is_pinned_for_each_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k;d\n1;31/12/2020\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"d,k\n01/02/2021,2\n"))
    (tmp_path / "c.csv").write_text("k;d\n3;30/12/2020\n")
    table = Catalog().read("t", [str(tmp_path / "*.csv*")])
    assert [(c.name, c.type) for c in table.columns] == [("k", "BIGINT"), ("d", "DATE")]
    assert [file.reader for file in table.files] == [0, 1, 0]
    first, second = (dict(reader.options) for reader in table.readers)
    assert (first["delim"], first["dateformat"], first["compression"]) == (
        "';'",
        "'%d/%m/%Y'",
        "'none'",
    )
    assert (second["delim"], second["compression"]) == ("','", "'gzip'")
    assert [reader.names for reader in table.readers] == [("k", "d"), ("d", "k")]


def test_an_unchanged_table_is_not_looked_at_again(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": 1}\n')
    catalog = Catalog()
    first = catalog.read("t", [str(path)])
    assert catalog.read("t", [str(path)]) is first
    path.write_text('{"a": 1, "b": "x"}\n')
    assert [c.name for c in catalog.read("t", [str(path)]).columns] == ["a", "b"]


def test_of_a_long_remote_text_only_the_beginning_is_read(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    size = (tmp_path / "bucket" / "a.csv").write_text("k,v\n" + "1,abc\n" * 2_000_000)
    remote = FolderFiles(tmp_path)
    table = Catalog(remote=remote).read("t", [f"{SCHEME}bucket/a.csv"])
    assert [c.type for c in table.columns] == ["BIGINT", "VARCHAR"]
    assert remote.read_bytes < size / 2
    assert 1_900_000 < table.rows < 2_100_000


def test_an_array_of_json_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    items = ", ".join(f'{{"a": {n}, "b": "{"x" * 40}"}}' for n in range(100_000))
    (tmp_path / "bucket" / "a.json").write_text(f"[{items}]")
    table = Catalog(remote=FolderFiles(tmp_path)).read("t", [f"{SCHEME}bucket/a.json"])
    assert [c.type for c in table.columns] == ["BIGINT", "VARCHAR"]


def test_a_remote_text_that_is_not_compressed_as_named_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "a.csv.gz").write_text("k,v\n1,2\n")
    with pytest.raises(TableError, match=r"s3://bucket/a\.csv\.gz cannot be read as gzip"):
        Catalog(remote=FolderFiles(tmp_path)).read("t", [f"{SCHEME}bucket/a.csv.gz"])


@pytest.mark.parametrize(
    ("format", "options", "said"),
    [
        ("csv", {"delimm": ";"}, "option 'delimm' of CSV is not known: did you mean 'delim"),
        ("orc", {}, "format 'orc' is not known; these are: parquet, csv, json, iceberg"),
        ("parquet", {"delim": ";"}, "Parquet files take none"),
        ("csv", {"delim": object()}, "object is no value"),
        (None, {"header": True}, "Parquet files take none"),
    ],
)
def test_unknown_formats_and_options_are_refused_with_the_nearest(
    tmp_path: Path, format: str | None, options: dict[str, object], said: str
) -> None:
    (tmp_path / "a").write_text("k\n1\n")
    with pytest.raises(TableError, match=said):
        Catalog().add("t", tmp_path / "a", format=format, options=options)


def test_format_and_options_outlive_the_catalog(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1|x\n2|it's\n")
    Catalog(tmp_path).add(
        "t",
        tmp_path / "a.txt",
        persistent=True,
        format="csv",
        options={"sep": "|", "columns": {"k": "SMALLINT", "v": "VARCHAR"}, "header": False},
    )
    again = Catalog(tmp_path).get("t")
    assert [(c.name, c.type) for c in again.columns] == [("k", "SMALLINT"), ("v", "VARCHAR")]
    assert dict(again.readers[0].options)["delim"] == "'|'"


def test_partition_folders_of_texts_rule_files_out(tmp_path: Path) -> None:
    for key in ("2024", "2025", "__HIVE_DEFAULT_PARTITION__"):
        folder = tmp_path / f"year={key}"
        folder.mkdir()
        (folder / "a.csv").write_text("k\n1\n")
    table = Catalog().add("t", tmp_path / "*" / "*.csv")
    assert table.hive_types == (("year", "BIGINT"),)
    bounds = [file.row_groups[0].stats["year"] for file in table.files]
    assert [(each.minimum, each.nulls) for each in bounds] == [
        (2024, 0),
        (2025, 0),
        (None, table.files[2].rows),
    ]


def test_hive_partitions_of_texts_can_be_switched_off(tmp_path: Path) -> None:
    folder = tmp_path / "year=2024"
    folder.mkdir()
    (folder / "a.csv").write_text("k\n1\n")
    table = Catalog().read("t", [str(folder)], ReadOptions(format=Format.CSV))
    assert [c.name for c in table.columns] == ["k", "year"]
    off = ReadOptions(format=Format.CSV, hive_partitioning=False)
    assert [c.name for c in Catalog().read("t", [str(folder)], off).columns] == ["k"]
