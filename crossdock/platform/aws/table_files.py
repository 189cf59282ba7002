"""Users' files on S3: listed whole, read in ranges that are all of one version."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from crossdock.errors import ObjectChanged, ObjectNotFound, OutOfSpace, PlatformUnavailable
from crossdock.platform.aws.errors import translated
from crossdock.platform.meter import Kind
from crossdock.remote_files import SCHEME, Check, Range, RemoteFile, proceed

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from crossdock.platform.ports import Meter

#: A gap up to this is read along: a request takes as long as so many bytes.
GAP_BYTES = 512 * 1024
#: A range above this is read in several requests at once.
REQUEST_BYTES = 8 * 1024 * 1024
#: Requests under way at once; one stream alone does not fill a function's network.
THREADS = 16
_COPY_BYTES = 256 * 1024


class S3TableFiles:
    """``RemoteFiles`` on S3; threads may share it."""

    def __init__(
        self,
        client: S3Client,
        *,
        meter: Meter | None = None,
        page_size: int = 1000,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``page_size``: keys of one listing request, 1,000 at most."""
        self._client = client
        self._meter = meter
        self._page_size = page_size
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="ranges")
        # The client retries requests; a body that breaks off half way it does not know of.
        self._retrying = Retrying(
            retry=retry_if_exception_type(PlatformUnavailable),
            wait=wait_random_exponential(multiplier=0.05, max=2),
            stop=stop_after_attempt(4),
            sleep=sleep,
            reraise=True,
        )

    def look(self, url: str) -> RemoteFile:
        bucket, key = _split(url)
        self._count(Kind.OBJECT_GET)
        with translated(url):
            found = self._client.head_object(Bucket=bucket, Key=key)
        return RemoteFile(url, found["ContentLength"], found["ETag"].strip('"'))

    def list(self, prefix: str) -> Sequence[RemoteFile]:
        bucket, key = _split(prefix)
        found: list[RemoteFile] = []
        with translated(f"{prefix}*"):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=bucket, Prefix=key, PaginationConfig={"PageSize": self._page_size}
            )
            for page in pages:
                self._count(Kind.OBJECT_LIST)
                found += [
                    RemoteFile(
                        f"{SCHEME}{bucket}/{item['Key']}", item["Size"], item["ETag"].strip('"')
                    )
                    for item in page.get("Contents", [])
                ]
        return sorted(found, key=lambda file: file.url)

    def read(self, file: RemoteFile, wanted: Range) -> bytes:
        target = io.BytesIO()

        def write(data: bytes, at: int) -> None:
            target.seek(at - wanted.start)
            target.write(data)

        self._retrying(self._copy, file, wanted, write)
        return target.getvalue()

    def fetch(
        self, file: RemoteFile, wanted: Sequence[Range], target: Path, check: Check = proceed
    ) -> None:
        with _opened(target) as descriptor:

            def write(data: bytes, at: int) -> None:
                _write_at(descriptor, data, at)

            def copy(each: Range) -> None:
                check()
                self._retrying(self._copy, file, each, write)

            futures = [self._pool.submit(copy, each) for each in requests(wanted)]
            # All of them end before the descriptor is closed under them.
            errors = [error for future in futures if (error := future.exception())]
            if errors:
                raise errors[0]

    def _copy(self, file: RemoteFile, wanted: Range, write: Callable[[bytes, int], None]) -> None:
        """One request, written as it comes. Raises ``PlatformUnavailable`` if cut off."""
        if wanted.end <= wanted.start:
            return
        self._count(Kind.OBJECT_GET)
        at = wanted.start
        with translated(file.url):
            for data in self._stream(file, wanted):
                write(data, at)
                at += len(data)
        if at != wanted.end:
            raise PlatformUnavailable(f"{file.url}: a range ended after {at - wanted.start} bytes")

    def _stream(self, file: RemoteFile, wanted: Range) -> Iterator[bytes]:
        bucket, key = _split(file.url)
        try:
            answer = self._client.get_object(
                Bucket=bucket,
                Key=key,
                Range=f"bytes={wanted.start}-{wanted.end - 1}",
                IfMatch=f'"{file.version}"',
            )
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            # A shorter file may be told by its range before it is by its version.
            if code in ("PreconditionFailed", "412", "InvalidRange"):
                raise ObjectChanged(f"{file.url} is not the file it was") from error
            if code == "NoSuchKey":
                raise ObjectNotFound(f"{file.url} does not exist any more") from error
            raise
        yield from answer["Body"].iter_chunks(_COPY_BYTES)

    def _count(self, kind: str) -> None:
        if self._meter is not None:
            self._meter.count(kind)


def requests(wanted: Sequence[Range]) -> Sequence[Range]:
    """The ranges to ask for: neighbours joined over small gaps, long ones cut."""
    joined: list[Range] = []
    for each in sorted(wanted):
        if joined and each.start - joined[-1].end <= GAP_BYTES:
            joined[-1] = Range(joined[-1].start, max(joined[-1].end, each.end))
        else:
            joined.append(each)
    return [
        Range(start, min(start + REQUEST_BYTES, each.end))
        for each in joined
        for start in range(each.start, each.end, REQUEST_BYTES)
    ]


def _split(url: str) -> tuple[str, str]:
    bucket, _, key = url.removeprefix(SCHEME).partition("/")
    return bucket, key


@contextmanager
def _opened(target: Path) -> Iterator[int]:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write_at(descriptor: int, data: bytes, at: int) -> None:
    try:
        while data:
            written = os.pwrite(descriptor, data, at)
            data, at = data[written:], at + written
    except OSError as error:
        raise OutOfSpace(f"cannot keep what was read: {error.strerror}") from error
