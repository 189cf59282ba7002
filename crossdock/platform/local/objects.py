"""Objects in a folder."""

from __future__ import annotations

import errno
import os
import secrets
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random

from crossdock.errors import (
    FULL_DISK,
    ObjectExists,
    ObjectNotFound,
    OutOfSpace,
    PlatformDenied,
    PlatformError,
)
from crossdock.platform.keys import checked
from crossdock.platform.ports import ObjectInfo

#: Objects that are not whole yet, on systems without anonymous files. Never part of a key.
_PARTIAL = ".partial"
#: A named partial file this old has no writer any more, in seconds.
_PARTIAL_AGE = 3600.0
#: Bytes asked of one ``copy_file_range``; the kernel moves less where it must.
_COPY_BYTES = 1 << 30
#: Bytes in memory at a time where the kernel cannot copy.
_BLOCK_BYTES = 1 << 20
_NO_KERNEL_COPY = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
_NO_ANONYMOUS_FILE = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT})
_NO_LINK = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})

# ``delete`` prunes empty folders, maybe the one a ``put`` has just made: make it again.
_FOLDER_RACE = Retrying(
    retry=retry_if_exception_type(FileNotFoundError),
    wait=wait_random(0, 0.002),
    stop=stop_after_delay(10),
    reraise=True,
)


