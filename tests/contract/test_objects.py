"""What every implementation of ``ports.Objects`` keeps to."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from crossdock.errors import (
    ObjectExists,
    ObjectNotFound,
    OutOfSpace,
    PlatformDenied,
    PlatformError,
)
from crossdock.platform.aws.clients import client_config
from crossdock.platform.aws.objects import S3Objects
from crossdock.platform.local import objects as local
from crossdock.platform.local.objects import FolderObjects
from crossdock.platform.memory import MemoryObjects
from crossdock.platform.meter import CountingMeter, MeteredObjects
from crossdock.platform.ports import Objects

EMULATED = pytest.param("emulated s3", marks=pytest.mark.emulator)


@pytest.fixture(params=["folder", "memory", "s3", EMULATED])
def objects(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Objects]:
    if request.param == "folder":
        yield FolderObjects(tmp_path / "objects")
        return
    if request.param == "memory":
        yield MemoryObjects()
        return
    if request.param == "emulated s3":
        client = boto3.client(
            "s3",
            endpoint_url=request.getfixturevalue("emulator"),
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=client_config(),
        )
        bucket = f"objects-{uuid.uuid4().hex[:8]}"
        client.create_bucket(Bucket=bucket)
        yield S3Objects(client, bucket)
        return
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="bucket")
        yield S3Objects(client, "bucket")


def keys(objects: Objects, prefix: str = "") -> list[str]:
    return [info.key for info in objects.list(prefix)]


def test_an_object_reads_back_whole(objects: Objects) -> None:
    objects.put("a/b/c", b"payload")
    assert objects.get("a/b/c") == b"payload"


def test_an_empty_object_exists(objects: Objects) -> None:
    objects.put("empty", b"")
    assert (objects.get("empty"), objects.head("empty").size) == (b"", 0)


def test_a_second_put_is_refused_and_the_first_stands(objects: Objects) -> None:
    objects.put("a/once", b"first")
    with pytest.raises(ObjectExists, match="a/once"):
        objects.put("a/once", b"second")
    with pytest.raises(ObjectExists, match="a/once"):
        objects.put_files("a/once", [b"third"])
    assert objects.get("a/once") == b"first"


# Not on moto: it looks for the key and puts it without a lock. With threads that take turns every
# 10 us, 33 of 300 such races had two or three winners.
@pytest.mark.parametrize("objects", ["folder", "memory", EMULATED], indirect=True)
def test_of_many_writers_of_one_key_exactly_one_wins(objects: Objects) -> None:
    won: list[int] = []
    gate = threading.Barrier(8)

    def write(number: int) -> None:
        gate.wait()
        try:
            objects.put_files("raced", [b"%d" % number] * 100)
        except ObjectExists:
            return
        won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert objects.get("raced") == b"%d" % won[0] * 100


def test_parts_of_bytes_and_files_are_joined_in_order(objects: Objects, tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"1" * 3_000_000)
    (tmp_path / "two").write_bytes(b"")
    (tmp_path / "three").write_bytes(b"3" * 7)
    parts = [b"head", tmp_path / "one", b"-", tmp_path / "two", tmp_path / "three", b"tail"]
    size = objects.put_files("joined", iter(parts))
    expected = b"head" + b"1" * 3_000_000 + b"-" + b"3" * 7 + b"tail"
    assert size == objects.head("joined").size == len(expected)
    assert objects.get("joined") == expected


def test_nothing_is_visible_while_an_object_is_written(objects: Objects, tmp_path: Path) -> None:
    def parts() -> Iterator[bytes]:
        yield b"x" * 100_000
        assert keys(objects) == []
        with pytest.raises(ObjectNotFound):
            objects.get("a/late")
        yield b"y"

    assert objects.put_files("a/late", parts()) == 100_001
    assert keys(objects) == ["a/late"]


def test_a_writer_that_fails_leaves_nothing(objects: Objects, tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match="missing-part"):
        objects.put_files("a/half", [b"x", tmp_path / "missing-part"])
    assert keys(objects) == []
    objects.put("a/half", b"whole")
    assert objects.get("a/half") == b"whole"


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [
        (0, None, b"0123456789"),
        (3, None, b"3456789"),
        (3, 4, b"3456"),
        (0, 0, b""),
        (8, 100, b"89"),
        (10, 1, b""),
        (50, None, b""),
    ],
)
def test_a_range_is_what_lies_between_its_ends(
    objects: Objects, tmp_path: Path, offset: int, length: int | None, expected: bytes
) -> None:
    objects.put("digits", b"0123456789")
    assert objects.get("digits", offset=offset, length=length) == expected
    objects.fetch("digits", tmp_path / "fetched", offset=offset, length=length)
    assert (tmp_path / "fetched").read_bytes() == expected


def test_a_large_object_is_fetched_into_a_file(objects: Objects, tmp_path: Path) -> None:
    data = os.urandom(5_000_000)
    objects.put("large", data)
    objects.fetch("large", tmp_path / "fetched", offset=1_000_001, length=3_000_000)
    assert (tmp_path / "fetched").read_bytes() == data[1_000_001:4_000_001]


def test_a_missing_object_says_so(objects: Objects, tmp_path: Path) -> None:
    objects.put("a/there", b"x")
    for key in ("missing", "a", "a/missing", "b/c/d"):
        with pytest.raises(ObjectNotFound, match=key):
            objects.get(key)
        with pytest.raises(ObjectNotFound, match=key):
            objects.get(key, offset=1, length=1)
        with pytest.raises(ObjectNotFound, match=key):
            objects.head(key)
        with pytest.raises(ObjectNotFound, match=key):
            objects.fetch(key, tmp_path / "target")


def test_a_missing_scratch_folder_is_not_mistaken_for_a_lost_object(
    objects: Objects, tmp_path: Path
) -> None:
    objects.put("a/there", b"x")
    with pytest.raises(PlatformError) as caught:
        objects.fetch("a/there", tmp_path / "no-such-folder" / "target")
    assert not isinstance(caught.value, ObjectNotFound)


def test_a_list_is_sorted_and_holds_any_depth_below_its_prefix(objects: Objects) -> None:
    for key in ("q/1/b", "q/1/a/deep/er", "q/10", "q/2", "q2/x", "r"):
        objects.put(key, key.encode())
    assert keys(objects, "q/") == ["q/1/a/deep/er", "q/1/b", "q/10", "q/2"]
    assert keys(objects, "q/1") == ["q/1/a/deep/er", "q/1/b", "q/10"]
    assert keys(objects, "q/1/") == ["q/1/a/deep/er", "q/1/b"]
    assert keys(objects, "missing/") == []
    assert keys(objects)[-1] == "r"


def test_an_object_tells_its_size_and_age(objects: Objects) -> None:
    objects.put("sized", b"12345")
    (info,) = objects.list("sized")
    head = objects.head("sized")
    assert (info.key, info.size) == (head.key, head.size) == ("sized", 5)
    assert abs(info.modified_at - head.modified_at) < 1  # a header tells whole seconds
    assert abs(info.modified_at - time.time()) < 60


def test_deleted_objects_are_gone_and_deleting_again_is_no_error(objects: Objects) -> None:
    objects.put("a/b/one", b"1")
    objects.put("a/two", b"2")
    objects.delete(["a/b/one", "never/was"])
    objects.delete(["a/b/one"])
    assert keys(objects) == ["a/two"]
    objects.put("a/b/one", b"again")
    assert objects.get("a/b/one") == b"again"


def test_more_than_a_thousand_objects_are_listed_and_deleted(objects: Objects) -> None:
    for number in range(1005):
        objects.put(f"many/{number:04}", b"")
    found = keys(objects, "many/")
    assert found == [f"many/{number:04}" for number in range(1005)]
    objects.delete(found)
    assert keys(objects) == []


@pytest.mark.parametrize("key", ["", "/", "/abs", "a//b", "a/", "../up", "a/../b", "./a", "a\0b"])
def test_a_key_that_could_leave_the_store_is_refused(objects: Objects, key: str) -> None:
    with pytest.raises(PlatformError, match="refused"):
        objects.put(key, b"x")
    with pytest.raises(PlatformError, match="refused"):
        objects.get(key)
    with pytest.raises(PlatformError, match="refused"):
        objects.delete([key])


def test_keys_of_any_letters_are_kept(objects: Objects) -> None:
    key = "q/Zürich 東京/%41 +&=#?/x"
    objects.put(key, b"x")
    assert keys(objects, "q/Zürich") == [key]
    assert objects.get(key) == b"x"


def test_requests_are_counted_as_s3_charges_them(objects: Objects, tmp_path: Path) -> None:
    meter = CountingMeter()
    metered = MeteredObjects(objects, meter)
    metered.put("a", b"1")
    metered.put_files("b", [b"2"])
    with pytest.raises(ObjectExists):
        metered.put("a", b"1")
    metered.get("a")
    metered.head("a")
    metered.fetch("b", tmp_path / "b")
    metered.list("")
    metered.delete(["a", "b"])
    assert meter.usage() == {
        "object_put": 3,
        "object_get": 3,
        "object_list": 1,
        "object_delete": 1,
    }


# -- folders alone -------------------------------------------------------------------------------

KILLED_WRITER = """
import sys, time
from pathlib import Path
from crossdock.platform.local.objects import FolderObjects
def parts():
    yield b"x" * 100_000
    print("half", flush=True)
    time.sleep(60)
