"""The local platform over tables on S3: the same rows as from the same files on disk."""

from __future__ import annotations

import gzip
import json
import os
import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import crossdock
from crossdock.errors import QueryFailed, TableError
from crossdock.platform.aws.clients import make_s3_client
from tests.datasets import benchmark_queries
from tests.oracle import ask, assert_same, of_cursor

pytestmark = pytest.mark.emulator

LAYOUTS = {"one task": None, "distributed": 0}


@pytest.fixture
def s3(emulator: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    # Where the SDK looks, in this process and in the workers it starts.
    monkeypatch.setenv("AWS_ENDPOINT_URL", emulator)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return make_s3_client()


@pytest.fixture
def bucket(s3: Any) -> str:
    name = f"tables-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture(params=list(LAYOUTS))
def connection(
    request: pytest.FixtureRequest, s3: Any, tmp_path: Path
) -> Iterator[crossdock.Connection]:
    single = LAYOUTS[request.param]
    options: dict[str, object] = {} if single is None else {"single_task_bytes": single}
    with crossdock.connect(
        home=tmp_path / "home", workers=2, broadcast_bytes=0, timezone="UTC", **options
    ) as made:
        yield made


def upload(s3: Any, bucket: str, key: str, table: pa.Table, **options: Any) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    s3.put_object(Bucket=bucket, Key=key, Body=sink.getvalue().to_pybytes())


@pytest.mark.parametrize("number", ["1", "3", "6"])
def test_a_query_gives_the_rows_of_the_same_files_on_disk(
    s3: Any, bucket: str, connection: crossdock.Connection, tpch_tiny: Path, number: str
) -> None:
    names = ("customer", "lineitem", "orders")
    for name in names:
        s3.upload_file(str(tpch_tiny / f"{name}.parquet"), bucket, f"tpch/{name}.parquet")
        connection.tables.add(name, f"s3://{bucket}/tpch/{name}.parquet")
    sql = dict(benchmark_queries("tpch"))[number]
    expected = ask(sql, {name: [tpch_tiny / f"{name}.parquet"] for name in names})
    assert_same(of_cursor(connection.execute(sql)), expected, ordered=True)


def test_a_statement_may_name_files_itself_and_folders_give_columns(
    s3: Any, bucket: str, connection: crossdock.Connection
) -> None:
    for key in ("g=a%2Fb", "g=c d"):
        upload(s3, bucket, f"p/{key}/1.parquet", pa.table({"k": [1, 2]}))
    s3.put_object(Bucket=bucket, Key="p/_SUCCESS", Body=b"")
    sql = f"SELECT g, sum(k) FROM 's3://{bucket}/p/**/*.parquet' GROUP BY g ORDER BY g"
    assert connection.execute(sql).fetchall() == [("a/b", 3), ("c d", 3)]


def test_partition_values_in_keys_are_decoded_once(
    s3: Any, bucket: str, connection: crossdock.Connection
) -> None:
    values = ("a%2Fb", "c%20d", "100%25", "e%3Df", "0012", "%252F", "__HIVE_DEFAULT_PARTITION__")
    for k, value in enumerate(values, start=1):
        upload(s3, bucket, f"p/g={value}/f.parquet", pa.table({"k": [k]}))
    connection.tables.add("t", f"s3://{bucket}/p/")
    decoded = [("a/b", 1), ("c d", 2), ("100%", 3), ("e=f", 4), ("0012", 5), ("%2F", 6), (None, 7)]
    assert connection.execute("SELECT g, k FROM t ORDER BY k").fetchall() == decoded
    for value, k in decoded[:-1]:
        assert connection.execute(f"SELECT k FROM t WHERE g = '{value}'").fetchall() == [(k,)]
    assert connection.execute("SELECT k FROM t WHERE g IS NULL").fetchall() == [(7,)]
    upload(s3, bucket, "raw/g=e=f/f.parquet", pa.table({"k": [1]}))
    with pytest.raises(TableError, match=r"g=e=f.*g=e%3Df"):
        connection.execute(f"SELECT * FROM 's3://{bucket}/raw/**/*.parquet'")


def test_markers_beside_data_are_not_read(
    s3: Any, bucket: str, connection: crossdock.Connection
) -> None:
    for key in ("t/a.parquet", "t/deep/b.parquet"):
        upload(s3, bucket, key, pa.table({"k": [1, 2]}))
    upload(s3, bucket, "t/_temporary/0/x.parquet", pa.table({"k": [9]}))
    for key in (
        "t/",
        "t/deep/",
        "t/_SUCCESS",
        "t/.part.crc",
        "t/deep/.b.parquet.crc",
        "t/notes.txt",
    ):
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    connection.tables.add("t", f"s3://{bucket}/t/")
    assert connection.execute("SELECT count(*), sum(k) FROM t").fetchall() == [(4, 6)]
    s3.put_object(Bucket=bucket, Key="t/zero.parquet", Body=b"")
    with pytest.raises(TableError, match=rf"s3://{bucket}/t/zero\.parquet is empty"):
        connection.execute("SELECT count(*) FROM t")


@pytest.mark.slow
def test_every_one_of_2345_objects_is_read(s3: Any, bucket: str, tmp_path: Path) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"k": [1]}), sink)
    body = sink.getvalue().to_pybytes()
    with ThreadPoolExecutor(16) as pool:
        list(
            pool.map(
                lambda n: s3.put_object(Bucket=bucket, Key=f"t/{n}.parquet", Body=body), range(2345)
            )
        )
    with crossdock.connect(
        home=tmp_path / "home", workers=2, single_task_bytes=0, tables={"t": f"s3://{bucket}/t"}
    ) as connection:
        assert connection.execute("SELECT count(*), sum(k) FROM t").fetchall() == [(2345, 2345)]


