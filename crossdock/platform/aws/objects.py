"""Objects on S3."""

from __future__ import annotations

import io
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from botocore.exceptions import ClientError
from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from crossdock.errors import ObjectExists, PlatformError, PlatformUnavailable
from crossdock.platform import uploads
from crossdock.platform.aws.errors import UploadNotFound, kind_of, translated
from crossdock.platform.aws.joined import Joined
from crossdock.platform.aws.parallel import in_parallel
from crossdock.platform.keys import checked
from crossdock.platform.ports import ObjectInfo, Objects

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, GetObjectOutputTypeDef

_log = logging.getLogger(__name__)

#: S3 takes no larger object.
MAX_OBJECT_BYTES = 5 * 1024**4
#: Parts of one object under way at once.
_PARALLEL_PARTS = 6
_DELETE_KEYS = 1000
_COPY_BYTES = 1024 * 1024


class S3Objects:
    """Create-only objects in a bucket (``ports.Objects``); threads may share it.

    The client retries requests by its own configuration. Retried here is what it does not know
    of: a lost race for a key, and a body that breaks off half way.
    """

    def __init__(
        self, client: S3Client, bucket: str, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._client = client
        self._bucket = bucket
        self._retrying = Retrying(
            retry=retry_if_exception_type(PlatformUnavailable),
            wait=wait_random_exponential(multiplier=0.05, max=2),
            stop=stop_after_attempt(4),
            sleep=sleep,
            reraise=True,
        )

    def put(self, key: str, data: bytes) -> None:
        self._retrying(self._put, checked(key), data)

    def put_files(self, key: str, parts: Iterable[bytes | Path]) -> int:
        checked(key)
        with ExitStack() as stack:
            joined = Joined(parts, stack)
            if joined.size > MAX_OBJECT_BYTES:
                raise PlatformError(
                    f"object {key} of {joined.size} bytes is over S3's limit of"
                    f" {MAX_OBJECT_BYTES}; use more tasks or more partitions"
                )
            if joined.size > uploads.SINGLE_BYTES:
                self._retrying(self._put_in_parts, key, joined)
            else:
                self._retrying(self._put, key, joined.window(0, joined.size))
            return joined.size

    def get(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes:
        target = io.BytesIO()
        self._retrying(self._read, checked(key), target, offset, length)
        return target.getvalue()

    def fetch(self, key: str, target: Path, *, offset: int = 0, length: int | None = None) -> None:
        checked(key)
        try:
            with target.open("wb") as file:
                self._retrying(self._read, key, file, offset, length)
        except OSError as error:
            raise PlatformError(f"object {key}: {error.strerror}: {target}") from error

    def head(self, key: str) -> ObjectInfo:
        with translated(f"object {checked(key)}"):
            found = self._client.head_object(Bucket=self._bucket, Key=key)
        return ObjectInfo(
            key=key, size=found["ContentLength"], modified_at=found["LastModified"].timestamp()
        )

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        found: list[ObjectInfo] = []
        with translated(f"objects {prefix}*"):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=prefix
            )
            for page in pages:
                found += [
                    ObjectInfo(
                        key=item["Key"],
                        size=item["Size"],
                        modified_at=item["LastModified"].timestamp(),
                    )
                    for item in page.get("Contents", [])
                ]
        return found

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            checked(key)
        for start in range(0, len(keys), _DELETE_KEYS):
            self._retrying(self._delete, keys[start : start + _DELETE_KEYS])

    def _put(self, key: str, body: bytes | BinaryIO) -> None:
        if not isinstance(body, bytes):
            body.seek(0)
        with translated(f"object {key}"):
            self._client.put_object(Bucket=self._bucket, Key=key, Body=body, IfNoneMatch="*")

    def _put_in_parts(self, key: str, joined: Joined) -> None:
        """Nothing is there under ``key`` before the last request, which is create-only."""
        with translated(f"object {key}"):
            begun = self._client.create_multipart_upload(Bucket=self._bucket, Key=key)
        upload = begun["UploadId"]
        try:
            size = uploads.part_bytes(joined.size)
            starts = range(0, joined.size, size)
            parts = in_parallel(
                lambda at: self._put_part(key, upload, at // size + 1, joined.window(at, size)),
                starts,
                threads=_PARALLEL_PARTS,
            )
            self._complete(key, upload, parts)
        except BaseException:
            self._abort(key, upload)
            raise

    def _put_part(self, key: str, upload: str, number: int, body: BinaryIO) -> CompletedPartTypeDef:
        with translated(f"object {key}"):
            answer = self._client.upload_part(
                Bucket=self._bucket, Key=key, UploadId=upload, PartNumber=number, Body=body
            )
        return {"ETag": answer["ETag"], "PartNumber": number}

    def _complete(self, key: str, upload: str, parts: Sequence[CompletedPartTypeDef]) -> None:
        try:
            with translated(f"object {key}"):
                self._client.complete_multipart_upload(
                    Bucket=self._bucket,
                    Key=key,
                    UploadId=upload,
                    MultipartUpload={"Parts": parts},
                    IfNoneMatch="*",
                )
        except UploadNotFound as error:
            # Ended before: by this same request, whose first answer was lost, or by a clean-up.
            self.head(key)
            raise ObjectExists(str(error)) from error

    def _abort(self, key: str, upload: str) -> None:
        try:
            with translated(f"object {key}"):
                self._client.abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload)
        except UploadNotFound:
            return
        except PlatformError as error:
            # What was uploaded is invisible, and goes with the clean-up of unfinished uploads.
            _log.warning("object %s: its unfinished upload stays for now: %s", key, error)

    def abort_uploads(self, *, older_than: float) -> int:
        """Abort uploads begun before ``older_than`` (seconds since the epoch); how many."""
        found: list[tuple[str, str]] = []
        with translated(f"unfinished uploads of {self._bucket}"):
            pages = self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self._bucket
            )
            for page in pages:
                found += [
                    (upload["Key"], upload["UploadId"])
                    for upload in page.get("Uploads", [])
                    if upload["Initiated"].timestamp() < older_than
                ]
        for key, upload_id in found:
            self._abort(key, upload_id)
        return len(found)

    def _read(self, key: str, target: BinaryIO, offset: int, length: int | None) -> None:
        """Write the range into ``target``, from its start."""
        target.seek(0)
        target.truncate()
        if length == 0:
            return  # a range of nothing cannot be asked for
        with translated(f"object {key}"):
            if answer := self._answer(key, offset, length):
                shutil.copyfileobj(answer["Body"], target, _COPY_BYTES)

    def _answer(self, key: str, offset: int, length: int | None) -> GetObjectOutputTypeDef | None:
        """None when the range begins beyond the object's end."""
        if offset == 0 and length is None:
            return self._client.get_object(Bucket=self._bucket, Key=key)
        last = "" if length is None else offset + length - 1
        try:
            return self._client.get_object(
                Bucket=self._bucket, Key=key, Range=f"bytes={offset}-{last}"
            )
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == "InvalidRange":
                return None
            raise

    def _delete(self, keys: Sequence[str]) -> None:
        with translated(f"{len(keys)} objects"):
            answer = self._client.delete_objects(
                Bucket=self._bucket,
                Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True},
            )
        for failed in answer.get("Errors", []):
            code = failed.get("Code", "")
            raise kind_of(code)(f"object {failed.get('Key')}: {code}: {failed.get('Message')}")


