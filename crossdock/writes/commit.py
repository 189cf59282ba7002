"""The commit of a statement that writes: the one step by which what its tasks wrote counts.

Any turn may make it, or make it again: a table changes in the transaction that ends the query, and
files of a COPY are shown after a point of no return, which every later turn goes on from.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import tenacity
import xxhash

from coordinator_state.errors import TableMoved
from coordinator_state.records import (
    ErrorRecord,
    QueryRecord,
    QueryStatus,
    TableChange,
    TableRecord,
)
from crossdock.cleanup import Medium
from crossdock.errors import ObjectExists, PlatformError, PlatformUnavailable
from crossdock.planner.plan import Existing, Write, WriteKind, decode_plan
from crossdock.platform.ports import Clock, Objects
from crossdock.shuffle import layout
from crossdock.tables import TableFile, TableManifest
from crossdock.writes.copying import refusal_of
from crossdock.writes.files import AttemptFiles, StagedFile

_log = logging.getLogger(__name__)

#: Lists of attempts read at once.
_READERS = 16
#: Commits to one table in a row that may come first, before the query waits for its next turn.
_TRIES = 20


class WriteRefused(Exception):
    """The target is not what the statement was made for; the message is for its user."""


class ShowingFailed(Exception):
    """Files of a COPY could not all be made visible; the message is for the statement's user."""