def test_texts_are_read_as_on_disk(
    s3: Any, bucket: str, connection: crossdock.Connection, tmp_path: Path
) -> None:
    lines = "".join(f"{n},{'x' * 60}{n % 7}\n" for n in range(90_000))
    values = "".join(json.dumps({"a": n, "b": {"c": f"v{n % 5}"}}) + "\n" for n in range(2_000))
    files = {
        "g=a%2Fb/1.csv": f"n,s\n{lines}".encode(),  # longer than what is looked at
        "g=c/2.csv.gz": gzip.compress(f"s;n\n{'z' * 9};-1\n".encode()),
        "j/1.jsonl": values.encode(),
        "j/2.json.gz": gzip.compress(b'[{"a": 7, "b": null}, {"a": 8.5}]'),
    }
    for key, body in files.items():
        s3.put_object(Bucket=bucket, Key=f"t/{key}", Body=body)
        (tmp_path / "t" / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / key).write_bytes(body)
    for sql in (
        "SELECT g, right(s, 2), count(*), sum(n) FROM read_csv('{}/g=*/*.csv*') GROUP BY 1, 2",
        "SELECT b.c, count(*), sum(a) FROM read_json('{}/j/*') GROUP BY 1",
    ):
        remote = of_cursor(connection.execute(sql.format(f"s3://{bucket}/t")))
        local = of_cursor(connection.execute(sql.format(tmp_path / "t")))
        assert len(local.rows) > 4
        assert_same(remote, local, ordered=False)


def test_a_text_that_cannot_be_read_is_named_by_its_url(
    s3: Any, bucket: str, connection: crossdock.Connection
) -> None:
    s3.put_object(Bucket=bucket, Key="bad.csv", Body=b"x\n" + b"1\n" * 30_000 + b"abc\n")
    s3.put_object(Bucket=bucket, Key="bad.json", Body=b'{"a": 1}\n{"a": ')
    for name in ("bad.csv", "bad.json"):
        with pytest.raises(crossdock.Error, match=f"s3://{bucket}/{name}") as caught:
            connection.execute(f"SELECT * FROM 's3://{bucket}/{name}'").fetchall()
        assert not re.search("remote-|/tmp/", str(caught.value))


