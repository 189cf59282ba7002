"""Statements that write, when workers, coordinators or other statements get in their way."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

import crossdock
from coordinator_state.errors import StoreUnavailable
from coordinator_state.ids import QueryId, StageId
from coordinator_state.records import QueryRecord, QueryStatus
from crossdock.cleanup import Medium
from crossdock.client.connection import Connection
from crossdock.coordinator import Coordinator
from crossdock.errors import PlatformDenied, QueryCancelled
from crossdock.local.home import Home, Parts, open_parts
from crossdock.local.written import HomeTables
from crossdock.planner.plan import Existing, FileSlice, ResultColumn, StagePlan, Write, WriteKind
from crossdock.platform.clock import SystemClock
from crossdock.platform.ids import RandomIds
from crossdock.platform.meter import CountingMeter
from crossdock.settings import Exchange
from crossdock.submit import QueryOptions, submit
from crossdock.writes.commit import Committer
from crossdock.writes.outbox import Outbox
from tests.home_contents import leftovers, statuses
from tests.integration import handmade
from tests.integration.handmade import expected, two_stages, write_files
from tests.integration.test_coordinator_resume import CutStore, Threads, coordinator
from tests.observed import PATIENCE, observe, running, until, worker_processes

COLUMNS = (ResultColumn(name="k", type="BIGINT"), ResultColumn(name="s", type="BIGINT"))
COUNT = (ResultColumn(name="Count", type="BIGINT"),)
#: What commits leave beside receipts.
KEPT = ("receipt", "data")


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    opened = open_parts(Home(tmp_path / "home"), CountingMeter())
    yield opened
    opened.close()


def writing(plan: StagePlan, write: Write) -> StagePlan:
    return msgspec.structs.replace(plan, columns=COUNT, write=write)


def table(name: str = "t", existing: Existing = Existing.REFUSE) -> Write:
    return Write(kind=WriteKind.TABLE, target=name, columns=COLUMNS, existing=existing)


def files(target: Path, existing: Existing = Existing.REFUSE) -> Write:
    return Write(kind=WriteKind.FILES, target=str(target), columns=COLUMNS, existing=existing)


def inputs(tmp_path: Path) -> tuple[FileSlice, ...]:
    """A folder of its own for each query: files that are written again have changed."""
    folder = tmp_path / f"in-{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    return write_files(folder, 2)


def begin(medium: Medium, tmp_path: Path, write: Write) -> QueryId:
    return submit(
        medium.store,
        medium.objects,
        writing(two_stages(inputs(tmp_path)), write),
        QueryOptions(exchange=Exchange.S3QS, workers=2),
        clock=SystemClock(),
        ids=RandomIds(),
    )


def drive(
    parts: Parts, query_id: QueryId, first: Coordinator, then: Coordinator | None = None
) -> QueryRecord:
    """Turns of ``first`` until it is cut off, then of ``then``, to the second end."""
    turn: Callable[[QueryId], Any] = first.turn
    deadline = time.monotonic() + PATIENCE
    while True:
        assert time.monotonic() < deadline
        try:
            result = turn(query_id)
        except StoreUnavailable:
            turn = (then or first).turn
            continue
        if result.finished:
            return parts.medium.store.get_query(query_id)
        if result.delay:
            parts.store.wait_for_change(min(result.delay, 0.05))


def until_it_dies(mortal: Coordinator, query_id: QueryId) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            mortal.turn(query_id)
        except StoreUnavailable:
            return
    pytest.fail("it did not come so far")


def rows_of_table(home: Path, name: str = "t") -> list[tuple[int, int]]:
    tables = HomeTables(Home(home))
    found = tables.get(name)
    tables.close()
    assert found is not None
    return duckdb.sql(f"SELECT * FROM read_parquet({list(found.paths)}) ORDER BY ALL").fetchall()


def rows_below(folder: Path) -> list[tuple[int, int]]:
    return duckdb.sql(f"SELECT * FROM '{folder}/**/*.parquet' ORDER BY ALL").fetchall()


def left(tmp_path: Path, *kept: str) -> list[str]:
    """But for scratch folders, which the platform's own clean-up removes."""
    lines = leftovers(tmp_path / "home", kept=kept)
    return [line for line in lines if not line.startswith("scratch ")]


# -- the coordinator dies --------------------------------------------------------------------------


