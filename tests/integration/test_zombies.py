"""Workers that are stopped beyond their lease and wake when others have done their work.

Real processes: SIGSTOP, then SIGCONT. Hooks hold a worker in a step until it is stopped there.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from coordinator_state.ids import QueryId
from coordinator_state.records import QueryRecord, QueryStatus
from crossdock import local
from crossdock.local import LocalPlatform
from crossdock.settings import Settings
from tests.integration import handmade
from tests.integration.handmade import expected, rows_of, steps, two_stages

HOOK = "tests.integration.handmade:hook"
#: Longest that anything in here may take, in seconds.
PATIENCE = 30.0
FILES = 2


@pytest.fixture
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "hooks"
    folder.mkdir()
    monkeypatch.setenv(handmade.HOOKS, str(folder))
    return folder


@pytest.fixture
def platform_of(tmp_path: Path, hooks: Path) -> Iterator[Callable[[int], LocalPlatform]]:
    opened: list[LocalPlatform] = []

    def make(workers: int) -> LocalPlatform:
        settings = Settings(workers=workers, worker_memory=400 << 20, lease_seconds=0.5)
        opened.append(LocalPlatform(tmp_path / "home", settings, observer=HOOK))
        return opened[-1]

    yield make
    for platform in opened:
        platform.close()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)


class Frozen:
    """A query, one of whose workers is stopped in ``step`` of a task."""

    def __init__(self, platform: LocalPlatform, hooks: Path, folder: Path, step: str) -> None:
        self.platform = platform
        hold = hooks / f"hold-{step}"
        hold.touch()
        self.query_id: QueryId = platform.submit(two_stages(handmade.write_files(folder, FILES)))
        self._driver = threading.Thread(target=platform.wait, args=(self.query_id,))
        self._driver.start()
        until(lambda: any(name == step for _, name, _ in steps(hooks)))
        self.pid = next(pid for pid, name, _ in steps(hooks) if name == step)
        os.kill(self.pid, signal.SIGSTOP)
        hold.unlink()

    def join(self) -> QueryRecord:
        self._driver.join(PATIENCE)
        assert not self._driver.is_alive(), "the query did not end"
        record = self.platform.store.get_query(self.query_id)
        assert record.status is QueryStatus.SUCCEEDED
        assert sorted(rows_of(self.platform.result_files(record))) == expected(FILES)
        return record

    def objects(self) -> list[str]:
        """Stage, task and attempt of every exchange and result object."""
        return [
            "/".join(o.key.split("/")[-2:])
            for prefix in ("exchange/", "result/")
            for o in self.platform.objects.list(prefix)
        ]


def worker_log(platform: LocalPlatform) -> str:
    return (platform.home.logs / "worker.log").read_text()


@pytest.mark.parametrize(
    ("step", "key"),
    [
        ("committing-0-1", "0/1-1"),  # its object is there, its commit comes too late
        ("ran-0-1", "0/1-1"),  # it writes its object, or is told before
        ("committing-1-1", "1/1-1"),  # a result
    ],
)
def test_zombie_s_commit_is_refused_and_its_object_removed(
    platform_of: Callable[[int], LocalPlatform], tmp_path: Path, hooks: Path, step: str, key: str
) -> None:
    platform = platform_of(5)
    task = step.partition("-")[2]
    # The query must not end before the zombie has had its say.
    held = hooks / "hold-committing-1-0"
    held.touch()
    query = Frozen(platform, hooks, tmp_path, step)
    until(lambda: "committed-" + task in [name for _, name, a in steps(hooks) if a > 1])
    os.kill(query.pid, signal.SIGCONT)
    until(lambda: "attempt 1: drop (StaleAttempt)" in worker_log(platform))
    until(lambda: key not in query.objects())
    held.unlink()
    query.join()
    platform.settle(query.query_id)
    assert [key for key in query.objects() if key.startswith("0/")] == []
    commits = [(pid, a) for pid, name, a in steps(hooks) if name == f"committed-{task}"]
    assert len(commits) == 1
    assert commits[0][1] > 1
    assert query.pid not in [pid for pid, _ in commits]
    assert platform.store.get_query(query.query_id).closed


def test_process_that_was_given_up_makes_room_for_another(
    platform_of: Callable[[int], LocalPlatform], tmp_path: Path, hooks: Path
) -> None:
    platform = platform_of(1)
    query = Frozen(platform, hooks, tmp_path, "ran-0-1")
    query.join()
    assert not psutil.pid_exists(query.pid)
    platform.settle(query.query_id)
    assert platform.store.get_query(query.query_id).closed


def test_process_that_does_not_stop_after_the_end_is_ended(
    platform_of: Callable[[int], LocalPlatform],
    tmp_path: Path,
    hooks: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "ABORT_SECONDS", 0.3)
    platform = platform_of(3)
    query = Frozen(platform, hooks, tmp_path, "ran-0-1")
    query.join()
    platform.settle(query.query_id)
    assert not psutil.pid_exists(query.pid)
    assert platform.store.get_query(query.query_id).closed
    assert [key.partition("-")[0] for key in query.objects()] == ["1/0", "1/1"]


def test_d04_task_whose_process_is_killed_each_time_fails_in_words_after_its_attempts(
    platform_of: Callable[[int], LocalPlatform], tmp_path: Path, hooks: Path
) -> None:
    """As the kernel does when memory is out: nobody says goodbye."""
    platform = platform_of(2)
    (hooks / "die-ran-0-1").touch()
    files = handmade.write_files(tmp_path, FILES)
    record = platform.wait(platform.submit(two_stages(files)))
    assert record.error is not None
    assert (record.status, record.error.kind) == (QueryStatus.FAILED, "OutOfMemory")
    assert "stage 0, task 1 failed 4 times, as often as max_attempts allows" in record.error.message
    assert re.search(r"last seen at \d+ MiB\); raise worker_memory", record.error.message)
    assert [a for _, name, a in steps(hooks) if name == "ran-0-1"] == [1, 2, 3, 4]
    platform.settle(record.query_id)
    assert platform.store.get_query(record.query_id).closed
