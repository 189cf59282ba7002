"""A live bar per stage, on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from crossdock.client.drivers import OnProgress
from crossdock.progress import StageProgress

#: Redraws a second.
_RATE = 10


@contextmanager
def live_bars(labels: Callable[[], Sequence[str]], *, wanted: bool) -> Iterator[OnProgress | None]:
    """A callback that draws on stderr; None when nobody would see it.

    ``labels`` gives the plan's stage labels; it is asked when the first stages are heard of.
    """
    console = Console(stderr=True)
    if not (wanted and console.is_terminal):
        yield None
        return
    columns = (
        TextColumn("stage {task.fields[stage]}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True, refresh_per_second=_RATE) as bars:
        yield _Drawer(bars, labels).draw


class _Drawer:
    def __init__(self, bars: Progress, labels: Callable[[], Sequence[str]]) -> None:
        self._bars = bars
        self._labels = labels

    def draw(self, stages: Sequence[StageProgress]) -> None:
        if not self._bars.tasks:
            for label, stage in zip(self._labels(), stages, strict=True):
                self._bars.add_task(label, total=stage.total, stage=stage.stage, start=False)
        for task, stage in zip(self._bars.tasks, stages, strict=True):
            if task.start_time is None and (stage.running or stage.done):
                self._bars.start_task(task.id)
            self._bars.update(task.id, completed=stage.done)
