"""Objects on S3."""

from __future__ import annotations

import io
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
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

from crossdock.errors import PlatformError, PlatformUnavailable
from crossdock.platform.aws.errors import kind_of, translated
from crossdock.platform.keys import checked
from crossdock.platform.ports import ObjectInfo

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import GetObjectOutputTypeDef

#: S3 takes no more in one PUT, in bytes.
MAX_PUT_BYTES = 5 * 1024**3
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
            files = [_opened(part, stack) for part in parts]
            joined = _Joined(files)
            if joined.size > MAX_PUT_BYTES:
                raise PlatformError(
                    f"object {key} of {joined.size} bytes is over S3's limit of {MAX_PUT_BYTES};"
                    " use more tasks or more partitions"
                )
            self._retrying(self._put, key, joined)
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


class _Joined(io.RawIOBase):
    """Several files as one, for reading; S3's client may read it twice."""

    def __init__(self, files: Sequence[BinaryIO]) -> None:
        self._files = files
        self._ends: list[int] = []
        self.size = 0
        for file in files:
            self.size += file.seek(0, io.SEEK_END)
            self._ends.append(self.size)
        self.seek(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self.size}[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return getattr(self, "_position", 0)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        for file, end in zip(self._files, self._ends, strict=True):
            if self._position < end:
                file.seek(self._position - end, io.SEEK_END)
                data = file.read(min(len(buffer), end - self._position))
                buffer[: len(data)] = data
                self._position += len(data)
                return len(data)
        return 0


def _opened(part: bytes | Path, stack: ExitStack) -> BinaryIO:
    if isinstance(part, bytes):
        return io.BytesIO(part)
    try:
        return stack.enter_context(part.open("rb"))
    except OSError as error:
        raise PlatformError(f"cannot read {part}: {error.strerror}") from error