def cut_points() -> list[int]:
    """Writes of a whole query of two stages; the commit is among the last of them."""
    return [10, 14, 18, 20, 22, 24, 26, 28]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", cut_points())
def test_a_commit_cut_off_at_any_write_is_made_once_by_the_next_turn(
    parts: Parts, tmp_path: Path, at: int, after: bool
) -> None:
    """Every other cut is of a COPY, whose commit has a point of no return."""
    copies = at % 4 == 0
    target = tmp_path / "out"
    launcher = Threads(tmp_path / "home")
    query_id = begin(parts.medium, tmp_path, files(target) if copies else table())
    medium = parts.medium
    cut: Any = CutStore(medium.store, at, after=after)
    first = coordinator(Medium(cut, medium.queues, medium.objects, medium.outbox), launcher)
    record = drive(parts, query_id, first, coordinator(medium, launcher))
    for thread in launcher.threads:
        thread.join()
    assert record.status is QueryStatus.SUCCEEDED
    found = rows_below(target) if copies else rows_of_table(tmp_path / "home")
    assert found == expected(2)
    assert left(tmp_path, *KEPT, "result") == []
    (answer,) = record.result
    path = Home(tmp_path / "home").object_path(answer)
    assert duckdb.sql(f"FROM read_parquet('{path}')").fetchall() == [(10,)]


class Dying:
    """An outbox that fails after so many shown files; then it is whole again."""

    def __init__(self, outbox: Outbox, shown: int, error: Exception) -> None:
        self._outbox = outbox
        self._left = shown
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outbox, name)

    def show(self, target: str, files: Any, *, replace: bool) -> None:
        for file in files:
            if self._left == 0:
                self._left -= 1
                raise self._error
            self._left -= 1
            self._outbox.show(target, [file], replace=replace)


@pytest.mark.parametrize("shown", [0, 1])
def test_a_copy_whose_commit_dies_between_two_files_is_finished_by_the_next_turn(
    parts: Parts, tmp_path: Path, shown: int
) -> None:
    medium, launcher = parts.medium, Threads(tmp_path / "home")
    target = tmp_path / "out"
    query_id = begin(medium, tmp_path, files(target))
    dying: Any = Dying(medium.outbox, shown, StoreUnavailable("the process died"))
    first = coordinator(Medium(medium.store, medium.queues, medium.objects, dying), launcher)
    until_it_dies(first, query_id)
    assert len(list(target.glob("*.parquet"))) == shown
    # Too late to cancel: some of it may be seen already.
    assert first.cancel(query_id).status is QueryStatus.RUNNING
    record = drive(parts, query_id, coordinator(medium, launcher))
    assert record.status is QueryStatus.SUCCEEDED
    assert rows_below(target) == expected(2)
    assert len(list(target.rglob("*"))) == 2
    assert left(tmp_path, *KEPT, "result") == []


def test_a_turn_that_read_the_query_before_another_began_its_commit_does_not_fail_it(
    parts: Parts, tmp_path: Path
) -> None:
    """Its own files are there already, and it does not know yet."""
    medium, launcher = parts.medium, Threads(tmp_path / "home")
    target = tmp_path / "out"
    query_id = begin(medium, tmp_path, files(target))
    dying: Any = Dying(medium.outbox, 1, StoreUnavailable("the process died"))
    first = coordinator(Medium(medium.store, medium.queues, medium.objects, dying), launcher)
    until_it_dies(first, query_id)
    stale = msgspec.structs.replace(medium.store.get_query(query_id), committing=False)
    tasks = medium.store.tasks(query_id, StageId(1))
    attempts = [task.commit.object_key for task in tasks if task.commit]
    assert Committer(medium, SystemClock()).commit(stale, attempts, 10)
    assert medium.store.get_query(query_id).status is QueryStatus.SUCCEEDED
    assert rows_below(target) == expected(2)
    assert drive(parts, query_id, coordinator(medium, launcher)).closed


def test_a_copy_that_cannot_be_shown_is_taken_back_and_fails_in_words(
    parts: Parts, tmp_path: Path
) -> None:
    medium, launcher = parts.medium, Threads(tmp_path / "home")
    target = tmp_path / "out"
    query_id = begin(medium, tmp_path, files(target))
    dying: Any = Dying(medium.outbox, 1, PlatformDenied("no permission to write there"))
    only = coordinator(Medium(medium.store, medium.queues, medium.objects, dying), launcher)
    record = drive(parts, query_id, only)
    assert record.status is QueryStatus.FAILED
    assert record.error is not None
    assert "no permission to write there" in record.error.message
    assert list(target.rglob("*")) == []
    assert left(tmp_path, "receipt") == []


