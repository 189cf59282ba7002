"""PEP 249 connections over the local platform."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from crossdock.catalog import Catalog, Source
from crossdock.client.cursor import Cursor, Parameters
from crossdock.client.releases import Releases
from crossdock.client.runs import DistributedRun, OneTaskRun, OnProgress, Run, Wishes
from crossdock.client.statements import Room
from crossdock.errors import InterfaceError, NotSupportedError, SettingError
from crossdock.executor.engine import Spare
from crossdock.owner import client_folder
from crossdock.planner.binder import Binder
from crossdock.planner.options import PlannerOptions
from crossdock.planner.plan import StagePlan
from crossdock.planner.planning import plan_query
from crossdock.settings import Settings, from_environment, with_values

if TYPE_CHECKING:
    from crossdock.local import LocalPlatform

#: In the working directory, unless ``home`` or CROSSDOCK_HOME says otherwise.
DEFAULT_HOME = ".crossdock"
HOME_VARIABLE = "CROSSDOCK_HOME"


def connect(
    *,
    home: str | os.PathLike[str] | None = None,
    tables: Mapping[str, Source] | None = None,
    workers: int | None = None,
    exchange: str = "auto",
    **settings: object,
) -> Connection:
    """Open a connection; workers start with the first query that needs them.

    Args:
        home: folder of state, queues, exchange objects and named tables (``.crossdock``).
        tables: names for a path, a glob, a folder, a list of paths or a ``pyarrow.Table``.
        workers: workers at once.
        exchange: ``s3qs`` (queues, early start), ``batch`` (barrier, no queues) or ``auto``.
        **settings: any other setting of ``crossdock.settings.FIELDS``. What is not given comes
            from the ``CROSSDOCK_*`` variables, then from the defaults.

    Raises:
        SettingError: a setting is unknown or out of range.
        TableError: a table cannot be read.

    Example:
        >>> with crossdock.connect(tables={"t": "data/*.parquet"}) as con:
        ...     con.execute("SELECT count(*) FROM t").fetchone()
    """
    given = dict(settings)
    if workers is not None:
        given["workers"] = workers
    if exchange != "auto":
        given["exchange"] = exchange
    values = with_values(from_environment(os.environ), given)
    return Connection(home_folder(home), values, tables or {})


def home_folder(home: str | os.PathLike[str] | None) -> Path:
    """The home folder to use. Raises ``SettingError`` when a file stands there."""
    folder = Path(home or os.environ.get(HOME_VARIABLE) or DEFAULT_HOME).absolute()
    if folder.exists() and not folder.is_dir():
        raise SettingError(f"home = {str(folder)!r}: there is a file of that name")
    return folder


class Connection:
    """A session: its tables, its settings, its workers. Use it in a ``with`` block."""

    def __init__(self, home: Path, settings: Settings, tables: Mapping[str, Source]) -> None:
        self.home = home
        self.settings = settings
        self._scratch = home / "scratch" / client_folder()
        self._catalog = Catalog(home)
        self._binder = Binder(self._catalog, timezone=settings.timezone)
        self._platform: LocalPlatform | None = None
        self._spare = Spare()
        self._runs: set[Run] = set()  # open ones; their results go with them
        self._releases: Releases | None = None
        self._lock = threading.Lock()  # binding and opening are one at a time
        self._closed = False
        try:
            for name, source in tables.items():
                self._catalog.add(name, source)
        except BaseException:
            self._catalog.close()
            raise

    @property
    def tables(self) -> Catalog:
        """The tables of this connection; ``add``, ``remove``, ``names``, ``get``."""
        return self._catalog

    # -- PEP 249 -----------------------------------------------------------------------------------

    def cursor(
        self,
        *,
        on_progress: OnProgress | None = None,
        as_text: Callable[[str], bool] | None = None,
    ) -> Cursor:
        """A new cursor.

        Args:
            on_progress: hears of the tasks of a distributed query now and then.
            as_text: chooses types (``DECIMAL(9,2)``, ``DATE``) whose values come as the engine's
                own text, exact where Python's value is not; ``description`` keeps the types.
        """
        self._open()
        return Cursor(self, Wishes(on_progress=on_progress, as_text=as_text))

    def execute(self, sql: str, parameters: Parameters | None = None) -> Cursor:
        """``cursor().execute(sql, parameters)``."""
        cursor = self.cursor()
        try:
            return cursor.execute(sql, parameters)
        except BaseException:
            cursor.close()
            raise

    def commit(self) -> None:
        """No effect: nothing is written."""
        self._open()

    def rollback(self) -> None:
        """Raises ``NotSupportedError``: there are no transactions."""
        raise NotSupportedError("crossdock reads only; there is nothing to roll back")

    def close(self) -> None:
        """Cancel what runs, end the workers, delete results; closing again is no error."""
        if self._closed:
            return
        self._closed = True
        try:
            for run in tuple(self._runs):
                run.cancel()
                self._end(run)
            if self._releases is not None:
                self._releases.close()
        finally:
            if self._platform is not None:
                self._platform.close()
            self._spare.close()
            self._binder.close()
            self._catalog.close()
            shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # -- beyond PEP 249 ----------------------------------------------------------------------------

    def explain(self, sql: str, parameters: Parameters | None = None) -> StagePlan:
        """The stage plan of a query, which is not run."""
        self._open()
        with self._lock:
            bound = self._binder.bind(sql, parameters)
            return plan_query(bound, self._options())

    @property
    def platform(self) -> LocalPlatform:
        """The local platform, opened at its first use."""
        self._open()
        with self._lock:
            if self._platform is None:
                from crossdock.local import LocalPlatform  # heavy: not for `tables list`

                self._spare.prepare()
                self._platform = LocalPlatform(self.home, self.settings)
            return self._platform

    def _begin(self, sql: str, parameters: Parameters | None, wishes: Wishes) -> Run:
        plan = self.explain(sql, parameters)
        kind = OneTaskRun if plan.one_task else DistributedRun
        run = kind(self.platform, plan, self._room(everything=plan.one_task), wishes)
        self._runs.add(run)
        if self._releases is None:
            self._releases = Releases()
        return run

    def _end(self, run: Run) -> None:
        """Close a run now."""
        self._runs.discard(run)
        run.close()

    def _end_soon(self, run: Run) -> None:
        """Close a run whose cursor went on or was collected; safe at any line."""
        if run in self._runs and self._releases is not None:
            self._runs.discard(run)
            self._releases.add(run)

    def _room(self, *, everything: bool) -> Room:
        """What a statement of this process may use; beside workers, one worker's share."""
        workers = self.settings.worker_count if everything else 1
        return Room(
            scratch=self._scratch,
            threads=workers * self.settings.worker_threads,
            memory=workers * self.settings.memory_per_worker,
            spare=self._spare,
        )

    def _options(self) -> PlannerOptions:
        return PlannerOptions(
            workers=self.settings.worker_count,
            partitions=self.settings.partitions,
            single_task_limit=self.settings.single_task_limit,
            broadcast_bytes=self.settings.broadcast_bytes,
        )

    def _open(self) -> None:
        if self._closed:
            raise InterfaceError("the connection is closed")