class Committer:
    """Commits what the last stage of a query wrote."""

    def __init__(self, medium: Medium, clock: Clock) -> None:
        self._medium = medium
        self._store = medium.store
        self._objects = medium.objects
        self._clock = clock

    def commit(self, query: QueryRecord, attempts: Sequence[str], rows: int) -> bool:
        """End the query: SUCCEEDED with its count, or FAILED in words. False: try again later.

        ``attempts`` are the objects that the committed attempts of the last stage left.
        """
        write = decode_plan(self._objects.get(query.plan_key)).write
        if write is None:
            raise ValueError(f"the plan of query {query.query_id} writes nothing")
        files = self._files(attempts)
        try:
            if write.kind is WriteKind.TABLE:
                self._commit_table(query, write, files, rows)
            else:
                self._commit_files(query, write, files, rows)
        except TableMoved:
            return False
        except WriteRefused as refusal:
            self._fail(query, refusal, committer=False)
        except ShowingFailed as failure:
            self._fail(query, failure, committer=True)
        return True

    def _files(self, attempts: Sequence[str]) -> list[StagedFile]:
        """In the order of the tasks."""
        with ThreadPoolExecutor(_READERS, thread_name_prefix="read-attempts") as pool:
            listed = pool.map(self._objects.get, attempts)
            found = [msgspec.json.decode(data, type=AttemptFiles) for data in listed]
        return [file for attempt in found for file in attempt.files]

    def _fail(self, query: QueryRecord, why: Exception, *, committer: bool) -> None:
        """``committer``: past the point of no return; before it, another turn may have gone on."""
        error = ErrorRecord(kind=type(why).__name__, message=str(why), scope="query")
        self._store.end_query(
            query.query_id,
            QueryStatus.FAILED,
            now=self._clock.now(),
            error=error,
            committer=committer,
        )

    def _succeed(
        self, query: QueryRecord, rows: int, table: TableChange | None = None
    ) -> QueryRecord:
        """The record as it stands. Raises ``TableMoved``."""
        key = layout.count_key(query.query_id, rows)
        _put_once(self._objects, key, _count(rows))
        return self._store.end_query(
            query.query_id,
            QueryStatus.SUCCEEDED,
            now=self._clock.now(),
            result=(key,),
            result_rows=1,
            table=table,
            committer=True,
        )

    # -- tables ------------------------------------------------------------------------------------

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(TableMoved),
        stop=tenacity.stop_after_attempt(_TRIES),
        wait=tenacity.wait_random(0.0, 0.05),
        reraise=True,
    )
    def _commit_table(
        self, query: QueryRecord, write: Write, files: Sequence[StagedFile], rows: int
    ) -> None:
        """Look at the table as it is now, and change it if it still is so."""
        standing = self._store.find_table(write.target)
        live = standing is not None and bool(standing.manifest)
        if live and write.existing is Existing.SKIP:
            self._succeed(query, 0)
            return
        if live and write.existing is Existing.REFUSE:
            raise WriteRefused(
                f"table {write.target} was created meanwhile; use CREATE OR REPLACE TABLE, or "
                "another name"
            )
        old = self._old_files(write, standing)
        new = [TableFile(key=file.name, size=file.size, rows=file.rows) for file in files]
        columns = tuple((column.name, column.type) for column in write.columns)
        data = msgspec.json.encode(TableManifest(columns=columns, files=(*old, *new)))
        key = layout.table_manifest_key(query.query_id, xxhash.xxh3_64_hexdigest(data))
        _put_once(self._objects, key, data)
        record = TableRecord(
            name=write.target,
            manifest=key,
            made_by=query.query_id,
            changed_at=self._clock.now(),
            retired=self._retired(write, standing),
        )
        change = TableChange(record=record, expected=standing.manifest if standing else "")
        self._succeed(query, rows, change)

    def _old_files(self, write: Write, standing: TableRecord | None) -> tuple[TableFile, ...]:
        """Those that an INSERT adds to. Raises ``WriteRefused`` if it is another table now."""
        if write.existing is not Existing.ADD:
            return ()
        if standing is None or not standing.manifest:
            raise WriteRefused(f"table {write.target} was dropped meanwhile")
        manifest = msgspec.json.decode(self._objects.get(standing.manifest), type=TableManifest)
        if manifest.columns != tuple((column.name, column.type) for column in write.columns):
            raise WriteRefused(
                f"table {write.target} was replaced meanwhile by one of other columns; "
                "run the statement again"
            )
        return manifest.files

    def _retired(self, write: Write, standing: TableRecord | None) -> tuple[tuple[str, float], ...]:
        if standing is None:
            return ()
        if write.existing is Existing.ADD or not standing.manifest:
            return standing.retired
        return (*standing.retired, (standing.manifest, self._clock.now()))

    # -- files -------------------------------------------------------------------------------------

    def _commit_files(
        self, query: QueryRecord, write: Write, files: Sequence[StagedFile], rows: int
    ) -> None:
        """Look once more, cross the point of no return, show, end.

        Every step after that point is safe to make again, by this turn or another.
        """
        shown = _worth_showing(files)
        if not query.committing:
            self._look_once_more(write, shown)
            if self._store.begin_commit(query.query_id).status is not QueryStatus.RUNNING:
                return
        try:
            self._show(write, shown)
        except ObjectExists as error:
            raise ShowingFailed(f"{error}; OVERWRITE true replaces it") from error
        except PlatformUnavailable:
            raise  # the next turn goes on
        except PlatformError as error:
            self._take_back(write, shown)
            raise ShowingFailed(f"the files cannot be made visible: {error}") from error
        if self._succeed(query, rows).status is not QueryStatus.SUCCEEDED:
            self._take_back(write, shown)  # another turn gave up meanwhile

    def _look_once_more(self, write: Write, shown: Sequence[StagedFile]) -> None:
        """Raises ``WriteRefused`` for files that came meanwhile.

        Not for the statement's own, which another turn may be showing; nor for one file, whose
        name is taken exclusively.
        """
        if write.one_file:
            return
        own = {file.name for file in shown}
        there = [name for name in self._medium.outbox.present(write.target) if name not in own]
        if refusal := refusal_of(write.target, write.existing, there):
            raise WriteRefused(refusal)

    def _show(self, write: Write, shown: Sequence[StagedFile]) -> None:
        outbox = self._medium.outbox
        exclusive = write.one_file and write.existing is Existing.REFUSE
        outbox.show(write.target, shown, replace=not exclusive)
        if write.existing is Existing.REPLACE and not write.one_file:
            own = {file.name for file in shown}
            outbox.remove(
                write.target, [name for name in outbox.present(write.target) if name not in own]
            )

    def _take_back(self, write: Write, shown: Sequence[StagedFile]) -> None:
        """Remove what was shown; of one file that replaced another, nothing can be restored."""
        if write.one_file:
            return
        try:
            self._medium.outbox.remove(write.target, [file.name for file in shown])
        except PlatformError as error:
            _log.warning("files below %s cannot be taken back: %s", write.target, error)


def _worth_showing(files: Sequence[StagedFile]) -> Sequence[StagedFile]:
    """Not those without rows, unless there are no others: one has the columns at least."""
    return [file for file in files if file.rows != 0] or files[:1]


def _put_once(objects: Objects, key: str, data: bytes) -> None:
    """``key`` names its content: finding it is as good as writing it."""
    try:
        objects.put(key, data)
    except ObjectExists:
        return


def _count(rows: int) -> bytes:
    """A result object of one row."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"c0": pa.array([rows], pa.int64())}), sink)
    return bytes(sink.getvalue().to_pybytes())