class RoutedObjects:
    """Objects of several stores, told apart by the first name of their key (``ports.Objects``)."""

    def __init__(self, routes: Mapping[str, Objects]) -> None:
        """``routes``: stores by first name, such as ``exchange``."""
        self._routes = routes

    def put(self, key: str, data: bytes) -> None:
        self._of(key).put(key, data)

    def put_files(self, key: str, parts: Iterable[bytes | Path]) -> int:
        return self._of(key).put_files(key, parts)

    def get(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes:
        return self._of(key).get(key, offset=offset, length=length)

    def fetch(self, key: str, target: Path, *, offset: int = 0, length: int | None = None) -> None:
        self._of(key).fetch(key, target, offset=offset, length=length)

    def head(self, key: str) -> ObjectInfo:
        return self._of(key).head(key)

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        return self._of(prefix).list(prefix)

    def delete(self, keys: Sequence[str]) -> None:
        for name in sorted({key.partition("/")[0] for key in keys}):
            mine = [key for key in keys if key.partition("/")[0] == name]
            self._of(name).delete(mine)

    def _of(self, key: str) -> Objects:
        name = key.partition("/")[0]
        if name not in self._routes:
            raise PlatformError(
                f"object {key!r}: no store is set up for keys that begin with {name!r}"
            )
        return self._routes[name]
