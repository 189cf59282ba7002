"""Statements the client runs itself: a one-task query, and the decoding of a result's files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from crossdock.client.interrupts import stoppable
from crossdock.client.rows import Rows
from crossdock.errors import CrossdockError, QueryCancelled, QueryFailed
from crossdock.executor.damage import with_damaged_file
from crossdock.executor.engine import Furnishing, Spare, connect, lock
from crossdock.executor.failures import classify
from crossdock.executor.inputs import (
    Reading,
    in_users_words,
    open_slices,
    slices_of,
)
from crossdock.executor.interrupt import Interrupt
from crossdock.executor.memory_advice import with_advice
from crossdock.executor.scans import scan_query
from crossdock.executor.sources import Sources
from crossdock.executor.types import quote
from crossdock.planner.plan import StagePlan
from crossdock.results.decoding import as_text, result_query

__all__ = ["Room", "as_text", "open_one_task", "open_result", "result_query"]

#: Told once how a statement ended: rows read, and the error if one ended it.
OnEnd = Callable[[int, BaseException | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a statement of the client may use: a folder to spill into, threads, memory in bytes."""

    scratch: Path
    threads: int
    memory: int
    sources: Sources  # of the files a statement reads
    spare: Spare | None = None  # an engine opened ahead


def open_one_task(plan: StagePlan, room: Room, on_end: OnEnd) -> Rows:
    """The user's own text over the plan's files, ready to ``start`` with ``plan``'s fragment."""
    stage = plan.stages[-1]
    scans = [(scan, slices_of(scan, 0)) for scan in stage.scans]
    readings: list[Reading] = []
    paths: list[Path] = []

    def prepare(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
        all_opened = open_slices(room.sources, scans, folder)
        for (scan, _), opened in zip(scans, all_opened, strict=True):
            readings.extend(Reading(each, scan.columns) for each in opened)
            paths.extend(path for each in opened for path in each.paths)
            query = scan_query(connection, scan, opened)
            connection.execute(f"CREATE VIEW {quote(scan.table)} AS {query}")

    return _open(plan, room, prepare, paths, on_end, readings)


def open_result(plan: StagePlan, files: Sequence[Path], room: Room, on_end: OnEnd) -> Rows:
    """A distributed result's files, ready to ``start`` with ``result_query``."""
    return _open(plan, room, lambda _connection, _folder: None, files, on_end)


def _open(
    plan: StagePlan,
    room: Room,
    prepare: Callable[[duckdb.DuckDBPyConnection, Path], None],
    paths: Sequence[Path],
    on_end: OnEnd,
    readings: Sequence[Reading] = (),
) -> Rows:
    room.scratch.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="client-", dir=room.scratch)).absolute()
    inputs = [slice.path for scan in plan.stages[-1].scans for slice in slices_of(scan, 0)]

    def translate(error: duckdb.Error) -> CrossdockError:
        if isinstance(error, duckdb.InterruptException):
            return QueryCancelled("the query was cancelled")
        record = with_damaged_file(classify(error, inputs), readings)
        record = with_advice(record, readings, room.memory)
        return QueryFailed(in_users_words(record, readings).message, kind=record.kind)

    stop = Interrupt()

    def furnished() -> duckdb.DuckDBPyConnection:
        connection = connect(
            Furnishing(
                folder=folder,
                memory_bytes=room.memory,
                threads=room.threads,
                ordered=True,
                session=plan.session,
            ),
            room.spare,
        )
        stop.bind(connection)
        prepare(connection, folder)
        stop.check()
        lock(connection, paths, folder)
        stop.bind(None)
        return connection

    try:
        connection = stoppable(furnished, stop.fire)
    except duckdb.Error as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise translate(error) from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise

    def end(rows: int, error: BaseException | None) -> None:
        if room.spare is not None:
            room.spare.prepare()  # while the caller looks at the rows
        on_end(rows, error)

    return Rows(
        connection,
        translate=translate,
        on_end=end,
        on_close=lambda: shutil.rmtree(folder, ignore_errors=True),
    )
