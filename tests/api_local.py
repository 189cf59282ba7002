"""The HTTP API over a local home: the same routes, desk and engine, no gateway and no functions."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from coordinator_state.ids import QueryId
from crossdock.api.api import Api, Request, Response
from crossdock.api.desk import EngineDesk
from crossdock.api.messages import Action, Answer, Desk
from crossdock.api.planning import House
from crossdock.api.ports import Caller, Others
from crossdock.api.queries import Queries
from crossdock.api.results import Results
from crossdock.api.routes import ROUTES
from crossdock.catalog import Catalog, Source
from crossdock.local import LocalPlatform
from crossdock.platform.clock import SystemClock
from crossdock.platform.ids import RandomIds
from crossdock.platform.ports import Clock
from crossdock.results.reader import ResultReader
from crossdock.settings import Settings
from crossdock.writes.tables import StoredTables

ALICE, BOB = Caller("alice"), Caller("bob")
_BY_NAME = {route.name: route for route in ROUTES}


class DrivingControl:
    """Drives a query in a thread from its first alarm to its close, as alarms do on AWS."""

    def __init__(self, platform: LocalPlatform) -> None:
        self._platform = platform
        self._threads = ThreadPoolExecutor(64, thread_name_prefix="drive")
        self._driven: set[str] = set()
        self._lock = threading.Lock()
        self.paused = False

    def notify(self, query_id: str) -> None:
        self._drive(query_id)

    def tick(self, query_id: str, number: int, *, delay: float) -> None:
        self._drive(query_id)

    def _drive(self, query_id: str) -> None:
        with self._lock:
            if self.paused or query_id in self._driven:
                return
            self._driven.add(query_id)
        self._threads.submit(self._platform.wait, QueryId(query_id))

    def close(self) -> None:
        self._threads.shutdown(wait=True)


@dataclass(frozen=True)
class FolderPresigner:
    base: str

    def url(self, key: str, *, seconds: int) -> str:
        return f"{self.base}/{key}"


class RecordingDesk:
    """Passes actions on and remembers them; each crosses as JSON, as it would between functions."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.actions: list[Action] = []

    def perform(self, action: Action) -> Answer:
        self.actions.append(action)
        sent = msgspec.json.decode(msgspec.json.encode(action), type=Action)
        return msgspec.json.decode(msgspec.json.encode(self._desk.perform(sent)), type=Answer)


@dataclass(frozen=True, kw_only=True)
class LocalApi:
    platform: LocalPlatform
    control: DrivingControl
    desk: RecordingDesk
    queries: Queries
    api: Api
    catalog: Catalog

    def call(
        self,
        route: str,
        /,
        *,
        caller: Caller | None = ALICE,
        body: object = None,
        query: Mapping[str, object] | None = None,
        **parameters: str,
    ) -> Response:
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        request = Request(
            caller=caller,
            parameters=parameters,
            query={key: str(value) for key, value in (query or {}).items()},
            body=b"" if body is None else data,
        )
        return self.api.answer(_BY_NAME[route], request)

    def ok(self, route: str, /, **given: Any) -> Any:
        """The document of a call that must succeed."""
        response = self.call(route, **given)
        assert response.status == _BY_NAME[route].status, response.body.decode()
        return msgspec.json.decode(response.body) if response.body else None

    def run(self, sql: str, *, caller: Caller = ALICE, **more: object) -> Any:
        """Submit and wait; the ended query's document."""
        submitted = self.ok("submit", caller=caller, body={"sql": sql, **more})
        document = submitted
        for _ in range(6):
            if document["status"] != "RUNNING":
                break
            document = self.ok(
                "get", caller=caller, query_id=submitted["query_id"], query={"wait": 10}
            )
        return document

    def rows(self, document: Any, *, size: int = 1000) -> list[Any]:
        """All rows of an ended query, page after page."""
        assert document["status"] == "SUCCEEDED", document
        found: list[Any] = []
        token = ""
        while True:
            query = {"limit": size, **({"token": token} if token else {})}
            page = self.ok("results", query_id=document["query_id"], query=query)
            found += page["rows"]
            token = page.get("next", "")
            if not token:
                return found


@contextmanager
def local_api(
    home: Path,
    tables: Mapping[str, Source],
    *,
    others: Others = Others.HIDDEN,
    open_queries: int = 100,
    presign_base: str = "http://127.0.0.1",
    clock: Clock | None = None,
    catalog: Catalog | None = None,
    **settings: Any,
) -> Iterator[LocalApi]:
    chosen = Settings(workers=2, single_task_bytes=0, broadcast_bytes=0, timezone="UTC", **settings)
    platform = LocalPlatform(home, chosen)
    control = DrivingControl(platform)
    written = StoredTables(
        platform.store, platform.objects, lambda key: str(platform.home.object_path(key))
    )
    catalog = catalog or Catalog(home, written=written)
    for name, source in tables.items():
        catalog.add(name, source)
    clock = clock or SystemClock()
    desk = RecordingDesk(
        EngineDesk(
            platform.medium,
            catalog,
            ResultReader(platform.objects, home / "reader", memory=500_000_000),
            house=House(settings=chosen, open_queries=open_queries),
            control=control,
            clock=clock,
            ids=RandomIds(),
        )
    )
    queries = Queries(
        platform.store,
        platform.objects,
        desk=desk,
        control=control,
        clock=clock,
        others=others,
    )
    results = Results(queries, platform.objects, desk=desk, presigner=FolderPresigner(presign_base))
    try:
        yield LocalApi(
            platform=platform,
            control=control,
            desk=desk,
            queries=queries,
            api=Api(queries, results, desk),
            catalog=catalog,
        )
    finally:
        for query_id in platform.store.open_queries():
            platform.cancel(query_id)
        control.close()
        platform.close()
        catalog.close()
