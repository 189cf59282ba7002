"""PEP 249 connections: to this machine, or to a deployment's endpoint."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from crossdock.catalog import Catalog, Source
from crossdock.client.credentials import Auth
from crossdock.client.cursor import Cursor
from crossdock.client.drivers import OnProgress, Parameters, Run, Wishes
from crossdock.client.endpoints import chosen_endpoint
from crossdock.client.interrupts import unhindered
from crossdock.client.local import LocalDriver
from crossdock.client.releases import Releases
from crossdock.errors import InterfaceError, NotSupportedError, SettingError
from crossdock.planner.pivots import with_pivot_values
from crossdock.planner.plan import StagePlan
from crossdock.settings import Settings, from_environment, with_values

if TYPE_CHECKING:
    from crossdock.client.remote import RemoteDriver
    from crossdock.client.remote_tables import RemoteTables
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
    endpoint: str | None = None,
    auth: Auth | None = None,
    **settings: object,
) -> Connection:
    """Open a connection to this machine, or with an ``endpoint`` to a deployment.

    Workers of this machine start with the first query that needs them.

    Args:
        home: folder of state, queues, exchange objects and named tables (``.crossdock``).
        tables: names for a path, a glob, a folder, a list of paths or a ``pyarrow.Table``.
        workers: workers at once.
        exchange: ``s3qs`` (queues, early start), ``batch`` (barrier, no queues) or ``auto``.
        endpoint: address of a deployment's HTTP API; its tables, workers and settings are used.
            What is not given comes from CROSSDOCK_ENDPOINT, unless a ``home`` is given.
        auth: with an endpoint: ``iam`` (Signature Version 4, the default), ``Bearer <token>``, a
            function that gives a fresh token, or ``none``. CROSSDOCK_TOKEN is a bearer token.
        **settings: any other setting of ``crossdock.settings.FIELDS``. What is not given comes
            from the ``CROSSDOCK_*`` variables, then from the defaults.

    Raises:
        SettingError: a setting is unknown, out of range, or not for an endpoint.
        TableError: a table cannot be read.

    Example:
        >>> with crossdock.connect(tables={"t": "data/*.parquet"}) as con:
        ...     con.execute("SELECT count(*) FROM t").fetchone()
    """
    if not isinstance(tables or {}, Mapping):
        raise SettingError(f"tables = {tables!r}: a mapping of names to sources is wanted")
    given = dict(settings)
    if workers is not None:
        given["workers"] = workers
    if exchange != "auto":
        given["exchange"] = exchange
    address = chosen_endpoint(endpoint, home)
    if address:
        return Connection(_remote(address, auth, tables, given))
    if auth is not None:
        raise SettingError("auth: is for an endpoint; none is given")
    values = with_values(from_environment(os.environ), given)
    return Connection(LocalDriver(home_folder(home), values, tables or {}))


def _remote(
    endpoint: str, auth: Auth | None, tables: Mapping[str, Source] | None, given: dict[str, object]
) -> RemoteDriver:
    from crossdock.client.remote import remote_driver  # urllib3 and, to sign, the SDK

    if tables:
        raise SettingError(
            "tables: with an endpoint, tables are the deployment's; name them with "
            "connection.tables.add or `crossdock tables add`"
        )
    return remote_driver(endpoint, auth, given, os.environ)


def home_folder(home: str | os.PathLike[str] | None) -> Path:
    """The home folder to use. Raises ``SettingError`` when there can be none."""
    chosen = home or os.environ.get(HOME_VARIABLE) or DEFAULT_HOME
    if not isinstance(chosen, str | os.PathLike):
        raise SettingError(f"home = {chosen!r}: a folder's path is wanted")
    folder = Path(chosen).absolute()
    try:
        first = next(each for each in (folder, *folder.parents) if each.exists())
    except PermissionError as error:
        raise SettingError(f"home = {str(folder)!r}: no permission to look there") from error
    if not first.is_dir():
        there = "there is a file of that name" if first == folder else f"{first} is a file"
        raise SettingError(f"home = {str(folder)!r}: {there}")
    return folder


class Connection:
    """A session: its tables, its settings, its workers. Use it in a ``with`` block."""

    def __init__(self, driver: LocalDriver | RemoteDriver) -> None:
        self._driver = driver
        self._runs: set[Run] = set()  # open ones; their results go with them
        self._releases: Releases | None = None
        self._closed = False
        self._beginning = threading.Lock()  # no query begins while the connection closes

    @property
    def tables(self) -> Catalog | RemoteTables:
        """The tables of this connection; ``add``, ``remove``, ``names``, ``describe``."""
        return self._driver.tables

    @property
    def settings(self) -> Settings:
        """What was chosen; with an endpoint, the deployment has the rest."""
        return self._driver.settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        """For the next queries: partitions, sizes, threads. Workers already started stay."""
        self._local.settings = settings

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
        """No effect: every statement commits by itself."""
        self._open()

    def rollback(self) -> None:
        """Raises ``NotSupportedError``: there are no transactions."""
        raise NotSupportedError("every statement commits by itself; there is nothing to roll back")

    def close(self) -> None:
        """Cancel what runs, end the workers, delete results; closing again is no error."""
        with self._beginning:
            if self._closed:
                return
            self._closed = True
        unhindered(self._let_go)

    def _let_go(self) -> None:
        try:
            for run in tuple(self._runs):
                run.cancel()
                self._end(run)
            if self._releases is not None:
                self._releases.close()
        finally:
            self._driver.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # -- beyond PEP 249 ----------------------------------------------------------------------------

    def explain(self, sql: str, parameters: Parameters | None = None) -> StagePlan:
        """The stage plan of a query, which is not run."""
        self._open()
        return self._driver.explain(self._statement(sql), parameters)

    @property
    def platform(self) -> LocalPlatform:
        """The local platform, opened at its first use. With an endpoint: ``InterfaceError``."""
        self._open()
        return self._local.platform

    @property
    def home(self) -> Path:
        """The home folder. With an endpoint: ``InterfaceError``."""
        return self._local.home

    @property
    def _local(self) -> LocalDriver:
        if not isinstance(self._driver, LocalDriver):
            raise InterfaceError("this connection's queries run in a deployment, not here")
        return self._driver

    def _begin(self, sql: str, parameters: Parameters | None, wishes: Wishes) -> Run:
        self._open()
        sql = self._statement(sql)
        with self._beginning:
            self._open()
            run = self._driver.begin(sql, parameters, wishes)
            self._runs.add(run)
            if self._releases is None:
                self._releases = Releases()
            return run

    def _statement(self, sql: str) -> str:
        """The text to run: values of a PIVOT that lists none are asked for."""
        if not isinstance(sql, str):
            raise InterfaceError(f"a statement is a str, not {type(sql).__name__}")
        return with_pivot_values(sql, self._texts)

    def _texts(self, sql: str) -> list[str]:
        """The one text column of a query's rows."""
        with self.cursor() as cursor:
            return [row[0] for row in cursor.execute(sql).fetchall()]

    def _end(self, run: Run) -> None:
        """Close a run now."""
        self._runs.discard(run)
        unhindered(run.close)

    def _end_soon(self, run: Run) -> None:
        """Close a run whose cursor went on or was collected; safe at any line."""
        if run in self._runs and self._releases is not None:
            self._runs.discard(run)
            self._releases.add(run)

    def _open(self) -> None:
        if self._closed:
            raise InterfaceError("the connection is closed")
