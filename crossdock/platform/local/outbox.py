"""Files of a COPY on a disk: objects of the home folder, linked to their names by the commit."""

from __future__ import annotations

import errno
import filecmp
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from crossdock.errors import ObjectExists, OutOfSpace, PlatformDenied, PlatformError
from crossdock.platform.ports import Objects
from crossdock.writes.files import StagedFile
from crossdock.writes.outbox import Spot

#: Another file system, or one without hard links: then the file is copied.
_NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class FolderOutbox:
    """``writes.outbox.Outbox`` for folders and files of this machine."""

    def __init__(
        self, objects: Objects, locate: Callable[[str], Path], key_of: Callable[[Spot], str]
    ) -> None:
        """``locate`` gives the file of an object, ``key_of`` the key of a staged one."""
        self._objects = objects
        self._locate = locate
        self._key_of = key_of

    def stage(self, spot: Spot, target: str, name: str, path: Path) -> StagedFile:
        key = self._key_of(spot)
        size = self._objects.put_files(key, [path])
        return StagedFile(name=name, size=size, token=key)

    def show(self, target: str, files: Sequence[StagedFile], *, replace: bool) -> None:
        for file in files:
            final = _final(target, file.name)
            with _translated(final):
                self._show(self._locate(file.token), final, replace=replace)

    def _show(self, staged: Path, final: Path, *, replace: bool) -> None:
        if final.is_file() and _same(staged, final):
            return  # shown by a commit that died after it
        final.parent.mkdir(parents=True, exist_ok=True)
        # Named by the staged file, so that a commit made again ends what was begun.
        hidden = final.parent / f".{staged.name}.crossdock"
        _place(staged, hidden)
        try:
            if replace:
                hidden.replace(final)
            elif final.exists():
                raise ObjectExists(f"{final} exists already")
            else:
                hidden.rename(final)
        finally:
            hidden.unlink(missing_ok=True)

    def discard(self, query_id: str, target: str) -> int:
        """None: staged files are objects that their query owns, and go with it."""
        return 0

    def present(self, target: str) -> Sequence[str]:
        path = Path(target)
        with _translated(path):
            if path.is_file():
                return [""]
            _require_writable(path)
            return sorted(
                each.relative_to(path).as_posix() for each in path.rglob("*") if each.is_file()
            )

    def remove(self, target: str, names: Sequence[str]) -> None:
        for name in names:
            final = _final(target, name)
            with _translated(final):
                final.unlink(missing_ok=True)
                _prune(final.parent, Path(target))


def _final(target: str, name: str) -> Path:
    return Path(target, name) if name else Path(target)


def _require_writable(path: Path) -> None:
    """Tell at planning what would else fail at the commit."""
    there = next(each for each in (path, *path.parents) if each.exists())
    if not there.is_dir():
        raise PlatformError(f"{there} is a file")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PlatformDenied(f"no permission to write {there}")


def _same(staged: Path, final: Path) -> bool:
    return final.samefile(staged) or filecmp.cmp(staged, final, shallow=False)


def _place(staged: Path, hidden: Path) -> None:
    hidden.unlink(missing_ok=True)
    try:
        os.link(staged, hidden)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        shutil.copyfile(staged, hidden)


def _prune(folder: Path, target: Path) -> None:
    """Remove partition folders that have become empty."""
    while folder != target and folder.is_relative_to(target):
        try:
            folder.rmdir()
        except OSError:
            return  # not empty
        folder = folder.parent


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise PlatformDenied(f"no permission to write {error.filename or path}") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OutOfSpace(f"the disk or quota of {path} is full") from error
        raise PlatformError(f"{path}: {error.strerror or error}") from error
