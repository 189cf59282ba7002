"""Byte strings and files read as one, at any place, by several threads at once."""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, cast

from crossdock.errors import PlatformError


class Joined:
    """Parts one after the other; files stay open as long as ``stack`` does."""

    def __init__(self, parts: Iterable[bytes | Path], stack: ExitStack) -> None:
        self._parts: list[bytes | int] = []  # a file is its descriptor
        self._starts: list[int] = []
        self.size = 0
        for part in parts:
            size, readable = _opened(part, stack)
            if size:
                self._starts.append(self.size)
                self._parts.append(readable)
                self.size += size

    def read(self, offset: int, length: int) -> bytes:
        """Some bytes from ``offset`` on, at least one before the end."""
        if offset >= self.size or length <= 0:
            return b""
        number = bisect_right(self._starts, offset) - 1
        part, within = self._parts[number], offset - self._starts[number]
        if isinstance(part, bytes):
            return part[within : within + length]
        end = self._starts[number + 1] if number + 1 < len(self._starts) else self.size
        return os.pread(part, min(length, end - offset), within)

    def window(self, start: int, length: int) -> BinaryIO:
        """The bytes from ``start`` on, at most ``length``, as a file that may be read twice."""
        return cast(BinaryIO, _Window(self, start, min(start + length, self.size)))


class _Window(io.RawIOBase):
    def __init__(self, joined: Joined, start: int, end: int) -> None:
        self._joined = joined
        self._start = start
        self._end = end
        self._at = start

    def __len__(self) -> int:
        return self._end - self._start

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: self._start, io.SEEK_CUR: self._at, io.SEEK_END: self._end}[whence]
        self._at = base + offset
        return self.tell()

    def tell(self) -> int:
        return self._at - self._start

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._joined.read(self._at, min(len(buffer), self._end - self._at))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def _opened(part: bytes | Path, stack: ExitStack) -> tuple[int, bytes | int]:
    if isinstance(part, bytes):
        return len(part), part
    try:
        file = stack.enter_context(part.open("rb"))
        return os.fstat(file.fileno()).st_size, file.fileno()
    except OSError as error:
        raise PlatformError(f"cannot read {part}: {error.strerror}") from error
