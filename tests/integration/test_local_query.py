"""Whole queries on the local platform: worker processes, embedded state, queues and objects."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from coordinator_state.ids import QueryId, StageId
from coordinator_state.records import QueryStatus, TaskStatus
from crossdock.local import LocalPlatform
from crossdock.planner.plan import encode_plan
from crossdock.settings import Exchange, Settings
from tests.integration import handmade
from tests.integration.handmade import expected, rows_of, steps, three_stages, two_stages

HOOK = "tests.integration.handmade:hook"
MEMORY = 400 * 1024 * 1024
#: Longest that anything in here may take, in seconds.
PATIENCE = 20.0


@pytest.fixture
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder that steers the hook of worker processes."""
    folder = tmp_path / "hooks"
    folder.mkdir()
    monkeypatch.setenv(handmade.HOOKS, str(folder))
    return folder


@pytest.fixture
def platform_of(tmp_path: Path, hooks: Path) -> Iterator[Callable[..., LocalPlatform]]:
    opened: list[LocalPlatform] = []

    def make(**settings: object) -> LocalPlatform:
        values: dict[str, object] = {"workers": 2, "worker_memory": MEMORY, **settings}
        opened.append(
            LocalPlatform(tmp_path / "home", Settings(**values), observer=HOOK)  # type: ignore[arg-type]
        )
        return opened[-1]

    yield make
    for platform in opened:
        platform.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)


def in_thread(platform: LocalPlatform, query_id: QueryId) -> threading.Thread:
    thread = threading.Thread(target=platform.wait, args=(query_id,))
    thread.start()
    return thread


def assert_nothing_left(platform: LocalPlatform, query_id: QueryId, *, results: int) -> None:
    """No queue, exchange or plan object, scratch file or item but the query's own."""
    platform.settle(query_id)
    assert platform.medium.queues.names("") == []
    kinds = [o.key.split("/")[0] for o in platform.objects.list("")]
    assert sorted(kinds) == ["receipt"] + ["result"] * results
    assert list(platform.home.scratch.glob("*")) == []
    assert platform.store.open_queries() == []
    assert platform.store.get_query(query_id).purged
    assert list(platform.store.owned(query_id)) == []


@pytest.mark.parametrize("exchange", [Exchange.S3QS, Exchange.BATCH])
def test_rows_are_right_and_nothing_is_left(
    platform_of: Callable[..., LocalPlatform], tmp_path: Path, exchange: Exchange
) -> None:
    platform = platform_of(exchange=exchange)
    files = handmade.write_files(tmp_path, 3)
    query_id = platform.submit(two_stages(files, partitions=3))
    record = platform.wait(query_id)
    assert record.status is QueryStatus.SUCCEEDED
    assert sorted(rows_of(platform.result_files(record))) == expected(3)
    assert_nothing_left(platform, query_id, results=3)
    summary = platform.progress(query_id)
    assert [s.committed for s in summary.stages] == [3, 3]
    assert (summary.stages[0].rows_in, summary.result_rows) == (300, 10)
    platform.discard(query_id)
    assert list(platform.objects.list("result/")) == []


def test_one_worker_runs_three_stages_without_deadlock(
    platform_of: Callable[..., LocalPlatform], tmp_path: Path
) -> None:
    platform = platform_of(workers=1)
    files = handmade.write_files(tmp_path, 3)
    record = platform.wait(platform.submit(three_stages(files, partitions=3)))
    assert record.status is QueryStatus.SUCCEEDED
    assert rows_of(platform.result_files(record)) == expected(3)


def test_consumer_starts_while_a_producer_is_held_back(
    platform_of: Callable[..., LocalPlatform], tmp_path: Path, hooks: Path
) -> None:
    platform = platform_of()
    files = handmade.write_files(tmp_path, 2)
    hold = hooks / "hold-written-0-0"
    hold.touch()
    query_id = platform.submit(two_stages(files))
    driver = in_thread(platform, query_id)
    until(lambda: any(name.startswith("claimed-1-") for _, name, _ in steps(hooks)))
    assert "committed-0-0" not in [name for _, name, _ in steps(hooks)]
    hold.unlink()
    driver.join(PATIENCE)
    record = platform.store.get_query(query_id)
    assert sorted(rows_of(platform.result_files(record))) == expected(2)


def test_batch_consumer_waits_for_the_last_commit(
    platform_of: Callable[..., LocalPlatform], tmp_path: Path, hooks: Path
) -> None:
    platform = platform_of(exchange=Exchange.BATCH)
    files = handmade.write_files(tmp_path, 4)
    record = platform.wait(platform.submit(two_stages(files)))
    names = [name for _, name, _ in steps(hooks)]
    first_consumer = next(i for i, n in enumerate(names) if n.startswith("claimed-1-"))
    assert {f"committed-0-{i}" for i in range(4)} <= set(names[:first_consumer])
    assert record.status is QueryStatus.SUCCEEDED


