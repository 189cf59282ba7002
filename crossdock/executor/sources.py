"""Where a fragment's table files come from, and whether they are still those of the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import NamedTuple, Protocol

from crossdock.executor.failures import SourceChanged
from crossdock.planner.plan import FileSlice
from crossdock.remote_files import Check, proceed

_PATTERN = frozenset("*?[")
_NUMBERS = count()
#: Files opened at once; most of the time each waits for an answer.
_PARALLEL = 8


class Wanted(NamedTuple):
    """A slice, and the columns to be read of it."""

    slice: FileSlice
    columns: Sequence[str]


class Sources(Protocol):
    """Gives each slice a local path that DuckDB can read."""

    def open_all(
        self, wanted: Sequence[Wanted], folder: Path, check: Check = proceed
    ) -> Sequence[Path]:
        """For each, a path that reads like the whole file, for its columns and its slice's rows.

        ``folder`` is the task's own, for what has to be fetched. Raises ``SourceChanged``, and what
        ``check`` raises, which is called before anything is asked for.
        """
        ...

    def resident(self, slice: FileSlice) -> Path | None:
        """Where the file lies, if ``open`` would give that path; None if it brings it along."""
        ...

    def confirm(self, slice: FileSlice) -> None:
        """After the fragment ran: the file read was the planned one. Raises ``SourceChanged``."""
        ...


class LocalSources:
    """Files of this machine, read in place."""

    def open_all(
        self, wanted: Sequence[Wanted], folder: Path, check: Check = proceed
    ) -> Sequence[Path]:
        return [self.open(slice, columns, folder) for slice, columns in wanted]

    def open(self, slice: FileSlice, columns: Sequence[str], folder: Path) -> Path:
        self.confirm(slice)
        path = self.resident(slice)
        if path is not None:
            return path
        # DuckDB would take the name for a pattern: give it a plain one.
        link = folder / f"link-{next(_NUMBERS)}.parquet"
        link.symlink_to(Path(slice.path).absolute())
        return link

    def resident(self, slice: FileSlice) -> Path | None:
        path = Path(slice.path).absolute()
        return None if _PATTERN & set(str(path)) else path

    def confirm(self, slice: FileSlice) -> None:
        try:
            status = Path(slice.path).stat()
        except FileNotFoundError:
            raise SourceChanged(
                f"{slice.path} does not exist any more; it did when the query was planned",
                path=slice.path,
                kind="TableMissing",
            ) from None
        changed = status.st_size != slice.size
        if slice.version and str(status.st_mtime_ns) != slice.version:
            changed = True
        if changed:
            raise SourceChanged(
                f"{slice.path} changed while the query ran; run the query again",
                path=slice.path,
                kind="TableChanged",
            )


def all_at_once(
    open_one: Callable[[FileSlice, Sequence[str], Path], Path],
    wanted: Sequence[Wanted],
    folder: Path,
) -> Sequence[Path]:
    """Open several at a time; paths in the order asked for."""
    if len(wanted) < 2:
        return [open_one(*each, folder) for each in wanted]
    with ThreadPoolExecutor(min(_PARALLEL, len(wanted)), thread_name_prefix="open") as pool:
        futures = [pool.submit(open_one, *each, folder) for each in wanted]
    return [future.result() for future in futures]
