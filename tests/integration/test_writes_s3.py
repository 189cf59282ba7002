"""COPY from this machine to S3: workers upload, the client's commit completes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import duckdb
import pytest

import crossdock
from crossdock.client.connection import Connection
from crossdock.errors import SqlError
from tests.home_contents import leftovers

pytestmark = pytest.mark.emulator


@pytest.fixture
def s3(emulator: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the SDK finds here, and in worker processes."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", emulator)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return boto3.client("s3")


@pytest.fixture
def bucket(s3: Any) -> str:
    name = f"b{uuid.uuid4().hex[:10]}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def connection(tmp_path: Path, s3: Any) -> Iterator[Connection]:
    for number in range(2):
        duckdb.sql(
            "COPY (SELECT i AS k, i % 4 AS g FROM range(100) t(i) "
            f"WHERE i % 2 = {number}) TO '{tmp_path}/n-{number}.parquet'"
        )
    with crossdock.connect(
        home=tmp_path / "home",
        tables={"n": str(tmp_path / "n-*.parquet")},
        workers=2,
        worker_memory="512MB",
        single_task_bytes=0,
    ) as opened:
        yield opened
    assert leftovers(tmp_path / "home") == []


def keys(s3: Any, bucket: str) -> list[str]:
    return [each["Key"] for each in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


def unfinished(s3: Any, bucket: str) -> list[Any]:
    found: list[Any] = s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    return found


def test_what_is_copied_to_s3_is_read_back_from_there(
    connection: Connection, s3: Any, bucket: str
) -> None:
    target = f"s3://{bucket}/a b/out"
    copy = f"COPY n TO '{target}' (FORMAT parquet, PARTITION_BY (g)"
    assert connection.execute(f"{copy})").fetchall() == [(100,)]
    assert {key.rpartition("/")[0] for key in keys(s3, bucket)} == {
        f"a b/out/g={number}" for number in range(4)
    }
    read = f"SELECT g, count(*), sum(k) FROM '{target}/**/*.parquet' GROUP BY g ORDER BY g"
    expected = "SELECT i % 4, count(*), sum(i) FROM range(100) t(i) GROUP BY 1 ORDER BY 1"
    assert connection.execute(read).fetchall() == duckdb.sql(expected).fetchall()
    with pytest.raises(SqlError, match="not empty"):
        connection.execute(f"{copy})")
    first = keys(s3, bucket)
    assert connection.execute(f"{copy}, OVERWRITE)").fetchall() == [(100,)]
    assert not set(first) & set(keys(s3, bucket))
    assert unfinished(s3, bucket) == []


def test_one_object_is_written_once_unless_asked_for(
    connection: Connection, s3: Any, bucket: str
) -> None:
    copy = f"COPY n TO 's3://{bucket}/one.csv'"
    assert connection.execute(copy).fetchall() == [(100,)]
    with pytest.raises(SqlError, match="exists already"):
        connection.execute(copy)
    assert connection.execute(f"COPY (FROM n LIMIT 3) TO 's3://{bucket}/one.csv' (OVERWRITE)")
    assert keys(s3, bucket) == ["one.csv"]
    assert len(s3.get_object(Bucket=bucket, Key="one.csv")["Body"].read().splitlines()) == 4
    assert unfinished(s3, bucket) == []


def test_a_bucket_that_is_not_there_is_told_by_name(connection: Connection, bucket: str) -> None:
    with pytest.raises(SqlError, match="cannot write to s3://no-such-bucket/x"):
        connection.execute("COPY n TO 's3://no-such-bucket/x'")
