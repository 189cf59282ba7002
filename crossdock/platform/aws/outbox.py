"""Files of a COPY on S3: uploads in parts to their final keys, completed by the commit.

An upload that is not completed is no object: nobody can list or read it. So nothing is ever copied
or moved, and showing a file is one small request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from crossdock.errors import ObjectExists, ObjectNotFound, PlatformError
from crossdock.platform import uploads
from crossdock.platform.aws.errors import UploadNotFound, translated
from crossdock.platform.aws.parallel import in_parallel
from crossdock.platform.meter import Kind
from crossdock.remote_files import SCHEME
from crossdock.writes.files import StagedFile
from crossdock.writes.outbox import Spot

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from crossdock.platform.ports import Meter

T = TypeVar("T")

#: Requests of one commit under way at once.
_THREADS = 16
#: Parts of one file under way at once; each is in memory.
_PARALLEL_PARTS = 4
_DELETE_KEYS = 1000


class S3Outbox:
    """``writes.outbox.Outbox`` for URLs; threads may share it."""

    def __init__(self, client: S3Client, *, meter: Meter | None = None) -> None:
        self._client = client
        self._meter = meter

    def stage(self, spot: Spot, target: str, name: str, path: Path) -> StagedFile:
        bucket, key = _place(target, name)
        url = f"{SCHEME}{bucket}/{key}"
        size = path.stat().st_size
        self._count(Kind.OBJECT_PUT, 1 + uploads.parts(size))
        with translated(url):
            begun = self._client.create_multipart_upload(Bucket=bucket, Key=key)
        upload = begun["UploadId"]

        def put(number: int) -> str:
            with translated(url):
                answer = self._client.upload_part(
                    Bucket=bucket,
                    Key=key,
                    UploadId=upload,
                    PartNumber=number,
                    Body=_part(path, number, uploads.part_bytes(size)),
                )
            return answer["ETag"]

        numbers = range(1, uploads.parts(size) + 1)
        tags = in_parallel(put, numbers, threads=_PARALLEL_PARTS)
        return StagedFile(name=name, size=size, token=upload, parts=tuple(tags))

    def show(self, target: str, files: Sequence[StagedFile], *, replace: bool) -> None:
        self._each(lambda file: self._complete(target, file, replace=replace), files)

    def _complete(self, target: str, file: StagedFile, *, replace: bool) -> None:
        bucket, key = _place(target, file.name)
        listed = [{"ETag": tag, "PartNumber": n} for n, tag in enumerate(file.parts, 1)]
        self._count(Kind.OBJECT_PUT)
        try:
            with translated(f"{SCHEME}{bucket}/{key}"):
                self._client.complete_multipart_upload(
                    Bucket=bucket,
                    Key=key,
                    UploadId=file.token,
                    MultipartUpload={"Parts": listed},  # type: ignore[typeddict-item]
                    **({} if replace else {"IfNoneMatch": "*"}),  # type: ignore[arg-type]
                )
        except ObjectExists:
            if not self._is_shown(bucket, key, file):
                raise
        except UploadNotFound as error:
            if not self._is_shown(bucket, key, file):
                raise PlatformError(
                    f"{SCHEME}{bucket}/{key}: what was uploaded has been removed before the "
                    "commit, by a lifecycle rule or another writer; run the statement again"
                ) from error

    def _is_shown(self, bucket: str, key: str, file: StagedFile) -> bool:
        """Whether a commit that died had completed the upload: the tags of its parts tell."""
        self._count(Kind.OBJECT_GET)
        try:
            with translated(f"{SCHEME}{bucket}/{key}"):
                found = self._client.head_object(Bucket=bucket, Key=key)
        except ObjectNotFound:
            return False
        return found["ContentLength"] == file.size and found["ETag"].strip('"') == _tag(file.parts)

    def discard(self, query_id: str, target: str) -> int:
        """Of a target that is one file, uploads of other queries go too: their commits say so."""
        bucket, prefix = _place(target, "")
        found = [
            (key, upload)
            for key, upload in self._uploads(bucket, prefix)
            if key == prefix or key.rpartition("/")[2].startswith(f"{query_id}-")
        ]
        self._each(lambda one: self._abort(bucket, *one), found)
        return len(found)

    def _uploads(self, bucket: str, prefix: str) -> Iterator[tuple[str, str]]:
        with translated(f"unfinished uploads of {SCHEME}{bucket}/{prefix}"):
            pages = self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=bucket, Prefix=prefix
            )
            for page in pages:
                self._count(Kind.OBJECT_LIST)
                for upload in page.get("Uploads", []):
                    yield upload["Key"], upload["UploadId"]

    def _abort(self, bucket: str, key: str, upload: str) -> None:
        self._count(Kind.OBJECT_DELETE)
        try:
            with translated(f"{SCHEME}{bucket}/{key}"):
                self._client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)
        except UploadNotFound:
            return

    def present(self, target: str) -> Sequence[str]:
        """A key that ends in ``/`` is how consoles draw folders, and no file."""
        bucket, key = _place(target, "")
        found: list[str] = []
        with translated(f"{target}*"):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=bucket, Prefix=key
            )
            for page in pages:
                self._count(Kind.OBJECT_LIST)
                found += [item["Key"] for item in page.get("Contents", [])]
        if key in found:
            return [""]
        below = f"{key}/"
        return [
            one.removeprefix(below)
            for one in found
            if one.startswith(below) and not one.endswith("/")
        ]

    def remove(self, target: str, names: Sequence[str]) -> None:
        for start in range(0, len(names), _DELETE_KEYS):
            chosen = names[start : start + _DELETE_KEYS]
            places = [_place(target, name) for name in chosen]
            self._count(Kind.OBJECT_DELETE)
            with translated(f"{len(places)} objects below {target}"):
                answer = self._client.delete_objects(
                    Bucket=places[0][0],
                    Delete={"Objects": [{"Key": key} for _, key in places], "Quiet": True},
                )
            for failed in answer.get("Errors", []):
                raise PlatformError(f"{target}: cannot delete {failed.get('Key')}: {failed}")

    def _each(self, act: Callable[[T], None], things: Sequence[T]) -> None:
        if things:
            in_parallel(act, things, threads=_THREADS)

    def _count(self, kind: str, amount: int = 1) -> None:
        if self._meter is not None:
            self._meter.count(kind, amount)


def _place(target: str, name: str) -> tuple[str, str]:
    """Bucket and key."""
    bucket, _, prefix = target.removeprefix(SCHEME).partition("/")
    prefix = prefix.rstrip("/")
    return bucket, f"{prefix}/{name}" if name else prefix


def _tag(parts: Sequence[str]) -> str:
    """S3's tag of an object that was uploaded in parts with these tags."""
    together = b"".join(bytes.fromhex(tag.strip('"')) for tag in parts)
    return f"{hashlib.md5(together, usedforsecurity=False).hexdigest()}-{len(parts)}"


def _part(path: Path, number: int, length: int) -> bytes:
    """Part ``number``, counted from 1; an empty file has one, for none cannot be completed."""
    with path.open("rb") as file:
        file.seek((number - 1) * length)
        return file.read(length)
