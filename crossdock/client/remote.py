"""The driver of a deployment: queries run there, rows are decoded here."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from coordinator_state.records import QueryStatus
from crossdock.api.limits import MAX_PARTS, MAX_WAIT_SECONDS
from crossdock.api.models import (
    ExplainBody,
    ExplainDocument,
    Form,
    QueryDocument,
    ResultPart,
    ResultParts,
    SubmitBody,
)
from crossdock.client.credentials import Auth
from crossdock.client.documents import progress_of, receipt_of
from crossdock.client.drivers import Parameters, Run, Wishes
from crossdock.client.endpoints import http_api
from crossdock.client.http import HttpApi, quoted
from crossdock.client.remote_tables import RemoteTables
from crossdock.client.rows import Rows
from crossdock.client.statements import Room, as_text, open_result, result_query
from crossdock.errors import (
    CrossdockError,
    PlatformError,
    QueryCancelled,
    QueryFailed,
    SettingError,
)
from crossdock.executor.sources import LocalSources
from crossdock.planner.plan import ResultColumn, Stage, StagePlan
from crossdock.receipt import Receipt
from crossdock.settings import FIELDS, SETTABLE, Settings, from_environment, with_values

#: Seconds one look may wait for the query's end while somebody watches its progress.
_WATCHED_WAIT = 0.5
#: Result files fetched at once.
_FETCHES = 8
#: Memory of the engine that decodes results, in bytes.
_MEMORY = 1024 * 1024 * 1024


_NAMES = frozenset(field.name for field in FIELDS)
#: What a query may choose of its deployment; ``timeout_seconds`` travels beside them.
_SENT = SETTABLE | {"timeout_seconds"}


def remote_driver(
    endpoint: str, auth: Auth | None, given: Mapping[str, object], environment: Mapping[str, str]
) -> RemoteDriver:
    """A driver that sends the settings given here, or by CROSSDOCK_* variables.

    Raises ``SettingError`` for a setting that is the deployment's alone.
    """
    for name in given:
        if name in _NAMES and name not in _SENT:
            raise SettingError(f"{name}: is the deployment's to set, not a connection's")
    settings = with_values(from_environment(environment), given)
    defaults = Settings()
    chosen = {
        name: value
        for name in sorted(SETTABLE)
        if (value := getattr(settings, name)) != getattr(defaults, name)
    }
    scratch = Path(tempfile.gettempdir()) / "crossdock-results"
    room = Room(
        scratch=scratch, threads=os.cpu_count() or 1, memory=_MEMORY, sources=LocalSources()
    )
    return RemoteDriver(http_api(endpoint, auth), settings, chosen, room)


class RemoteDriver:
    """Queries in a deployment (``drivers.Driver``). Threads may share it."""

    def __init__(
        self, api: HttpApi, settings: Settings, chosen: Mapping[str, object], room: Room
    ) -> None:
        """``chosen``: the settings sent with each query; the deployment has the others."""
        self.api = api
        self.settings = settings
        self.tables = RemoteTables(api)
        self._chosen = dict(chosen)
        self._room = room

    def begin(self, sql: str, parameters: Parameters | None, wishes: Wishes) -> Run:
        """The token makes a repeated request the same query."""
        body = SubmitBody(
            sql=sql,
            parameters=plain(parameters),
            client_token=uuid.uuid4().hex,
            settings=self._chosen,  # type: ignore[arg-type]
            timeout_seconds=self.settings.timeout_seconds,
        )
        try:
            document = self.api.call("POST", "/queries", QueryDocument, body=body)
        except KeyboardInterrupt:
            # Whether it was begun is not known here: its token tells, and it is ended.
            begun = self.api.call("POST", "/queries", QueryDocument, body=body)
            self.api.call("DELETE", f"/queries/{quoted(begun.query_id)}", QueryDocument)
            raise
        return RemoteRun(self.api, document, self._room, wishes)

    def explain(self, sql: str, parameters: Parameters | None) -> StagePlan:
        body = ExplainBody(sql=sql, parameters=plain(parameters), settings=self._chosen)  # type: ignore[arg-type]
        document = self.api.call("POST", "/explain", ExplainDocument, body=body)
        return msgspec.convert(document.plan, StagePlan)

    def close(self) -> None:
        self.api.close()


class RemoteRun(Run):
    """A query of a deployment. Its result stays there until its days are over."""

    def __init__(self, api: HttpApi, document: QueryDocument, room: Room, wishes: Wishes) -> None:
        self.query_id = document.query_id
        self.columns = [ResultColumn(name=c.name, type=c.type) for c in document.columns]
        self.labels: Sequence[str] = [stage.label for stage in document.stages]
        self.plan = None
        self._api = api
        self._path = f"/queries/{quoted(document.query_id)}"
        self._room = room
        self._wishes = wishes
        self._document = document
        self._session: tuple[tuple[str, str], ...] = ()
        self._rows: Rows | None = None
        self._folder: Path | None = None
        self._began = time.perf_counter()
        self._seconds = 0.0  # to the last row, once it was read

    def start(self) -> Rows:
        try:
            document = self._wait()
        except BaseException:
            self._end_there()
            raise
        _raise_unless_succeeded(document)
        self.columns = [ResultColumn(name=c.name, type=c.type) for c in document.columns]
        self._folder = self._make_folder()
        try:
            parts = list(self._parts())
            files = self._fetch(parts)
            plan = _result_only(self.columns, self._session)
            rows = open_result(plan, files, self._room, self._ended)
            chosen = self._wishes.as_text
            sql = result_query(self.columns, files)
            rows.start(as_text(sql, self.columns, chosen) if chosen else sql)
        except BaseException:
            self.close()
            raise
        self._rows = rows
        return rows

    def cancel(self) -> None:
        self._end_there()
        if self._rows is not None:
            self._rows.interrupt()

    @property
    def receipt(self) -> Receipt:
        seconds = self._seconds or time.perf_counter() - self._began
        return receipt_of(self._document, seconds=seconds)

    def close(self) -> None:
        if self._rows is not None:
            self._rows.close()
        self._end_there()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    # -- steps -------------------------------------------------------------------------------------

    def _wait(self) -> QueryDocument:
        watched = self._wishes.on_progress
        wait = MAX_WAIT_SECONDS if watched is None else _WATCHED_WAIT
        while True:
            document = self._api.call("GET", self._path, QueryDocument, query={"wait": wait})
            self._document = document
            self.labels = [stage.label for stage in document.stages]
            if document.status is not QueryStatus.RUNNING:
                return document
            if watched is not None:
                watched(progress_of(document))

    def _end_there(self) -> None:
        if self._document.status is QueryStatus.RUNNING:
            self._document = self._api.call("DELETE", self._path, QueryDocument)

    def _parts(self) -> Iterator[ResultPart]:
        token = ""
        while True:
            query = {"format": Form.ENGINE.value, "limit": MAX_PARTS}
            if token:
                query["token"] = token
            page = self._api.call("GET", f"{self._path}/results", ResultParts, query=query)
            self._session = tuple(page.session.items())
            yield from page.parts
            if page.next is None:
                return
            token = page.next

    def _fetch(self, parts: Sequence[ResultPart]) -> list[Path]:
        """Every part as a file. Raises ``PlatformError`` for one that is not whole."""
        folder = self._folder
        assert folder is not None

        def fetch(number: int) -> Path:
            target = folder / f"{number:06d}.parquet"
            self._api.download(parts[number].url, target)
            if target.stat().st_size != parts[number].size:
                raise PlatformError(f"part {number} of the result came incomplete; read it again")
            return target

        with ThreadPoolExecutor(_FETCHES, thread_name_prefix="fetch-result") as threads:
            return list(threads.map(fetch, range(len(parts))))

    def _make_folder(self) -> Path:
        self._room.scratch.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="result-", dir=self._room.scratch)).absolute()

    def _ended(self, rows: int, error: BaseException | None) -> None:
        self._seconds = time.perf_counter() - self._began


def plain(parameters: Parameters | None) -> list[object] | dict[str, object] | None:
    """Parameters as JSON has them: decimals, dates and the like as texts, to be cast in the SQL.

    Raises ``CrossdockError`` for a value that JSON cannot hold.
    """
    if parameters is None:
        return None
    try:
        values = dict(parameters) if isinstance(parameters, Mapping) else list(parameters)
        built: list[object] | dict[str, object] = msgspec.to_builtins(values, enc_hook=_no_json)
    except TypeError as error:
        raise CrossdockError(str(error)) from error
    return built


def _no_json(value: object) -> object:
    raise TypeError(f"a parameter of type {type(value).__name__} cannot be sent; pass it as text")


def _result_only(columns: Sequence[ResultColumn], session: Sequence[tuple[str, str]]) -> StagePlan:
    """A plan that says nothing but what the result is."""
    stage = Stage(stage=0, fragment="", columns=(), tasks=1)
    return StagePlan(
        engine="", sql="", columns=tuple(columns), stages=(stage,), session=tuple(session)
    )


def _raise_unless_succeeded(document: QueryDocument) -> None:
    if document.status is QueryStatus.SUCCEEDED:
        return
    error = document.error
    message = error.message if error else "no reason was recorded"
    if document.status is QueryStatus.CANCELLED:
        raise QueryCancelled(message if error else "the query was cancelled")
    raise QueryFailed(message, kind=error.kind if error else "", query_id=document.query_id)
