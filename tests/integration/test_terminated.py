"""Ctrl-C and SIGTERM at the first moments of a query: it is cancelled, nothing stays."""

from __future__ import annotations

import signal
import subprocess
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crossdock
from coordinator_state.records import QueryStatus
from coordinator_state.sqlite import SqliteStateStore
from crossdock.cli.signals import Signals
from tests.home_contents import leftovers
from tests.observed import until

PROGRAM = str(Path(sysconfig.get_path("scripts")) / "crossdock")
#: 81 million million pairs to compare: hours of work, no row.
ENDLESS = "SELECT count(*) FROM n a, n b, n c, n d WHERE hash(a.i, b.i) = hash(c.i, d.i + 1)"
DISTRIBUTED = ("--single-task-bytes", "0", "--workers", "2", "--partitions", "2")
SIGNALS = pytest.mark.parametrize(
    ("sent", "code", "word"),
    [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")],
    ids=["SIGTERM", "SIGINT"],
)


@pytest.fixture(autouse=True)
def usual_handlers() -> Iterator[None]:
    """A test run in the background of a shell has Ctrl-C ignored, and hands that down."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@SIGNALS
@pytest.mark.parametrize("settings", [(), DISTRIBUTED], ids=["one task", "distributed"])
def test_signal_cancels_a_query_that_just_began(
    tmp_path: Path, sent: signal.Signals, code: int, word: str, settings: tuple[str, ...]
) -> None:
    pq.write_table(pa.table({"i": pa.array(range(3000), pa.int64())}), tmp_path / "n.parquet")
    command = [PROGRAM, "query", ENDLESS, "--table", "n=n.parquet", "--home", "home", *settings]
    with started(command, tmp_path) as process:
        try:
            until(lambda: statuses(tmp_path / "home") == [QueryStatus.RUNNING], "a running query")
            process.send_signal(sent)
            _, message = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, message.strip()) == (
        code,
        f"error: {word}; the query was cancelled",
    )
    assert statuses(tmp_path / "home") == [QueryStatus.CANCELLED]
    assert leftovers(tmp_path / "home") == []


@SIGNALS
def test_signal_ends_a_command_that_waits_for_its_statement(
    tmp_path: Path, sent: signal.Signals, code: int, word: str
) -> None:
    with started([PROGRAM, "query", "-"], tmp_path, stdin=subprocess.PIPE) as process:
        try:
            # The command's thread is there: signals are listened to.
            until(lambda: threads_of(process.pid) > 1, "the command")
            process.send_signal(sent)
            assert process.wait(timeout=60) == code
        finally:
            process.kill()
        assert process.stderr is not None
        assert process.stderr.read() == f"error: {word}\n"
    assert not (tmp_path / ".crossdock").exists()


def test_signal_before_there_is_a_query_keeps_it_from_beginning() -> None:
    heard, begun = Signals(), []

    def command() -> int:
        signal.raise_signal(signal.SIGINT)
        until(lambda: heard.number != 0, "the signal")
        with pytest.raises(KeyboardInterrupt):
            heard.cancels(lambda: begun.append("cancelled"))
        return 7

    assert kept_handlers(lambda: heard.attend(command)) == 7


def test_signal_that_comes_before_its_query_is_said_again() -> None:
    heard, cancels = Signals(), []

    def command() -> int:
        heard.cancels(lambda: cancels.append(time.monotonic()))
        signal.raise_signal(signal.SIGTERM)
        until(lambda: len(cancels) > 1, "a second cancel")
        return 7

    assert kept_handlers(lambda: heard.attend(command)) == 7


@pytest.mark.parametrize("verb", ["begin_turn", "create_query", "end_query", "end_turn"])
def test_ctrl_c_within_a_write_of_a_distributed_query_leaves_it_whole(
    tmp_path: Path, verb: str
) -> None:
    """A turn cut in two would keep its lease: nobody could close the query for 30 seconds."""
    pq.write_table(pa.table({"i": pa.array(range(1000))}), tmp_path / "n.parquet")
    sql = f"SELECT i % 7 AS k, count(*) FROM '{tmp_path}/n.parquet' GROUP BY 1"
    with pytest.raises(KeyboardInterrupt):
        asked(sql, tmp_path / "home", verb, single_task_bytes=0)
    assert set(statuses(tmp_path / "home")) <= {QueryStatus.CANCELLED, QueryStatus.SUCCEEDED}
    assert leftovers(tmp_path / "home") == []


@pytest.mark.parametrize("verb", ["create_query", "claim_task", "commit_task", "end_query"])
def test_ctrl_c_within_a_write_of_a_query_of_one_task_leaves_it_whole(
    tmp_path: Path, verb: str
) -> None:
    with pytest.raises(KeyboardInterrupt):
        asked("SELECT 42", tmp_path / "home", verb)
    assert set(statuses(tmp_path / "home")) <= {QueryStatus.CANCELLED, QueryStatus.SUCCEEDED}
    assert leftovers(tmp_path / "home") == []


def asked(sql: str, home: Path, verb: str, **settings: object) -> None:
    """Run a query to its last row, with Ctrl-C within the first call of ``verb``."""
    with crossdock.connect(home=home, workers=1, **settings) as connection:
        interrupted_within(connection.platform.store, verb)
        connection.execute(sql).fetchall()


def interrupted_within(store: Any, verb: str) -> None:
    """Let Ctrl-C come while the first call of that name is on its way."""
    real = getattr(store, verb)

    def cut(*arguments: Any, **rest: Any) -> Any:
        setattr(store, verb, real)
        assert threading.current_thread() is not threading.main_thread()
        answer = real(*arguments, **rest)
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.1)  # the main thread leaves meanwhile
        return answer

    setattr(store, verb, cut)


def kept_handlers(call: Callable[[], int]) -> int:
    """``call``'s answer; the handlers of signals are as before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return call()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def started(command: list[str], folder: Path, **rest: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        **rest,
    )


def threads_of(process: int) -> int:
    return len(list(Path(f"/proc/{process}/task").iterdir()))


def statuses(home: Path) -> list[QueryStatus]:
    if not (home / "state.db").exists():
        return []
    store = SqliteStateStore(home / "state.db")
    try:
        return [query.status for query in store.list_queries()]
    finally:
        store.close()