def test_files_that_appeared_while_a_copy_ran_are_not_added_to(
    parts: Parts, tmp_path: Path
) -> None:
    medium, launcher = parts.medium, Threads(tmp_path / "home")
    target = tmp_path / "out"
    query_id = begin(medium, tmp_path, files(target))
    target.mkdir()
    (target / "other.parquet").write_text("somebody else's")
    record = drive(parts, query_id, coordinator(medium, launcher))
    assert record.status is QueryStatus.FAILED
    assert record.error is not None
    assert "is not empty" in record.error.message
    assert [path.name for path in target.rglob("*")] == ["other.parquet"]
    assert left(tmp_path, "receipt") == []


# -- other statements ------------------------------------------------------------------------------


def test_of_two_that_create_one_table_one_wins_and_the_other_says_so(
    parts: Parts, tmp_path: Path
) -> None:
    launcher = Threads(tmp_path / "home")
    queries = [begin(parts.medium, tmp_path, table()) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        made = [
            pool.submit(drive, parts, query, coordinator(parts.medium, launcher))
            for query in queries
        ]
    records = [one.result() for one in made]
    assert sorted(record.status for record in records) == ["FAILED", "SUCCEEDED"]
    (lost,) = [record.error for record in records if record.error]
    assert "was created meanwhile" in lost.message
    assert rows_of_table(tmp_path / "home") == expected(2)
    (won,) = [record.query_id for record in records if record.status is QueryStatus.SUCCEEDED]
    data = {path.parent.name for path in (tmp_path / "home/objects/data").rglob("*.parquet")}
    assert data == {won}


def test_inserts_at_the_same_time_all_land_once(parts: Parts, tmp_path: Path) -> None:
    launcher = Threads(tmp_path / "home")
    drive(parts, begin(parts.medium, tmp_path, table()), coordinator(parts.medium, launcher))
    queries = [begin(parts.medium, tmp_path, table(existing=Existing.ADD)) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        made = [
            pool.submit(drive, parts, query, coordinator(parts.medium, launcher))
            for query in queries
        ]
    assert {one.result().status for one in made} == {QueryStatus.SUCCEEDED}
    assert rows_of_table(tmp_path / "home") == sorted(5 * expected(2))


def test_an_insert_into_a_table_that_was_dropped_or_replaced_meanwhile_fails(
    parts: Parts, tmp_path: Path
) -> None:
    launcher = Threads(tmp_path / "home")
    drive(parts, begin(parts.medium, tmp_path, table()), coordinator(parts.medium, launcher))
    other = msgspec.structs.replace(
        table(existing=Existing.ADD), columns=(COLUMNS[0], ResultColumn(name="z", type="BIGINT"))
    )
    replaced = begin(parts.medium, tmp_path, other)
    record = drive(parts, replaced, coordinator(parts.medium, launcher))
    assert record.error is not None
    assert "replaced meanwhile" in record.error.message
    tables = HomeTables(Home(tmp_path / "home"))
    assert tables.drop("T")
    tables.close()
    dropped = begin(parts.medium, tmp_path, table(existing=Existing.ADD))
    record = drive(parts, dropped, coordinator(parts.medium, launcher))
    assert record.error is not None
    assert "dropped meanwhile" in record.error.message


# -- workers and clients die -----------------------------------------------------------------------

CREATE = "CREATE TABLE made AS SELECT k, sum(v) AS s FROM t GROUP BY k"


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    observe(monkeypatch, tmp_path / "hooks")
    write_files(tmp_path, 3)
    with crossdock.connect(
        home=tmp_path / "home",
        tables={"t": tmp_path / "part-*.parquet"},
        workers=2,
        worker_memory="512MB",
        single_task_bytes=0,
        partitions=3,
        lease_seconds=2,
        max_attempts=10,
    ) as opened:
        yield opened


@pytest.mark.parametrize("seed", range(6))
def test_a_worker_killed_while_it_writes_costs_nothing_but_time(
    seed: int, connection: Connection, tmp_path: Path
) -> None:
    generator = random.Random(seed)
    target = tmp_path / "out"
    copies = seed % 2 == 0
    sql = CREATE
    if copies:
        sql = f"COPY (SELECT k, sum(v) AS s FROM t GROUP BY k) TO '{target}' (PARTITION_BY (k))"
    steps = handmade.steps
    with running(connection, sql) as query:
        wanted = ("ran-1", "written-1", "committing-1")[seed % 3]
        until(
            lambda: (
                query.over or any(n.startswith(wanted) for _, n, _ in steps(tmp_path / "hooks"))
            ),
            wanted,
        )
        if workers := worker_processes(connection.home):
            os.kill(generator.choice(workers), signal.SIGKILL)
        query.join()
    assert query.error is None
    assert query.rows == [(10,)]
    query.cursor.close()
    if copies:
        found = duckdb.sql(f"SELECT k, s FROM '{target}/**/*.csv' ORDER BY ALL").fetchall()
    else:
        found = connection.execute("SELECT * FROM made ORDER BY ALL").fetchall()
    assert found == expected(3)
    connection.close()
    assert leftovers(connection.home, kept=KEPT) == []


def test_a_cancelled_write_leaves_nothing_to_be_seen(
    connection: Connection, tmp_path: Path
) -> None:
    target, hooks = tmp_path / "out", tmp_path / "hooks"
    (hooks / "hold-committing-0-1").touch()
    with running(connection, f"COPY t TO '{target}' (FORMAT parquet)") as query:
        until(
            lambda: any(name == "committing-0-1" for _, name, _ in handmade.steps(hooks)),
            "a task that has written its file",
        )
        query.cursor.cancel()
        query.join()
        (hooks / "hold-committing-0-1").unlink()
    assert isinstance(query.error, QueryCancelled)
    connection.close()
    assert not target.exists()
    assert leftovers(connection.home) == []
    assert statuses(connection.home) == ["CANCELLED"]


# -- the client dies -------------------------------------------------------------------------------

CLIENT = """
import os, signal, sys
import crossdock
from crossdock.platform.local.outbox import FolderOutbox
from crossdock.writes.commit import Committer

def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

home, files, statement, moment = sys.argv[1:]
if moment == "before":
    Committer.commit = die
else:
    shown, real = [], FolderOutbox._show
    def show(self, *args, **kwargs):
        if shown:
            die()
        shown.append(True)
        real(self, *args, **kwargs)
    FolderOutbox._show = show
crossdock.connect(
    home=home, tables={"t": files}, workers=2, worker_memory="512MB", single_task_bytes=0,
    partitions=3,
).execute(statement)
"""


def killed_client(tmp_path: Path, statement: str, moment: str) -> None:
    """A client process that ends by SIGKILL ``before`` its commit, or ``between`` two files."""
    write_files(tmp_path, 3)
    arguments = [str(tmp_path / "home"), str(tmp_path / "part-*.parquet"), statement, moment]
    ended = subprocess.run(
        [sys.executable, "-c", CLIENT, *arguments], check=False, timeout=PATIENCE
    )
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.parametrize("copies", [True, False], ids=["copy", "create"])
def test_a_client_killed_before_its_commit_leaves_nothing(tmp_path: Path, copies: bool) -> None:
    target = tmp_path / "out"
    statement = f"COPY t TO '{target}' (FORMAT parquet)" if copies else CREATE
    killed_client(tmp_path, statement, "before")
    with crossdock.connect(home=tmp_path / "home") as other:
        other.platform.gc(grace_seconds=0)
        assert other.tables.names() == ()
    assert not target.exists()
    assert leftovers(tmp_path / "home") == []
    assert statuses(tmp_path / "home") == ["CANCELLED"]


def test_a_copy_whose_client_was_killed_between_two_files_is_finished_by_gc(
    tmp_path: Path,
) -> None:
    target = tmp_path / "out"
    killed_client(tmp_path, f"COPY t TO '{target}' (FORMAT parquet)", "between")
    assert len(list(target.glob("*.parquet"))) == 1
    with crossdock.connect(home=tmp_path / "home") as other:
        other.platform.gc(grace_seconds=0)
    assert len(rows_below(target)) == 300
    assert len(list(target.rglob("*"))) == 2
    assert leftovers(tmp_path / "home", kept=("receipt", "result")) == []
    assert statuses(tmp_path / "home") == ["SUCCEEDED"]