class FolderObjects:
    """Create-only objects as files below ``root`` (``ports.Objects``); any number of processes.

    An object is linked to its name when it is whole, so readers never see a part of one, and a
    writer that is killed leaves nothing behind.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        with self._translated(""):
            root.mkdir(parents=True, exist_ok=True)
            self._drop_old_partials()

    def put(self, key: str, data: bytes) -> None:
        self.put_files(key, (data,))

    def put_files(self, key: str, parts: Iterable[bytes | Path]) -> int:
        target = self._path(key)
        with self._translated(key):
            if target.is_dir():
                raise PlatformError(f"object key {key!r} is refused: other keys lie below it")
            if target.exists():
                raise ObjectExists(f"object {key} exists already")
            with self._whole_or_nothing(target) as file:
                for part in parts:
                    if isinstance(part, Path):
                        with part.open("rb") as source:
                            _copy(source, file, os.fstat(source.fileno()).st_size)
                    else:
                        file.write(part)
                file.flush()
                return os.fstat(file.fileno()).st_size

    def get(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes:
        with self._translated(key), self._path(key).open("rb") as file:
            file.seek(offset)
            return file.read(-1 if length is None else length)

    def fetch(self, key: str, target: Path, *, offset: int = 0, length: int | None = None) -> None:
        with self._translated(key), self._path(key).open("rb") as source:
            left = max(0, os.fstat(source.fileno()).st_size - offset)
            source.seek(offset)
            with target.open("wb") as file:
                _copy(source, file, left if length is None else min(left, length))

    def head(self, key: str) -> ObjectInfo:
        path = self._path(key)
        with self._translated(key):
            if not path.is_file():
                raise ObjectNotFound(f"no object {key}")
            return _info(key, path.stat())

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        if prefix:
            self._path(prefix.rstrip("/"))
        folder = prefix.rpartition("/")[0]
        found: list[ObjectInfo] = []
        with self._translated(prefix):
            for path in _files(self._root / folder):
                key = path.relative_to(self._root).as_posix()
                if key.startswith(prefix) and not key.startswith(f"{_PARTIAL}/"):
                    # Deleted since the folder was read.
                    with suppress(FileNotFoundError):
                        found.append(_info(key, path.stat()))
        return sorted(found, key=lambda info: info.key)

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            path = self._path(key)
            with self._translated(key):
                # NotADirectoryError: a shorter key is an object, so this one cannot be.
                with suppress(FileNotFoundError, NotADirectoryError):
                    path.unlink()
                self._prune(path.parent)

    def _path(self, key: str) -> Path:
        segments = checked(key).split("/")
        if segments[0] == _PARTIAL:
            raise PlatformError(f"object key {key!r} is refused: {_PARTIAL!r} is reserved")
        return self._root.joinpath(*segments)

    @contextmanager
    def _whole_or_nothing(self, target: Path) -> Iterator[BinaryIO]:
        """A file to write, linked to ``target`` when the body is done."""
        descriptor, partial = self._open_partial()
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                _FOLDER_RACE(_link, file, partial, target)
        finally:
            if partial is not None:
                partial.unlink(missing_ok=True)

    def _open_partial(self) -> tuple[int, Path | None]:
        """An anonymous file (the kernel removes it with its writer), else a named one."""
        if sys.platform == "linux":
            try:
                return os.open(self._root, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o644), None
            except OSError as error:
                if error.errno not in _NO_ANONYMOUS_FILE:
                    raise
        partial = self._root / _PARTIAL / secrets.token_hex(8)
        partial.parent.mkdir(parents=True, exist_ok=True)
        return os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644), partial

    def _drop_old_partials(self) -> None:
        for partial in _files(self._root / _PARTIAL):
            with suppress(FileNotFoundError):
                if partial.stat().st_mtime < time.time() - _PARTIAL_AGE:
                    partial.unlink()

    def _prune(self, folder: Path) -> None:
        while folder != self._root:
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass  # another process pruned it; its parent may still be ours to prune
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    return
                raise
            folder = folder.parent

    @contextmanager
    def _translated(self, key: str) -> Iterator[None]:
        """The one place where the file system's errors become the platform's."""
        try:
            yield
        except OSError as error:
            raise _translate(error, key, self._root) from error


def _link(file: BinaryIO, partial: Path | None, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise PlatformError(f"{target} is refused: a shorter key is an object") from error
    if partial is not None:
        os.link(partial, target)
        return
    # Only linkat() follows the descriptor's link, and os.link() calls it when given a folder.
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.link(f"/proc/self/fd/{file.fileno()}", target.name, dst_dir_fd=folder)
    finally:
        os.close(folder)


def _copy(source: BinaryIO, target: BinaryIO, length: int) -> None:
    """Copy ``length`` bytes from where ``source`` stands, inside the kernel where it can."""
    target.flush()
    done = _kernel_copy(source, target, length)
    if done < length:
        _plain_copy(source, target, length - done)


def _kernel_copy(source: BinaryIO, target: BinaryIO, length: int) -> int:
    """Bytes copied; less than ``length`` where the file systems cannot or the source ended."""
    if sys.platform != "linux":
        return 0
    start, done = source.tell(), 0
    while done < length:
        try:
            moved = os.copy_file_range(
                source.fileno(), target.fileno(), min(_COPY_BYTES, length - done), start + done
            )
        except OSError as error:
            if error.errno not in _NO_KERNEL_COPY:
                raise
            break
        if moved == 0:
            break
        done += moved
    source.seek(start + done)
    return done


def _plain_copy(source: BinaryIO, target: BinaryIO, length: int) -> None:
    while length > 0 and (block := source.read(min(length, _BLOCK_BYTES))):
        target.write(block)
        length -= len(block)


def _files(folder: Path) -> Iterator[Path]:
    """Files below ``folder``, at any depth; none if it does not exist."""
    for parent, _, names in os.walk(folder):
        for name in names:
            yield Path(parent, name)


def _info(key: str, stat: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key=key, size=stat.st_size, modified_at=stat.st_mtime)


def _translate(error: OSError, key: str, root: Path) -> PlatformError:
    if isinstance(error, FileExistsError):
        return ObjectExists(f"object {key} exists already")
    if isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError):
        # A missing scratch file must not look like a lost object: that would re-run its producer.
        if Path(str(error.filename)).is_relative_to(root):
            return ObjectNotFound(f"no object {key} in {root}")
        return PlatformError(f"object {key}: {error.strerror}: {error.filename}")
    if error.errno in FULL_DISK:
        return OutOfSpace(
            f"the disk or quota of {root} is full; free space there or choose another home folder"
        )
    if isinstance(error, PermissionError) and error.errno == errno.EACCES:
        return PlatformDenied(
            f"no permission for {error.filename or root}; check the owner and mode of {root}"
        )
    if error.errno in _NO_LINK:
        return PlatformError(
            f"{root} is on a file system without hard links; choose another home folder"
        )
    return PlatformError(f"object {key} in {root}: {error.strerror or error}")
