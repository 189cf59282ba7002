"""The beginnings of CSV and JSON files: what their schema and size are told from."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import pyarrow as pa

from crossdock.catalog.schemas import PARTITION_FOLDER
from crossdock.catalog.sources import FoundFile
from crossdock.errors import ObjectChanged, ObjectNotFound, TableError
from crossdock.formats import Format
from crossdock.remote_files import Range, RemoteFile, RemoteFiles, is_remote

#: Bytes read of a remote text file to learn its schema; local ones are read as far as DuckDB wants.
HEAD_BYTES = 4 * 1024 * 1024
#: Bytes read to learn how long a row is.
_SAMPLE_BYTES = 64 * 1024
_Codec = Literal["gzip", "zstd"]
#: Of a row, where a sample shows no end of one.
_LONG_ROW = 1024.0


@dataclass(frozen=True, slots=True)
class Head:
    """A path that DuckDB can read the file's beginning from, and about how many rows there are."""

    path: str
    compression: str  # of what is at the path
    rows: int


class Heads:
    """Makes the beginnings of found files readable, as long as a ``with`` block lasts."""

    def __init__(self, remote: RemoteFiles | None) -> None:
        self._remote = remote

    @contextmanager
    def of(
        self, files: Sequence[FoundFile], kind: Format, compressions: Sequence[str]
    ) -> Iterator[Sequence[Head]]:
        """Heads in the order of ``files``.

        Raises ``TableError`` naming a file that cannot be read, and translates the names of copies
        in those raised inside.
        """
        with tempfile.TemporaryDirectory(prefix="crossdock-heads-") as folder:
            copies: dict[str, str] = {}
            heads = []
            for file, compression in zip(files, compressions, strict=True):
                if self._remote is None or not is_remote(file.path):
                    heads.append(_local(file, compression))
                    continue
                head = self._copied(file, kind, compression, Path(folder) / str(len(copies)))
                copies[head.path] = file.path
                heads.append(head)
            try:
                yield heads
            except TableError as error:
                words = str(error)
                for copy, url in copies.items():
                    words = words.replace(copy, url)
                raise TableError(words) from error

    def _copied(self, file: FoundFile, kind: Format, compression: str, folder: Path) -> Head:
        """The beginning of a remote file, uncompressed, below its own ``key=value`` folders."""
        data = self._read(file, HEAD_BYTES)
        text, whole = _plain(file, data, compression)
        if not whole:
            if kind is Format.JSON and text.lstrip()[:1] == b"[":
                text, _ = _plain(file, self._read(file, file.size), compression)
            else:
                text = text[: text.rfind(b"\n") + 1] or text
        keys = ["=".join(found) for found in PARTITION_FOLDER.findall(file.path)]
        path = folder.joinpath(*keys, f"head.{kind}")
        path.parent.mkdir(parents=True)
        path.write_bytes(text)
        expansion = len(text) / max(1, min(len(data), file.size))
        return Head(str(path), "none", _rows(text, file.size * expansion))

    def _read(self, file: FoundFile, size: int) -> bytes:
        assert self._remote is not None
        remote = RemoteFile(file.path, file.size, str(file.version))
        try:
            return self._remote.read(remote, Range(0, min(size, file.size)))
        except ObjectNotFound as error:
            raise TableError(f"{file.path} does not exist any more") from error
        except ObjectChanged as error:
            raise TableError(f"{file.path} is being written; name it once it rests") from error


def _local(file: FoundFile, compression: str) -> Head:
    try:
        with Path(file.path).open("rb") as handle:
            data = handle.read(_SAMPLE_BYTES)
    except OSError as error:
        raise TableError(f"cannot read {file.path}: {error.strerror}") from error
    text, _ = _plain(file, data, compression)
    expansion = len(text) / max(1, len(data))
    return Head(file.path, compression, _rows(text, file.size * expansion))


def _plain(file: FoundFile, data: bytes, compression: str) -> tuple[bytes, bool]:
    """What the bytes say, as far as they go, and whether that is all the file says.

    Raises ``TableError`` where the file is not compressed as its name or option says.
    """
    if compression == "none" or not data:
        return data, len(data) >= file.size
    try:
        opened = pa.CompressedInputStream(pa.BufferReader(data), cast(_Codec, compression))
        return _as_far_as_it_goes(opened, whole=len(data) >= file.size)
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{file.path} cannot be read as {compression}: {error}") from error


def _as_far_as_it_goes(stream: pa.NativeFile, *, whole: bool) -> tuple[bytes, bool]:
    text = io.BytesIO()
    try:
        while piece := stream.read(_SAMPLE_BYTES):
            text.write(piece)
            if text.tell() >= HEAD_BYTES:
                return text.getvalue(), False
    except (pa.ArrowException, OSError):
        if whole or not text.tell():
            raise
    return text.getvalue(), whole


def _rows(text: bytes, size: float) -> int:
    """About how many rows ``size`` bytes of such text have; at least one if there is any byte."""
    if not size:
        return 0
    rows = text.count(b"\n")
    width = len(text) / rows if rows else min(float(len(text)) or _LONG_ROW, _LONG_ROW)
    return max(1, round(size / width))
