"""The local platform over tables on S3: the same rows as from the same files on disk."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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
