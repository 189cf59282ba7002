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


def check_destination(path: Path | None) -> None:
    """Before the work: raise ``click.BadParameter`` if no file can be written there."""
    if path is None:
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
    """A binary stream. A file is renamed into place at the end, and removed if an error came."""
    if path is None:
        with _standard_output() as stream:
            yield stream
        return
    if not path.is_file() and path.exists():  # /dev/null, a pipe: nothing to rename
        with path.open("wb") as stream:
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