FolderObjects(Path(sys.argv[1])).put_files("a/half", parts())
"""


def test_a_writer_killed_half_way_leaves_no_file_at_all(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED_WRITER, str(tmp_path)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"half\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert list(tmp_path.rglob("*")) == []


def test_deleting_the_last_object_prunes_its_empty_folders(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    objects.put("q/1/2/deep", b"x")
    objects.put("q/kept", b"x")
    objects.delete(["q/1/2/deep"])
    assert [path.name for path in (tmp_path / "q").iterdir()] == ["kept"]


def test_writers_survive_the_pruning_of_their_folder(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    stop = threading.Event()

    def prune() -> None:
        while not stop.is_set():
            objects.delete(["q/d/other"])

    pruner = threading.Thread(target=prune)
    pruner.start()
    try:
        for number in range(100):
            objects.put(f"q/d/{number}", b"x")
            objects.delete([f"q/d/{number}"])
    finally:
        stop.set()
        pruner.join()
    assert objects.list("") == []


@pytest.fixture
def portable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FolderObjects:
    """As on a system without anonymous files and without copies inside the kernel."""
    monkeypatch.setattr(local.sys, "platform", "other")
    return FolderObjects(tmp_path / "portable")


def test_a_system_without_linux_calls_behaves_the_same(
    portable: FolderObjects, tmp_path: Path
) -> None:
    (tmp_path / "part").write_bytes(b"p" * 3_000_000)
    assert portable.put_files("a/b", [b"head", tmp_path / "part", b"tail"]) == 3_000_008
    with pytest.raises(ObjectExists):
        portable.put("a/b", b"")
    portable.fetch("a/b", tmp_path / "fetched", offset=2, length=1_500_000)
    assert (tmp_path / "fetched").read_bytes() == b"ad" + b"p" * 1_499_998
    assert keys(portable) == ["a/b"]


def test_partial_files_of_dead_writers_are_dropped_and_never_listed(
    portable: FolderObjects, tmp_path: Path
) -> None:
    folder = tmp_path / "portable" / ".partial"
    folder.mkdir()
    (folder / "old").write_bytes(b"x")
    os.utime(folder / "old", (0, 0))
    (folder / "young").write_bytes(b"x")
    assert keys(portable) == []
    FolderObjects(tmp_path / "portable")
    assert [path.name for path in folder.iterdir()] == ["young"]
    with pytest.raises(PlatformError, match="reserved"):
        portable.get(".partial/young")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_says_which_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    objects = FolderObjects(tmp_path)

    def full(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    (tmp_path / "part").write_bytes(b"x")
    monkeypatch.setattr(os, "copy_file_range", full)
    with pytest.raises(OutOfSpace, match=f"{tmp_path}.*free space"):
        objects.put_files("a", [tmp_path / "part"])
    assert keys(objects) == ["part"]


def test_a_folder_without_permission_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = FolderObjects(tmp_path)

    def denied(*_: object, **__: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path))

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(PlatformDenied, match=str(tmp_path)):
        objects.put("a", b"x")


def test_a_key_below_or_above_another_object_is_refused_in_words(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    objects.put("a/b", b"x")
    with pytest.raises(PlatformError, match="other keys lie below"):
        objects.put("a", b"x")
    with pytest.raises(PlatformError, match="shorter key"):
        objects.put("a/b/c", b"x")
    objects.delete(["a/b/c"])
    assert keys(objects) == ["a/b"]