@pytest.mark.parametrize("step", ["ran-0-1", "written-0-1", "committed-0-1", "collected-1-0"])
def test_killed_worker_costs_an_attempt_not_the_query(
    platform_of: Callable[..., LocalPlatform], tmp_path: Path, hooks: Path, step: str
) -> None:
    platform = platform_of()
    files = handmade.write_files(tmp_path, 3)
    hold = hooks / f"hold-{step}"
    hold.touch()
    query_id = platform.submit(two_stages(files))
    driver = in_thread(platform, query_id)
    until(lambda: any(name == step for _, name, _ in steps(hooks)))
    victim = next(pid for pid, name, _ in steps(hooks) if name == step)
    hold.unlink()
    os.kill(victim, signal.SIGKILL)
    driver.join(PATIENCE)
    record = platform.store.get_query(query_id)
    assert record.status is QueryStatus.SUCCEEDED
    assert sorted(rows_of(platform.result_files(record))) == expected(3)
    assert_nothing_left(platform, query_id, results=2)


def test_cancel_while_running_leaves_nothing(
    platform_of: Callable[..., LocalPlatform], tmp_path: Path, hooks: Path
) -> None:
    platform = platform_of()
    hold = hooks / "hold-written-0-0"
    hold.touch()
    query_id = platform.submit(two_stages(handmade.write_files(tmp_path, 3)))
    driver = in_thread(platform, query_id)
    until(lambda: any(name == "written-0-0" for _, name, _ in steps(hooks)))
    first = platform.cancel(query_id)
    again = platform.cancel(query_id)
    hold.unlink()
    driver.join(PATIENCE)
    assert first.status is QueryStatus.CANCELLED
    assert again.ended_at == first.ended_at
    assert_nothing_left(platform, query_id, results=0)


def test_cancel_before_anything_ran(
    platform_of: Callable[..., LocalPlatform], tmp_path: Path
) -> None:
    platform = platform_of()
    query_id = platform.submit(two_stages(handmade.write_files(tmp_path, 1)))
    platform.cancel(query_id)
    assert platform.wait(query_id).status is QueryStatus.CANCELLED
    assert_nothing_left(platform, query_id, results=0)


def test_wrong_value_fails_the_query_at_once_and_names_the_task(
    platform_of: Callable[..., LocalPlatform], tmp_path: Path, hooks: Path
) -> None:
    platform = platform_of()
    bad = "SELECT k AS c0, CAST('pear' || v AS BIGINT) AS c1 FROM scan_0"
    query_id = platform.submit(two_stages(handmade.write_files(tmp_path, 1), scan=bad))
    record = platform.wait(query_id)
    assert record.status is QueryStatus.FAILED
    assert record.error is not None
    assert record.error.kind == "InvalidInput"
    assert "pear0" in record.error.message
    assert "stage 0, task 0" in record.error.message
    assert [a for _, name, a in steps(hooks) if name == "claimed-0-0"] == [1]
    assert_nothing_left(platform, query_id, results=0)


def test_deadline_fails_the_query_in_words(
    platform_of: Callable[..., LocalPlatform], tmp_path: Path, hooks: Path
) -> None:
    platform = platform_of(timeout_seconds=0.5)
    hold = hooks / "hold-claimed-0-0"
    hold.touch()
    query_id = platform.submit(two_stages(handmade.write_files(tmp_path, 1)))
    record = platform.wait(query_id)
    hold.unlink()
    assert record.error is not None
    assert (record.status, record.error.kind) == (QueryStatus.FAILED, "Timeout")
    assert "timeout of 0.5 s" in record.error.message
    assert_nothing_left(platform, query_id, results=0)


def test_lost_exchange_object_runs_its_producer_again(
    platform_of: Callable[..., LocalPlatform], tmp_path: Path, hooks: Path
) -> None:
    platform = platform_of(exchange=Exchange.BATCH, workers=1)
    hold = hooks / "hold-claimed-1-0"
    hold.touch()
    query_id = platform.submit(two_stages(handmade.write_files(tmp_path, 2)))
    driver = in_thread(platform, query_id)
    until(lambda: any(name == "claimed-1-0" for _, name, _ in steps(hooks)))
    lost = next(o.key for o in platform.objects.list("exchange/") if o.key.endswith("0/1-1"))
    platform.objects.delete([lost])
    hold.unlink()
    driver.join(PATIENCE)
    record = platform.store.get_query(query_id)
    assert record.status is QueryStatus.SUCCEEDED
    assert sorted(rows_of(platform.result_files(record))) == expected(2)
    assert [a for _, name, a in steps(hooks) if name == "committed-0-1"] == [1, 2]
    assert_nothing_left(platform, query_id, results=2)


def test_lost_object_that_a_committed_consumer_used_resets_its_readers(
    platform_of: Callable[..., LocalPlatform], tmp_path: Path, hooks: Path
) -> None:
    platform = platform_of(exchange=Exchange.BATCH, workers=1)
    hold = hooks / "hold-claimed-1-1"
    hold.touch()
    query_id = platform.submit(three_stages(handmade.write_files(tmp_path, 2)))
    driver = in_thread(platform, query_id)
    until(lambda: any(name == "claimed-1-1" for _, name, _ in steps(hooks)))
    lost = next(o.key for o in platform.objects.list("exchange/") if o.key.endswith("0/1-1"))
    platform.objects.delete([lost])
    hold.unlink()
    driver.join(PATIENCE)
    record = platform.store.get_query(query_id)
    assert record.status is QueryStatus.SUCCEEDED
    assert rows_of(platform.result_files(record)) == expected(2)
    commits = [name for _, name, _ in steps(hooks) if name.startswith("committed-1-0")]
    assert len(commits) == 2