def test_tables_of_glue_are_read_by_their_names(
    s3: Any, bucket: str, connection: crossdock.Connection, tmp_path: Path
) -> None:
    glue = boto3.client("glue")
    glue.create_database(DatabaseInput={"Name": bucket})
    parquet = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
    serde = {"SerdeInfo": {"SerializationLibrary": parquet}}
    columns = [{"Name": "k", "Type": "bigint"}, {"Name": "s", "Type": "string"}]
    glue.create_table(
        DatabaseName=bucket,
        TableInput={
            "Name": "events",
            "StorageDescriptor": {"Columns": columns, "Location": f"s3://{bucket}/e", **serde},
            "PartitionKeys": [{"Name": "day", "Type": "date"}],
        },
    )
    for n, day in enumerate(("2024-01-01", "2024-01-02", "__HIVE_DEFAULT_PARTITION__")):
        upload(s3, bucket, f"e/{n}/data", pa.table({"k": pa.array([n, 10 * n], pa.int32())}))
        location = f"s3://{bucket}/e/{n}"
        glue.create_partition(
            DatabaseName=bucket,
            TableName="events",
            PartitionInput={"Values": [day], "StorageDescriptor": {"Location": location, **serde}},
        )
    settings = connection.settings
    with crossdock.connect(
        home=tmp_path / "glue",
        catalog=f"glue://{bucket}",
        single_task_bytes=settings.single_task_bytes,
        workers=2,
    ) as other:
        sql = "SELECT day::VARCHAR, sum(k), count(s) FROM events GROUP BY day ORDER BY day"
        expected = [("2024-01-01", 0, 0), ("2024-01-02", 11, 0), (None, 22, 0)]
        assert other.execute(sql).fetchall() == expected
        narrow = "SELECT max(k) FROM events WHERE day = '2024-01-02'"
        assert other.execute(narrow).fetchall() == [(10,)]
        (scan,) = other.explain(narrow).stages[0].scans
        if settings.single_task_bytes == 0:
            assert {piece.path[-6:] for split in scan.splits for piece in split} == {"1/data"}


def test_iceberg_tables_are_read_with_renamed_columns_and_without_deleted_rows(
    bucket: str, emulator: str, connection: crossdock.Connection, tmp_path: Path
) -> None:
    warehouse = SqlCatalog(
        "test",
        uri=f"sqlite:///{tmp_path}/catalog.db",
        warehouse=f"s3://{bucket}/ice",
        **{
            "s3.endpoint": emulator,
            "s3.access-key-id": "test",
            "s3.secret-access-key": "test",
            "s3.region": "us-east-1",
        },
    )
    warehouse.create_namespace("n")
    rows = 60_000
    texts = [f"{n * 7919:>24}" for n in range(rows)]
    columns = pa.table({"k": range(rows), "old": texts, "w": texts})  # longer than is fetched whole
    table = warehouse.create_table("n.t", schema=columns.schema)
    table.append(columns)
    with table.update_schema() as schema:
        schema.rename_column("old", "new")
    table.append(pa.table({"k": [rows], "new": ["z"], "w": ["w"]}))
    sql = f"SELECT count(*), sum(k), max(new) FROM iceberg_scan('{table.metadata_location}')"
    assert connection.execute(sql).fetchall() == [(rows + 1, rows * (rows + 1) // 2, "z")]
    narrow = f"SELECT new FROM iceberg_scan('s3://{bucket}/ice/n/t') WHERE k = 17"
    assert connection.execute(narrow).fetchall() == [(texts[17],)]
    warehouse.close()


def test_a_table_that_is_not_there_is_named_before_anything_runs(
    bucket: str, connection: crossdock.Connection
) -> None:
    with pytest.raises(TableError, match=f"s3://{bucket}/none does not exist"):
        connection.execute(f"SELECT * FROM 's3://{bucket}/none'")


@pytest.mark.parametrize("damage", ["header of a page", "middle of the data"])
def test_a_damaged_object_is_named_and_no_local_copy_of_it(
    s3: Any, bucket: str, connection: crossdock.Connection, damage: str
) -> None:
    text = [f"{number * 7919:>20}" for number in range(200_000)]
    upload(s3, bucket, "t.parquet", pa.table({"k": range(200_000), "text": text}))
    data = bytearray(s3.get_object(Bucket=bucket, Key="t.parquet")["Body"].read())
    at = 4 if damage == "header of a page" else len(data) // 2
    data[at : at + 40] = b"\xff" * 40
    s3.put_object(Bucket=bucket, Key="t.parquet", Body=bytes(data))
    with pytest.raises((QueryFailed, duckdb.Error), match=f"s3://{bucket}/t.parquet") as caught:
        connection.execute(f"SELECT sum(k), max(text) FROM 's3://{bucket}/t.parquet'").fetchall()
    assert "remote-" not in str(caught.value)


def test_without_credentials_the_error_says_what_to_give(
    s3: Any, bucket: str, connection: crossdock.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    with pytest.raises(TableError, match="give the process AWS credentials"):
        connection.execute(f"SELECT * FROM 's3://{bucket}/t.parquet'")
