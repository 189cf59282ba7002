"""Where rows go: standard output, or a file that appears whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

#: Permissions of a new file before the umask, as ``open`` has them.
_FILE_MODE = 0o666
#: Where systems show a process its open files.
_DESCRIPTORS = ("/proc/self/fd", "/dev/fd")
#: As many as Linux follows.
_MOST_LINKS = 40


def check_destination(path: Path | None) -> None:
    """Before the work: raise ``click.BadParameter`` if no file can be written there."""
    if path is None or _descriptor(path) is not None:
        return
    if _is_special(path):
        if not os.access(path, os.W_OK):
            raise _not_writable(path, "no permission")
        return
    folder = path.resolve().parent
    if not folder.is_dir():
        raise _not_writable(path, f"there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise _not_writable(path, f"no permission for {folder}")


def _not_writable(path: Path, why: str) -> click.BadParameter:
    return click.BadParameter(f"cannot write {path}: {why}", param_hint="-o")


@contextmanager
def destination(path: Path | None) -> Iterator[BinaryIO]:
    """A binary stream. A file is renamed into place at the end, and removed if an error came.

    Descriptors (``/dev/stdout``) and what is no file (``/dev/null``, a pipe) are written as they
    are.
    """
    if path is None:
        with _standard_output() as stream:
            yield stream
        return
    number = _descriptor(path)
    if number is not None or _is_special(path):
        # A descriptor of its own: opening a redirected stdout by name would empty its file.
        with path.open("wb") if number is None else os.fdopen(os.dup(number), "wb") as stream:
            yield stream
        return
    target = path.resolve()  # through a link: the file it names is replaced, not the link
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise _not_writable(path, str(error.strerror)) from error
    partial = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
        partial.chmod(target.stat().st_mode if target.exists() else _FILE_MODE & ~_umask())
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()


def _descriptor(path: Path) -> int | None:
    """Which open file of this process ``path`` names (``/dev/stdout``, ``/dev/fd/3``), if one."""
    folders = {Path(folder).resolve() for folder in _DESCRIPTORS}
    for _ in range(_MOST_LINKS):
        if path.name.isdecimal() and path.parent.resolve() in folders:
            return int(path.name)
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None


@contextmanager
def _standard_output() -> Iterator[BinaryIO]:
    """When its reader has had enough (``| head``) the command ends well, without a word."""
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Python flushes stdout once more when it exits; let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(0) from None


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
