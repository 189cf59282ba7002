"""Large objects on S3, and objects of several buckets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from crossdock.errors import ObjectExists, ObjectNotFound, PlatformDenied, PlatformError
from crossdock.platform import uploads
from crossdock.platform.aws.clients import client_config
from crossdock.platform.aws.objects import RoutedObjects, S3Objects
from crossdock.platform.memory import MemoryObjects
from crossdock.platform.meter import CountingMeter, Kind, MeteredObjects

MIB = 1024 * 1024
BODY = bytes(range(256)) * (12 * MIB // 256) + b"the end"


@pytest.fixture(params=["moto", pytest.param("emulated", marks=pytest.mark.emulator)])
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(uploads, "SINGLE_BYTES", 5 * MIB)
    monkeypatch.setattr(uploads, "PART_BYTES", 5 * MIB)  # S3's least
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    if request.param == "emulated":
        url = request.getfixturevalue("emulator")
        made = boto3.client("s3", endpoint_url=url, region_name="us-east-1", config=client_config())
        made.create_bucket(Bucket="bucket")
        yield made
        for key in ("large", "left"):
            made.delete_object(Bucket="bucket", Key=key)
        for upload in unfinished(made):
            made.abort_multipart_upload(
                Bucket="bucket", Key=upload["Key"], UploadId=upload["UploadId"]
            )
        return
    with mock_aws():
        made = boto3.client("s3", region_name="us-east-1", config=client_config())
        made.create_bucket(Bucket="bucket")
        yield made


@pytest.fixture
def objects(client: Any) -> S3Objects:
    return S3Objects(client, "bucket", sleep=lambda seconds: None)


def unfinished(client: Any) -> list[Any]:
    found: list[Any] = client.list_multipart_uploads(Bucket="bucket").get("Uploads", [])
    return found


def broken(client: Any, operation: str, code: str, *, after: bool, times: int = 1) -> None:
    """Let an operation fail, before or after it was done."""
    real, left = getattr(client, operation), [times]

    def call(**request: Any) -> Any:
        answer = real(**request) if after else None
        if left[0] > 0:
            left[0] -= 1
            raise ClientError({"Error": {"Code": code, "Message": "broken"}}, operation)
        return answer if after else real(**request)

    setattr(client, operation, call)


def test_a_large_object_goes_up_in_parts_and_reads_back(
    client: Any, objects: S3Objects, tmp_path: Path
) -> None:
    (tmp_path / "body").write_bytes(BODY)
    size = objects.put_files("large", [b"head", tmp_path / "body", b"", b"tail"])
    assert objects.get("large") == b"head" + BODY + b"tail"
    assert size == objects.head("large").size
    assert client.head_object(Bucket="bucket", Key="large")["ETag"].endswith('-3"')


def test_a_large_object_is_create_only_too(client: Any, objects: S3Objects) -> None:
    objects.put("large", b"first")
    with pytest.raises(ObjectExists, match="large"):
        objects.put_files("large", [BODY])
    assert objects.get("large") == b"first"
    assert unfinished(client) == []


def test_a_part_that_fails_leaves_nothing(client: Any, objects: S3Objects) -> None:
    broken(client, "upload_part", "AccessDenied", after=False)
    with pytest.raises(PlatformDenied):
        objects.put_files("large", [BODY])
    assert unfinished(client) == []
    with pytest.raises(ObjectNotFound):
        objects.head("large")


def test_a_lost_race_at_the_end_is_run_again(client: Any, objects: S3Objects) -> None:
    broken(client, "complete_multipart_upload", "ConditionalRequestConflict", after=False)
    objects.put_files("large", [BODY])
    assert objects.get("large") == BODY
    assert unfinished(client) == []


def test_an_upload_that_ended_unanswered_is_told_as_there_already(
    client: Any, objects: S3Objects
) -> None:
    broken(client, "complete_multipart_upload", "NoSuchUpload", after=True)
    with pytest.raises(ObjectExists):  # whose caller compares size and checksum
        objects.put_files("large", [BODY])
    assert objects.get("large") == BODY


def test_an_upload_aborted_by_another_is_no_success(client: Any, objects: S3Objects) -> None:
    broken(client, "complete_multipart_upload", "NoSuchUpload", after=False)
    with pytest.raises(ObjectNotFound):
        objects.put_files("large", [BODY])


def test_old_unfinished_uploads_are_aborted_and_young_ones_stay(
    client: Any, objects: S3Objects
) -> None:
    client.create_multipart_upload(Bucket="bucket", Key="left")
    assert objects.abort_uploads(older_than=time.time() - 3600 * 24 * 365 * 30) == 0
    assert objects.abort_uploads(older_than=time.time() + 3600 * 24 * 365 * 30) == 1
    assert unfinished(client) == []


@pytest.mark.parametrize(
    ("size", "expected"), [(0, 1), (64 * MIB, 1), (64 * MIB + 1, 5), (320_000 * MIB, 10_002)]
)
def test_requests_of_an_upload(size: int, expected: int) -> None:
    assert uploads.requests(size) == expected


def test_each_part_is_counted(client: Any, objects: S3Objects) -> None:
    meter = CountingMeter()
    MeteredObjects(objects, meter).put_files("large", [BODY])
    assert meter.usage() == {Kind.OBJECT_PUT: 5}


# -- several buckets ---------------------------------------------------------------------------
def test_keys_go_to_the_bucket_of_their_first_name(tmp_path: Path) -> None:
    exchange, results = MemoryObjects(), MemoryObjects()
    routed = RoutedObjects({"exchange": exchange, "plan": exchange, "result": results})
    routed.put("exchange/a", b"1")
    routed.put_files("result/b", [b"2"])
    routed.put("plan/c", b"3")
    assert [o.key for o in exchange.list("")] == ["exchange/a", "plan/c"]
    assert [o.key for o in routed.list("result/")] == ["result/b"]
    assert (routed.get("result/b"), routed.head("plan/c").size) == (b"2", 1)
    routed.fetch("exchange/a", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"1"
    routed.delete(["exchange/a", "result/b", "plan/c"])
    assert [*exchange.list(""), *results.list("")] == []


def test_a_key_that_no_bucket_is_for_is_refused() -> None:
    with pytest.raises(PlatformError, match="no store is set up for keys that begin with 'other'"):
        RoutedObjects({"plan": MemoryObjects()}).put("other/a", b"")
