"""Remote files that lie in a folder: counts what is read of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from crossdock.errors import ObjectChanged, ObjectNotFound
from crossdock.remote_files import SCHEME, Check, Range, RemoteFile, proceed


class FolderFiles:
    """``RemoteFiles``; ``s3://<name>/...`` is below ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.read_bytes = 0
        self.ranges: list[Range] = []

    def look(self, url: str) -> RemoteFile:
        path = self.root / url.removeprefix(SCHEME)
        if not path.is_file():
            raise ObjectNotFound(f"no {url}")
        status = path.stat()
        return RemoteFile(url, status.st_size, f"{status.st_mtime_ns}-{status.st_size}")

    def list(self, prefix: str) -> Sequence[RemoteFile]:
        urls = [SCHEME + str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file()]
        return [self.look(url) for url in sorted(urls) if url.startswith(prefix)]

    def read(self, file: RemoteFile, wanted: Range) -> bytes:
        if self.look(file.url) != file:
            raise ObjectChanged(f"{file.url} changed")
        self.ranges.append(wanted)
        self.read_bytes += wanted.end - wanted.start
        with (self.root / file.url.removeprefix(SCHEME)).open("rb") as handle:
            handle.seek(wanted.start)
            return handle.read(wanted.end - wanted.start)

    def fetch(
        self, file: RemoteFile, wanted: Sequence[Range], target: Path, check: Check = proceed
    ) -> None:
        with target.open("r+b" if target.exists() else "w+b") as handle:
            for each in wanted:
                check()
                data = self.read(file, each)
                handle.seek(each.start)
                handle.write(data)
