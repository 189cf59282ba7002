"""Users' files on S3: found whatever the listing's pages, read in one version or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto import mock_aws

from crossdock.catalog import Catalog
from crossdock.errors import (
    ObjectChanged,
    ObjectNotFound,
    PlatformUnavailable,
    TableError,
)
from crossdock.platform.aws import table_files
from crossdock.platform.aws.clients import client_config
from crossdock.platform.aws.table_files import S3TableFiles, requests
from crossdock.platform.meter import CountingMeter, Kind
from crossdock.remote_files import Range

MIB = 1024 * 1024
URL = "s3://data/key"


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        made = boto3.client("s3", region_name="us-east-1", config=client_config())
        made.create_bucket(Bucket="data")
        yield made


@pytest.fixture
def meter() -> CountingMeter:
    return CountingMeter()


@pytest.fixture
def files(client: Any, meter: CountingMeter) -> S3TableFiles:
    return S3TableFiles(client, meter=meter, page_size=2, sleep=lambda seconds: None)


@pytest.fixture
def catalog(files: S3TableFiles) -> Catalog:
    return Catalog(remote=files, local=False)


def put(client: Any, key: str, body: bytes = b"") -> None:
    client.put_object(Bucket="data", Key=key, Body=body)


def parquet(**columns: list[object]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


# -- bytes -------------------------------------------------------------------------------------
def test_ranges_lie_at_their_own_places(client: Any, files: S3TableFiles, tmp_path: Path) -> None:
    body = bytes(range(256)) * 8192
    put(client, "key", body)
    target = tmp_path / "sparse"
    target.touch()
    files.fetch(files.look(URL), [Range(10, 20), Range(MIB, MIB + 3)], target)
    data = target.read_bytes()
    assert (data[10:20], data[MIB : MIB + 3]) == (body[10:20], body[MIB : MIB + 3])


def test_the_file_around_the_ranges_is_left_alone(
    client: Any, files: S3TableFiles, tmp_path: Path
) -> None:
    put(client, "key", b"x" * 100)
    target = tmp_path / "sparse"
    target.write_bytes(b"." * 100)
    files.fetch(files.look(URL), [Range(3, 5)], target)
    assert target.read_bytes() == b"..." + b"xx" + b"." * 95


@pytest.mark.parametrize("body", [b"y" * 100, b"x" * 300, b"x" * 10])
def test_an_object_written_again_is_not_read_as_the_one_that_was_seen(
    client: Any, files: S3TableFiles, tmp_path: Path, body: bytes
) -> None:
    put(client, "key", b"x" * 100)
    seen = files.look(URL)
    put(client, "key", body)
    with pytest.raises(ObjectChanged, match=URL):
        files.read(seen, Range(50, 60))
    with pytest.raises(ObjectChanged, match=URL):
        files.fetch(seen, [Range(0, 10), Range(90, 100)], tmp_path / "sparse")


def test_an_object_deleted_since_is_told_from_a_changed_one(
    client: Any, files: S3TableFiles
) -> None:
    put(client, "key", b"x" * 100)
    seen = files.look(URL)
    client.delete_object(Bucket="data", Key="key")
    with pytest.raises(ObjectNotFound, match=URL):
        files.read(seen, Range(0, 10))
    with pytest.raises(ObjectNotFound):
        files.look(URL)


def test_a_body_that_breaks_off_is_asked_for_again(
    client: Any, files: S3TableFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(client, "key", b"0123456789")
    seen = files.look(URL)
    real, cuts = S3TableFiles._stream, [3, 0]

    def cut(self: S3TableFiles, file: Any, wanted: Range) -> Iterator[bytes]:
        data = b"".join(real(self, file, wanted))
        yield data[: cuts.pop()] if cuts else data

    monkeypatch.setattr(S3TableFiles, "_stream", cut)
    assert files.read(seen, Range(2, 8)) == b"234567"
    cuts[:] = [1] * 10
    with pytest.raises(PlatformUnavailable, match="ended after 1 bytes"):
        files.read(seen, Range(2, 8))


def test_neighbours_are_asked_for_together_and_long_ranges_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_files, "GAP_BYTES", 10)
    monkeypatch.setattr(table_files, "REQUEST_BYTES", 100)
    wanted = [Range(0, 10), Range(20, 30), Range(41, 50), Range(1000, 1250)]
    assert requests(wanted) == [
        Range(0, 30),
        Range(41, 50),
        Range(1000, 1100),
        Range(1100, 1200),
        Range(1200, 1250),
    ]


def test_every_request_is_counted(
    client: Any, files: S3TableFiles, meter: CountingMeter, tmp_path: Path
) -> None:
    put(client, "key", b"x" * 100)
    files.fetch(files.look(URL), [Range(0, 1), Range(50, 60)], tmp_path / "sparse")
    files.list("s3://data/")
    assert meter.usage() == {Kind.OBJECT_GET: 2, Kind.OBJECT_LIST: 1}


# -- names -------------------------------------------------------------------------------------
def rows(catalog: Catalog, *sources: str) -> int:
    return catalog.read("t", sources).rows


def test_every_page_of_a_listing_is_read(client: Any, catalog: Catalog) -> None:
    body = parquet(k=[1])
    for number in range(25):
        put(client, f"many/{number}.parquet", body)
    assert rows(catalog, "s3://data/many/") == 25
    assert rows(catalog, "s3://data/many") == 25
    assert rows(catalog, "s3://data/many/1?.parquet") == 10


def test_markers_are_no_data(client: Any, catalog: Catalog) -> None:
    for key in ("t/a.parquet", "t/deep/b.parquet"):
        put(client, key, parquet(k=[1]))
    for key in ("t/_SUCCESS", "t/", "t/.part.crc", "t/deep/", "t/notes.txt"):
        put(client, key)
    put(client, "t/_temporary/0/x.parquet", parquet(other=[1]))
    assert rows(catalog, "s3://data/t") == 2
    assert rows(catalog, "s3://data/t/**/*.parquet") == 2
    assert rows(catalog, "s3://data/t/*.parquet") == 1


def test_an_empty_object_with_a_table_s_name_is_an_error_that_names_it(
    client: Any, catalog: Catalog
) -> None:
    put(client, "t/a.parquet", parquet(k=[1]))
    put(client, "t/none.parquet")
    with pytest.raises(TableError, match=r"s3://data/t/none\.parquet is empty"):
        rows(catalog, "s3://data/t")


def test_a_prefix_is_a_folder_and_no_beginning_of_a_name(client: Any, catalog: Catalog) -> None:
    put(client, "events/a.parquet", parquet(k=[1]))
    put(client, "events_old/a.parquet", parquet(k=[1]))
    assert rows(catalog, "s3://data/events") == 1


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("s3://data/missing", "s3://data/missing does not exist"),
        ("s3://data/t/*.csv", r"no file matches s3://data/t/\*\.csv"),
        ("s3://nobody/t", "NoSuchBucket"),
        ("s3:///t", "the name of a bucket must follow"),
        ("/etc/passwd", "named s3://bucket/key"),
        ("https://example.com/t.parquet", "named s3://bucket/key"),
    ],
)
def test_what_cannot_be_found_is_named(
    client: Any, catalog: Catalog, source: str, words: str
) -> None:
    with pytest.raises(TableError, match=words):
        rows(catalog, source)


@pytest.mark.parametrize("body", [b"not parquet at all", b"PAR1", b"\xff\xff\xff\x7fPAR1", b"ab"])
def test_an_object_that_is_no_parquet_file_is_named(
    client: Any, catalog: Catalog, body: bytes
) -> None:
    put(client, "t.parquet", body)
    with pytest.raises(TableError, match=r"s3://data/t\.parquet is not a readable Parquet file"):
        rows(catalog, "s3://data/t.parquet")


def test_a_footer_longer_than_the_first_read_is_read_whole(client: Any, catalog: Catalog) -> None:
    wide = parquet(**{f"a column with a long name {number:>60}": [1] for number in range(900)})
    put(client, "wide.parquet", wide)
    assert len(catalog.read("t", ["s3://data/wide.parquet"]).columns) == 900


def test_columns_types_and_statistics_are_those_of_a_local_file(
    client: Any, catalog: Catalog, tmp_path: Path
) -> None:
    path = tmp_path / "t.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT i AS k, i::DECIMAL(9, 2) AS d, {'a': i} AS s, DATE '2020-01-01' AS day "
            f"FROM range(1000) r(i)) TO '{path}' (FORMAT parquet)"
        )
    put(client, "t.parquet", path.read_bytes())
    here, there = Catalog().read("t", [str(path)]), catalog.read("t", ["s3://data/t.parquet"])
    assert there.columns == here.columns
    assert there.files[0].row_groups == here.files[0].row_groups


def test_partition_folders_give_columns(client: Any, catalog: Catalog) -> None:
    for number, folder in enumerate(("g=a%2Fb", "g=c d", "g=__HIVE_DEFAULT_PARTITION__")):
        put(client, f"p/{folder}/f.parquet", parquet(k=[number]))
    meta = catalog.read("t", ["s3://data/p"])
    assert [(c.name, c.type) for c in meta.columns] == [("k", "BIGINT"), ("g", "VARCHAR")]
    assert meta.hive_types == (("g", "VARCHAR"),)


def test_schemas_that_differ_are_united(client: Any, catalog: Catalog) -> None:
    put(client, "u/1.parquet", parquet(k=[1]))
    put(client, "u/2.parquet", parquet(c=["x"], k=[2]))
    meta = catalog.read("t", ["s3://data/u"])
    assert meta.union_by_name
    assert {c.name for c in meta.columns} == {"k", "c"}


def test_a_schema_that_cannot_be_read_names_the_object_and_no_local_path(
    client: Any, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(paths: list[str], *_: object, **__: object) -> None:
        raise TableError(f"cannot read the schema of {paths[0]}: odd")

    monkeypatch.setattr("crossdock.catalog.catalog.read_schema", refuse)
    put(client, "t.parquet", parquet(k=[1]))
    with pytest.raises(TableError, match=r"^cannot read the schema of s3://data/t\.parquet: odd$"):
        catalog.read("t", ["s3://data/t.parquet"])


def test_a_replaced_object_s_footer_is_read_again(client: Any, catalog: Catalog) -> None:
    put(client, "t.parquet", parquet(k=[1]))
    assert rows(catalog, "s3://data/t.parquet") == 1
    put(client, "t.parquet", parquet(k=[1, 2]))
    assert rows(catalog, "s3://data/t.parquet") == 2
