"""Where a fragment's table files come from, and whether they are still those of the plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from crossdock.executor.failures import SourceChanged
from crossdock.planner.plan import FileSlice

_PATTERN = frozenset("*?[")


class Sources(Protocol):
    """Gives each slice a local path that DuckDB can read."""

    def open(self, slice: FileSlice, columns: Sequence[str], folder: Path) -> Path:
        """A path that reads like the whole file, for these ``columns`` and the slice's rows.

        ``folder`` is the task's own, for what has to be fetched. Raises ``SourceChanged``.
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

    def open(self, slice: FileSlice, columns: Sequence[str], folder: Path) -> Path:
        self.confirm(slice)
        path = self.resident(slice)
        if path is not None:
            return path
        # DuckDB would take the name for a pattern: give it a plain one.
        link = folder / f"{len(list(folder.iterdir()))}.parquet"
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
