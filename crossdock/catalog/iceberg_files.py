"""Files of Iceberg's metadata, read as table files are: from this machine, or behind URLs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile

from crossdock.errors import ObjectChanged, ObjectNotFound, TableError
from crossdock.remote_files import Range, RemoteFiles, is_remote

_LOCAL = "file://"


def plain_path(location: str) -> str:
    """A location as the rest of the catalog writes it."""
    for scheme in ("s3a://", "s3n://"):
        if location.startswith(scheme):
            return "s3://" + location.removeprefix(scheme)
    if location.startswith(_LOCAL):
        return "/" + location.removeprefix(_LOCAL).lstrip("/")
    if location.startswith("file:/"):
        return location.removeprefix("file:")
    return location


class MetadataFiles(FileIO):
    """Reads only."""

    def __init__(self, remote: RemoteFiles | None, *, local: bool) -> None:
        super().__init__({})
        self._remote = remote
        self._local = local

    def new_input(self, location: str) -> InputFile:
        return _MetadataFile(location, self)

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError("tables are only read")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError("tables are only read")

    def content(self, location: str) -> bytes:
        """All of a file. Raises ``TableError``: it is not there, or may not be read."""
        path = plain_path(location)
        if is_remote(path) and self._remote is not None:
            try:
                found = self._remote.look(path)
                return self._remote.read(found, Range(0, found.size))
            except (ObjectNotFound, ObjectChanged) as error:
                raise TableError(f"{path} does not exist any more") from error
        if not self._local or "://" in path:
            raise TableError(f"cannot read {location}: it is not where this catalog reads from")
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise TableError(f"cannot read {path}: {error.strerror}") from error


class _Stream(io.BytesIO):
    """Bytes as ``InputStream``."""


class _MetadataFile(InputFile):
    def __init__(self, location: str, files: MetadataFiles) -> None:
        super().__init__(location)
        self._files = files
        self._content: bytes | None = None

    def __len__(self) -> int:
        return len(self._read())

    def exists(self) -> bool:
        try:
            self._read()
        except TableError:
            return False
        return True

    def open(self, seekable: bool = True) -> InputStream:
        stream: Any = _Stream(self._read())
        found: InputStream = stream
        return found

    def _read(self) -> bytes:
        if self._content is None:
            self._content = self._files.content(self.location)
        return self._content
