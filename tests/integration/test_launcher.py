"""The process launcher against real processes."""

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

from crossdock.errors import PlatformUnavailable
from crossdock.platform.local.launcher import ProcessLauncher
from crossdock.platform.ports import Launch

FACTORY = "tests.integration.process_workers:make"


def until(condition: Callable[[], object], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)


def order(worker_id: str, what: str = "quick") -> Launch:
    return Launch(query_id="q1", worker_id=worker_id, worker_class=what)


def pid_of(home: Path, worker_id: str) -> int:
    until((home / worker_id).exists)
    return int((home / worker_id).read_text().split()[0])


def running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[ProcessLauncher]:
    pool = ProcessLauncher(tmp_path, FACTORY, maximum=2)
    yield pool
    pool.close()


def run(launcher: ProcessLauncher, launch: Launch) -> None:
    assert launcher.launch([launch]) == [launch]
    until(lambda: launcher.gone([launch.worker_id]))


def test_a_launch_runs_in_another_process_with_the_factorys_arguments(tmp_path: Path) -> None:
    launcher = ProcessLauncher(tmp_path, FACTORY, maximum=1, arguments={"greeting": "grüezi"})
    run(launcher, order("w1"))
    launcher.close()
    pid, greeting = (tmp_path / "w1").read_text().split()
    assert int(pid) != os.getpid()
    assert greeting == "grüezi"
    assert launcher.endings(["w1"])["w1"].finished


def test_an_idle_process_is_used_again(launcher: ProcessLauncher, tmp_path: Path) -> None:
    for worker_id in ("w1", "w2", "w3"):
        run(launcher, order(worker_id))
    assert len({pid_of(tmp_path, worker_id) for worker_id in ("w1", "w2", "w3")}) == 1


def test_launches_beyond_the_maximum_are_not_accepted(
    launcher: ProcessLauncher, tmp_path: Path
) -> None:
    launches = [order(f"w{number}", "busy") for number in range(4)]
    assert launcher.launch(launches) == launches[:2]
    assert launcher.launch(launches[2:]) == []
    assert pid_of(tmp_path, "w0") != pid_of(tmp_path, "w1")
    assert not launcher.gone(["w0", "w1", "w2", "w3", "stranger"])


def test_a_killed_process_is_seen_as_gone_and_its_place_is_free(
    launcher: ProcessLauncher, tmp_path: Path
) -> None:
    launcher.launch([order("w1", "busy"), order("w2", "busy")])
    os.kill(pid_of(tmp_path, "w1"), signal.SIGKILL)
    until(lambda: launcher.gone(["w1", "w2"]))
    assert launcher.gone(["w1", "w2"]) == {"w1"}
    until(lambda: launcher.endings(["w1"]))
    ending = launcher.endings(["w1"])["w1"]
    assert (ending.finished, ending.killed) == (False, True)
    assert "memory" in ending.reason
    run(launcher, order("w3"))


def test_an_idle_process_killed_is_replaced(launcher: ProcessLauncher, tmp_path: Path) -> None:
    run(launcher, order("w1"))
    os.kill(pid_of(tmp_path, "w1"), signal.SIGKILL)
    time.sleep(0.2)
    run(launcher, order("w2"))
    assert launcher.endings(["w2"])["w2"].finished
    assert pid_of(tmp_path, "w1") != pid_of(tmp_path, "w2")


def test_an_exception_ends_its_process_and_is_logged_without_its_text(
    launcher: ProcessLauncher, tmp_path: Path
) -> None:
    run(launcher, order("w1", "failing"))
    ending = launcher.endings(["w1"])["w1"]
    assert (ending.finished, ending.reason) == (False, "ValueError")
    run(launcher, order("w2"))
    assert pid_of(tmp_path, "w1") != pid_of(tmp_path, "w2")
    log = (tmp_path / "logs" / "worker.log").read_text()
    assert "query q1 worker w1 failed: ValueError at" in log
    assert "because of KeyError at" in log
    assert "secret" not in log


def test_prints_reach_the_log_and_not_the_launcher(
    launcher: ProcessLauncher, tmp_path: Path
) -> None:
    run(launcher, order("w1", "noisy"))
    assert launcher.endings(["w1"])["w1"].finished
    run(launcher, order("w2"))
    assert pid_of(tmp_path, "w1") == pid_of(tmp_path, "w2")
    assert "written to descriptor 1" in (tmp_path / "logs" / "worker.log").read_text()


def test_a_worker_that_cannot_be_made_is_gone(tmp_path: Path) -> None:
    launcher = ProcessLauncher(tmp_path, "tests.integration.process_workers:cannot_make", maximum=1)
    run(launcher, order("w1"))
    until(lambda: launcher.endings(["w1"]))
    assert "code 1" in launcher.endings(["w1"])["w1"].reason
    launcher.close()
    log = (tmp_path / "logs" / "worker.log").read_text()
    assert "cannot make a worker" in log
    assert "RuntimeError" in log