def test_dead_client_is_cleaned_up_by_gc(
    platform_of: Callable[..., LocalPlatform], tmp_path: Path
) -> None:
    platform = platform_of()
    files = handmade.write_files(tmp_path, 1)
    plan = tmp_path / "plan.json"
    plan.write_bytes(encode_plan(two_stages(files)))
    subprocess.run([sys.executable, "-c", _SUBMIT_AND_DIE, str(platform.home.folder), str(plan)])
    (query_id,) = platform.store.open_queries()
    assert platform.gc(grace_seconds=0) > 0
    record = platform.store.get_query(query_id)
    assert record.error is not None
    assert (record.status, record.error.kind) == (QueryStatus.CANCELLED, "Orphaned")
    assert_nothing_left(platform, query_id, results=0)


_SUBMIT_AND_DIE = """
import os, sys
from pathlib import Path
from crossdock.local import LocalPlatform
from crossdock.planner.plan import decode_plan
from crossdock.planner.plan import encode_plan
from crossdock.settings import Settings
platform = LocalPlatform(Path(sys.argv[1]), Settings(workers=1))
platform.coordinator.turn(platform.submit(decode_plan(Path(sys.argv[2]).read_bytes())))
os._exit(9)
"""


def test_a_query_run_in_this_process_is_recorded_and_closed(
    platform_of: Callable[..., LocalPlatform], tmp_path: Path
) -> None:
    platform = platform_of()
    plan = two_stages(handmade.write_files(tmp_path, 1))
    one = type(plan)(engine=plan.engine, sql=plan.sql, columns=plan.columns, stages=plan.stages[:1])
    query_id = platform.begin_in_process(one)
    task = platform.store.get_task(query_id, StageId(0), 0)
    assert task.status is TaskStatus.RUNNING
    record = platform.end_in_process(query_id, QueryStatus.SUCCEEDED, rows=7)
    assert record.status is QueryStatus.SUCCEEDED
    assert platform.progress(query_id).result_rows == 7
    assert_nothing_left(platform, query_id, results=0)


def test_a_query_run_in_this_process_hears_of_a_cancel(
    platform_of: Callable[..., LocalPlatform], tmp_path: Path
) -> None:
    platform = platform_of()
    plan = two_stages(handmade.write_files(tmp_path, 1))
    one = type(plan)(engine=plan.engine, sql=plan.sql, columns=plan.columns, stages=plan.stages[:1])
    heard = threading.Event()
    query_id = platform.begin_in_process(one, on_cancel=heard.set)
    platform.cancel(query_id)
    assert heard.wait(PATIENCE)
    record = platform.end_in_process(query_id, QueryStatus.SUCCEEDED, rows=7)
    assert record.status is QueryStatus.CANCELLED


def test_closing_the_platform_cancels_and_ends_every_process(
    platform_of: Callable[..., LocalPlatform], tmp_path: Path, hooks: Path
) -> None:
    platform = platform_of()
    hold = hooks / "hold-claimed-0-0"
    hold.touch()
    query_id = platform.submit(two_stages(handmade.write_files(tmp_path, 1)))
    driver = in_thread(platform, query_id)
    until(lambda: bool(steps(hooks)))
    hold.unlink()
    platform.cancel(query_id)
    driver.join(PATIENCE)
    platform.close()
    workers = {pid for pid, _, _ in steps(hooks)}
    assert not any(psutil.pid_exists(pid) for pid in workers)


def test_waiting_consumer_gives_its_slot_to_the_producer_it_waits_for(
    platform_of: Callable[..., LocalPlatform],
    tmp_path: Path,
    hooks: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    platform = platform_of()
    hold = hooks / "hold-ran-0-1"
    hold.touch()
    query_id = platform.submit(two_stages(handmade.write_files(tmp_path, 2)))
    driver = in_thread(platform, query_id)
    until(lambda: {"claimed-1-0", "ran-0-1"} <= {name for _, name, _ in steps(hooks)})
    # The producer's worker dies, and no other can be started: only the waiting one is left.
    monkeypatch.setattr(platform.launcher, "launch", lambda launches: [])
    os.kill(next(pid for pid, name, _ in steps(hooks) if name == "ran-0-1"), signal.SIGKILL)
    hold.unlink()
    driver.join(PATIENCE)
    record = platform.store.get_query(query_id)
    assert record.status is QueryStatus.SUCCEEDED
    assert sorted(rows_of(platform.result_files(record))) == expected(2)
    consumers = platform.progress(query_id).stages[1]
    assert (consumers.handbacks, consumers.failures) == (1, 0)
