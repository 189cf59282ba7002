"""Files of a COPY: on a disk and on S3 nobody sees one before it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from crossdock.errors import ObjectExists, PlatformError
from crossdock.local.home import Home, make_outbox
from crossdock.platform import uploads
from crossdock.platform.aws.outbox import S3Outbox
from crossdock.platform.local.objects import FolderObjects
from crossdock.writes.files import StagedFile
from crossdock.writes.outbox import Outbox, Spot

QUERY, OTHER = "01k8query", "01k8other"


@dataclass(frozen=True)
class Place:
    """An outbox, a target of it, and what anybody sees there."""

    outbox: Outbox
    target: str
    seen: Callable[[], dict[str, bytes]]
    #: What is staged and not shown.
    hidden: Callable[[], Sequence[str]]


def folder(tmp_path: Path) -> Place:
    home = Home(tmp_path / "home")
    target = tmp_path / "deep" / "out"
    objects = FolderObjects(home.objects)

    def seen() -> dict[str, bytes]:
        files = [path for path in (tmp_path / "deep").rglob("*") if path.is_file()]
        return {
            str(path).removeprefix(str(target)).lstrip("/"): path.read_bytes() for path in files
        }

    return Place(
        make_outbox(home, objects), str(target), seen, lambda: [o.key for o in objects.list("")]
    )


def bucket() -> Place:
    client: Any = boto3.client(
        "s3", region_name="us-east-1", aws_access_key_id="t", aws_secret_access_key="t"
    )
    client.create_bucket(Bucket="data")

    def seen() -> dict[str, bytes]:
        found = client.list_objects_v2(Bucket="data").get("Contents", [])
        return {
            each["Key"].removeprefix("deep/out").lstrip("/"): client.get_object(
                Bucket="data", Key=each["Key"]
            )["Body"].read()
            for each in found
        }

    def hidden() -> list[str]:
        found = client.list_multipart_uploads(Bucket="data").get("Uploads", [])
        return [each["Key"] for each in found]

    return Place(S3Outbox(client), "s3://data/deep/out", seen, hidden)


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "folder":
        yield folder(tmp_path)
        return
    with mock_aws():
        yield bucket()


def stage(
    place: Place,
    tmp_path: Path,
    name: str,
    data: bytes = b"x",
    *,
    query: str = QUERY,
    number: int = 0,
) -> StagedFile:
    source = tmp_path / f"source-{query}-{number}"
    source.write_bytes(data)
    spot = Spot(query_id=query, stage=1, index=2, attempt=1, number=number)
    named = f"{name}{spot.stem}" if name.endswith("/") else name
    return place.outbox.stage(spot, place.target, named, source)


def test_a_file_is_seen_when_it_is_shown_and_not_before(place: Place, tmp_path: Path) -> None:
    file = stage(place, tmp_path, "k=1/f.parquet", b"rows")
    assert place.seen() == {}
    assert place.outbox.present(place.target) == []
    place.outbox.show(place.target, [file], replace=True)
    assert place.seen() == {"k=1/f.parquet": b"rows"}
    assert place.outbox.present(place.target) == ["k=1/f.parquet"]


def test_showing_again_changes_nothing(place: Place, tmp_path: Path) -> None:
    files = [stage(place, tmp_path, f"{n}.csv", b"%d" % n, number=n) for n in range(3)]
    place.outbox.show(place.target, files[:2], replace=True)
    place.outbox.show(place.target, files, replace=True)
    place.outbox.show(place.target, files, replace=False)
    assert place.seen() == {f"{n}.csv": b"%d" % n for n in range(3)}


def test_a_file_of_parts_comes_whole(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "PART_BYTES", 5 * 1024 * 1024)
    data = bytes(range(256)) * 50_000
    place.outbox.show(place.target, [stage(place, tmp_path, "big", data)], replace=True)
    assert place.seen() == {"big": data}


def test_an_empty_file_is_a_file(place: Place, tmp_path: Path) -> None:
    place.outbox.show(place.target, [stage(place, tmp_path, "empty", b"")], replace=True)
    assert place.seen() == {"empty": b""}


def test_what_is_discarded_is_never_seen_and_leaves_nothing(place: Place, tmp_path: Path) -> None:
    kept = stage(place, tmp_path, "p/", b"kept", query=OTHER)
    stage(place, tmp_path, "p/", b"gone")
    if place.target.startswith("s3://"):
        assert place.outbox.discard(QUERY, place.target) == 1
        assert place.outbox.discard(QUERY, place.target) == 0
        assert len(place.hidden()) == 1
    place.outbox.show(place.target, [kept], replace=True)
    assert list(place.seen().values()) == [b"kept"]


def test_one_file_takes_the_target_s_own_name(place: Place, tmp_path: Path) -> None:
    file = stage(place, tmp_path, "", b"one")
    assert place.outbox.present(place.target) == []
    place.outbox.show(place.target, [file], replace=False)
    assert place.outbox.present(place.target) == [""]
    assert list(place.seen().values()) == [b"one"]


def test_a_name_that_is_taken_is_refused_or_replaced(place: Place, tmp_path: Path) -> None:
    place.outbox.show(place.target, [stage(place, tmp_path, "", b"old")], replace=False)
    newer = stage(place, tmp_path, "", b"newer", query=OTHER)
    with pytest.raises(ObjectExists):
        place.outbox.show(place.target, [newer], replace=False)
    assert list(place.seen().values()) == [b"old"]
    newest = stage(place, tmp_path, "", b"newest", query=OTHER, number=1)
    place.outbox.show(place.target, [newest], replace=True)
    assert list(place.seen().values()) == [b"newest"]


def test_files_beside_the_target_are_not_its_own(place: Place, tmp_path: Path) -> None:
    files = [stage(place, tmp_path, name, number=n) for n, name in enumerate(("a", "k=1/b"))]
    place.outbox.show(place.target, files, replace=True)
    other = Place(place.outbox, place.target + "-2", place.seen, place.hidden)
    other.outbox.show(other.target, [stage(other, tmp_path, "c", number=9)], replace=True)
    assert place.outbox.present(place.target) == ["a", "k=1/b"]
    place.outbox.remove(place.target, ["a", "k=1/b", "never"])
    assert place.outbox.present(place.target) == []
    assert len(place.seen()) == 1


def test_an_upload_that_somebody_aborted_is_told_in_words(tmp_path: Path) -> None:
    with mock_aws():
        place = bucket()
        client: Any = place.outbox._client  # type: ignore[attr-defined]

        def gone(**request: object) -> None:
            raise ClientError({"Error": {"Code": "NoSuchUpload", "Message": "gone"}}, "Complete")

        client.complete_multipart_upload = gone
        file = stage(place, tmp_path, "f")
        with pytest.raises(PlatformError, match="removed before the commit"):
            place.outbox.show(place.target, [file], replace=True)