def test_the_end_of_a_launch_is_told_whatever_it_was(tmp_path: Path) -> None:
    told: list[str] = []
    launcher = ProcessLauncher(
        tmp_path, FACTORY, maximum=1, on_end=lambda launch: told.append(launch.worker_id)
    )
    run(launcher, order("w1"))
    run(launcher, order("w2", "failing"))
    launcher.launch([order("w3", "busy")])
    os.kill(pid_of(tmp_path, "w3"), signal.SIGKILL)
    until(lambda: len(told) == 3)
    assert told == ["w1", "w2", "w3"]
    launcher.close()


def test_a_worker_inherits_no_open_file(launcher: ProcessLauncher, tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "of-the-parent", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(descriptor, True)
    run(launcher, order("w1", "files"))
    os.close(descriptor)
    assert "of-the-parent" not in (tmp_path / "files").read_text()


def test_ctrl_c_reaches_no_worker(launcher: ProcessLauncher, tmp_path: Path) -> None:
    launcher.launch([order("w1", "busy")])
    pid = pid_of(tmp_path, "w1")
    assert os.getpgid(pid) != os.getpgid(0)
    os.kill(pid, signal.SIGINT)
    time.sleep(0.1)
    assert not launcher.gone(["w1"])


def own_children() -> set[psutil.Process]:
    """Processes of this test process; some belong to other tests' session fixtures."""
    return set(psutil.Process().children())


def test_prewarmed_processes_wait_for_launches(launcher: ProcessLauncher, tmp_path: Path) -> None:
    others = own_children()
    launcher.prewarm(5)
    children = own_children() - others
    assert len(children) == 2
    run(launcher, order("w1"))
    assert pid_of(tmp_path, "w1") in {child.pid for child in children}


def test_close_leaves_no_process_neither_idle_nor_busy(tmp_path: Path) -> None:
    others = own_children()
    launcher = ProcessLauncher(tmp_path, FACTORY, maximum=2)
    run(launcher, order("w1"))
    launcher.launch([order("w2", "busy"), order("w3", "busy")])
    pids = [pid_of(tmp_path, worker_id) for worker_id in ("w2", "w3")]
    launcher.close()  # a busy worker would work for two minutes
    assert not any(map(running, pids))
    assert own_children() <= others
    assert launcher.gone(["w2", "w3"]) == {"w2", "w3"}
    with pytest.raises(PlatformUnavailable, match="closed"):
        launcher.launch([order("w4")])
    launcher.close()


def test_close_kills_a_process_that_does_not_answer(tmp_path: Path) -> None:
    launcher = ProcessLauncher(tmp_path, FACTORY, maximum=1)
    launcher.launch([order("w1", "busy")])
    pid = pid_of(tmp_path, "w1")
    os.kill(pid, signal.SIGSTOP)
    launcher.close(patience=0.2)
    assert not running(pid)


def test_launches_from_many_threads_each_run_once(tmp_path: Path) -> None:
    launcher = ProcessLauncher(tmp_path, FACTORY, maximum=2)
    accepted: list[Launch] = []

    def work(thread: int) -> None:
        for number in range(10):
            accepted.extend(launcher.launch([order(f"t{thread}-{number}")]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = [launch.worker_id for launch in accepted]
    until(lambda: len(launcher.gone(ids)) == len(ids))
    assert ids
    assert all((tmp_path / worker_id).exists() for worker_id in ids)
    launcher.close()


PARENT = f"""
import sys, time
from pathlib import Path
from crossdock.platform.local.launcher import ProcessLauncher
from crossdock.platform.ports import Launch
home = Path(sys.argv[1])
launcher = ProcessLauncher(home, {FACTORY!r}, maximum=3)
launcher.launch([Launch(query_id="q", worker_id="idle")])
while not launcher.gone(["idle"]):
    time.sleep(0.002)
launcher.prewarm(2)
launcher.launch([Launch(query_id="q", worker_id=f"w{{n}}", worker_class="busy") for n in (1, 2)])
launcher.prewarm(3)
print("started", flush=True)
time.sleep(120)
"""


def test_workers_idle_busy_or_starting_die_with_their_killed_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, cwd=Path.cwd()
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"started\n"
    pid_of(tmp_path, "w1")
    pid_of(tmp_path, "w2")
    children = [child.pid for child in psutil.Process(parent.pid).children()]
    assert len(children) == 3
    parent.kill()
    parent.communicate()
    until(lambda: not any(map(running, children)), seconds=5)
