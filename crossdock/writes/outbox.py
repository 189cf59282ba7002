"""Where files of a COPY wait for their commit, and how they are shown by it (a port)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from crossdock.errors import PlatformError
from crossdock.remote_files import is_remote
from crossdock.writes.files import StagedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Whose file it is: unique for ever, as attempts are."""

    query_id: str
    stage: int
    index: int
    attempt: int
    number: int  # of the file among the attempt's

    @property
    def stem(self) -> str:
        """What the file's name begins with."""
        return f"{self.query_id}-{self.index}-{self.attempt}-{self.number}"


class Outbox(Protocol):
    """Files on their way to a target: a folder or a file of the user's, or a URL of either.

    Raises ``PlatformError`` children. Every verb is safe to repeat from any point.
    """

    def stage(self, spot: Spot, target: str, name: str, path: Path) -> StagedFile:
        """Take a whole file that is to become ``name`` below ``target``; nobody sees it yet."""
        ...

    def show(self, target: str, files: Sequence[StagedFile], *, replace: bool) -> None:
        """Make files visible under their names; those that are stay as they are.

        Raises ``ObjectExists`` for a name that another file has, unless it is to be replaced.
        """
        ...

    def discard(self, query_id: str, target: str) -> int:
        """Remove what the query staged for ``target`` and is not visible; how many things."""
        ...

    def present(self, target: str) -> Sequence[str]:
        """Names of all files at or below ``target``; "" for a file of that very name."""
        ...

    def remove(self, target: str, names: Sequence[str]) -> None:
        """Delete visible files; absent ones are no error."""
        ...


class _NoOutbox:
    """Of a platform, or a test, that copies nowhere."""

    def stage(self, spot: Spot, target: str, name: str, path: Path) -> StagedFile:
        raise PlatformError(f"nothing can be written to {target} here")

    def show(self, target: str, files: Sequence[StagedFile], *, replace: bool) -> None:
        raise PlatformError(f"nothing can be written to {target} here")

    def discard(self, query_id: str, target: str) -> int:
        return 0

    def present(self, target: str) -> Sequence[str]:
        raise PlatformError(f"nothing can be written to {target} here")

    def remove(self, target: str, names: Sequence[str]) -> None:
        raise PlatformError(f"nothing can be written to {target} here")


NO_OUTBOX: Outbox = _NoOutbox()


class OutboxByScheme:
    """Targets on S3 by one outbox, all others by another (``Outbox``)."""

    def __init__(self, *, remote: Outbox, local: Outbox) -> None:
        self._remote = remote
        self._local = local

    def stage(self, spot: Spot, target: str, name: str, path: Path) -> StagedFile:
        return self._of(target).stage(spot, target, name, path)

    def show(self, target: str, files: Sequence[StagedFile], *, replace: bool) -> None:
        self._of(target).show(target, files, replace=replace)

    def discard(self, query_id: str, target: str) -> int:
        return self._of(target).discard(query_id, target)

    def present(self, target: str) -> Sequence[str]:
        return self._of(target).present(target)

    def remove(self, target: str, names: Sequence[str]) -> None:
        self._of(target).remove(target, names)

    def _of(self, target: str) -> Outbox:
        return self._remote if is_remote(target) else self._local


class LazyOutbox:
    """An outbox whose maker is asked at its first use (``Outbox``)."""

    def __init__(self, make: Callable[[], Outbox]) -> None:
        self._made = cache(make)

    def stage(self, spot: Spot, target: str, name: str, path: Path) -> StagedFile:
        return self._made().stage(spot, target, name, path)

    def show(self, target: str, files: Sequence[StagedFile], *, replace: bool) -> None:
        self._made().show(target, files, replace=replace)

    def discard(self, query_id: str, target: str) -> int:
        return self._made().discard(query_id, target)

    def present(self, target: str) -> Sequence[str]:
        return self._made().present(target)

    def remove(self, target: str, names: Sequence[str]) -> None:
        self._made().remove(target, names)
