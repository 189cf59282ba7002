"""The desk in a process that has the engine: starts queries, keeps tables, reads results."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from coordinator_state.errors import NotFound
from coordinator_state.ids import QueryId
from coordinator_state.records import QueryStatus
from crossdock import cleanup
from crossdock.api import head
from crossdock.api.messages import (
    Action,
    Answer,
    Column,
    Describe,
    Done,
    DropTable,
    Explain,
    Explained,
    Export,
    Exported,
    ListTables,
    PageRead,
    Part,
    PutTable,
    ReadPage,
    Refusal,
    RefusalKind,
    Submit,
    TableDescription,
    TableEntry,
    TableList,
)
from crossdock.api.planning import House, Planning
from crossdock.api.refusals import Refused
from crossdock.api.submissions import Submissions
from crossdock.catalog import Catalog, TableMeta
from crossdock.cleanup import Medium
from crossdock.errors import (
    ObjectExists,
    ObjectNotFound,
    SettingError,
    SqlError,
    TableError,
)
from crossdock.planner.explain import explain_json, explain_text
from crossdock.platform.ports import Clock, Control, Ids
from crossdock.results.reader import Answer as ResultAnswer
from crossdock.results.reader import ResultReader
from crossdock.shuffle.layout import export_key


class EngineDesk:
    """Performs actions in this process. Threads may share one."""

    def __init__(
        self,
        medium: Medium,
        catalog: Catalog,
        reader: ResultReader,
        *,
        house: House,
        control: Control,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._medium = medium
        self._catalog = catalog
        self._reader = reader
        self._planning = Planning(catalog, house, medium.outbox)
        self._submissions = Submissions(
            medium, self._planning, house=house, control=control, clock=clock, ids=ids
        )

    def perform(self, action: Action) -> Answer:
        """Raises ``PlatformUnavailable`` and other faults; a caller's mistake is a ``Refusal``."""
        try:
            return self._perform(action)
        except Refused as refused:
            return refused.refusal
        except SettingError as error:
            return Refusal(kind=RefusalKind.SETTING, message=str(error))
        except SqlError as error:
            return Refusal(kind=RefusalKind.SQL, message=str(error))
        except TableError as error:
            return Refusal(kind=RefusalKind.TABLE, message=str(error))

    def _perform(self, action: Action) -> Answer:
        match action:
            case Submit():
                return self._submissions.submit(action)
            case Explain():
                settings = self._planning.chosen(action.settings)
                plan = self._planning.plan(action.sql, action.parameters, settings)
                return Explained(text=explain_text(plan), plan=explain_json(plan))
            case ReadPage():
                return self._page(action)
            case Export():
                return self._export(action)
            case ListTables() | Describe() | PutTable() | DropTable():
                return self._table(action)

    # -- results -----------------------------------------------------------------------------------

    def _page(self, request: ReadPage) -> PageRead:
        try:
            page = self._reader.page(
                self._result(request.query_id),
                (request.part, request.row),
                limit=request.limit,
                max_bytes=request.max_bytes,
            )
        except ObjectNotFound as error:
            raise Refused(RefusalKind.RESULT_GONE, "run the query again") from error
        rows = b"[" + b",".join(page.lines) + b"]"
        return PageRead(
            rows=rows.decode(), count=len(page.lines), next=page.next, too_large=page.too_large
        )

    def _export(self, request: Export) -> Exported:
        """One part after another; what an earlier request made is taken as it is."""
        answer = self._result(request.query_id)
        end = min(request.first + request.limit, len(answer.keys))
        parts = tuple(self._part(request, answer, number) for number in range(request.first, end))
        return Exported(parts=parts, next=end if end < len(answer.keys) else None)

    def _part(self, request: Export, answer: ResultAnswer, number: int) -> Part:
        objects = self._medium.objects
        key = export_key(request.query_id, request.format, number)
        try:
            return Part(key=key, size=objects.head(key).size)
        except ObjectNotFound:
            pass  # nobody asked for it yet
        with tempfile.TemporaryDirectory(dir=self._reader.scratch) as folder:
            file = Path(folder) / "part"
            try:
                self._reader.export(answer, number, request.format, file)
            except ObjectNotFound as error:
                raise Refused(RefusalKind.RESULT_GONE, "run the query again") from error
            with contextlib.suppress(ObjectExists):  # another request was faster
                objects.put_files(key, [file])
        return Part(key=key, size=objects.head(key).size)

    def _result(self, query_id: str) -> ResultAnswer:
        try:
            record = self._medium.store.get_query(QueryId(query_id))
        except NotFound as error:
            raise Refused(RefusalKind.UNKNOWN_QUERY, f"no query {query_id} is known") from error
        known = head.read(self._medium.objects, query_id)
        if record.status is not QueryStatus.SUCCEEDED or known is None:
            raise Refused(RefusalKind.RESULT_GONE, f"query {query_id} has no result any more")
        try:
            keys = cleanup.result_keys(self._medium.objects, record)
        except ObjectNotFound as error:
            raise Refused(RefusalKind.RESULT_GONE, "run the query again") from error
        return ResultAnswer(keys=keys, columns=known.columns, session=known.session)

    # -- tables ------------------------------------------------------------------------------------

    def _table(self, action: ListTables | Describe | PutTable | DropTable) -> Answer:
        catalog = self._catalog
        match action:
            case ListTables():
                names = catalog.names()
                return TableList(
                    tables=tuple(TableEntry(name=n, sources=catalog.sources(n)) for n in names)
                )
            case PutTable(name=name, sources=sources):
                meta = catalog.add(
                    name,
                    list(sources),
                    persistent=True,
                    format=action.format,
                    options=action.options,
                )
                return self._described(meta)
            case Describe(name=name):
                self._require_table(name)
                return self._described(catalog.describe(name))
            case DropTable(name=name):
                self._require_table(name)
                catalog.remove(name)
                return Done()

    def _require_table(self, name: str) -> None:
        if self._catalog.has(name):
            return
        close = self._catalog.nearest(name)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise Refused(RefusalKind.UNKNOWN_TABLE, f"no table is named {name}{hint}")

    def _described(self, meta: TableMeta) -> TableDescription:
        return TableDescription(
            name=meta.name,
            sources=self._catalog.sources(meta.name),
            columns=tuple(Column(name=c.name, type=c.type) for c in meta.columns),
            files=len(meta.files),
            rows=meta.rows,
            bytes=meta.size,
            counted=meta.is_counted,
        )
