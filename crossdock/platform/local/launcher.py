"""A pool of warm worker processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import msgspec

from crossdock.errors import PlatformUnavailable
from crossdock.platform.local import process as child
from crossdock.platform.ports import Launch

#: Ended launches that are remembered; older ones are long settled in the state store.
_REMEMBERED = 10_000
#: The log is set aside when it has grown beyond this, in bytes; one older log is kept.
_LOG_BYTES = 10 * 1024 * 1024
#: What a process may take to exit once its pipe is closed, in seconds.
_EXIT_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a launch ended."""

    finished: bool  # its run returned; else it raised, or the process died
    killed: bool = False  # by SIGKILL: perhaps the kernel was out of memory
    reason: str = ""  # in words, when not finished


class _Process:
    """One worker process and the launch it holds. Changed only under the launcher's lock."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self.popen = popen
        self.stdin = cast(IO[bytes], popen.stdin)
        self.stdout = cast(IO[bytes], popen.stdout)
        self.launch: Launch | None = None
        self.ready = False
        self.failed = False  # its launch raised, and it is on its way out
        self.follower: threading.Thread | None = None

    @property
    def idle(self) -> bool:
        return self.launch is None and not self.failed

    def give(self, launch: Launch) -> bool:
        """Hand a launch over. False when the process has died."""
        try:
            self.stdin.write(msgspec.json.encode(launch) + b"\n")
            self.stdin.flush()
        except BrokenPipeError:
            self.failed = True
            return False
        self.launch = launch
        return True


class ProcessLauncher:
    """Runs each launch in a process of its own for as long as it lasts (``ports.Launcher``).

    Processes start with the first launches and wait, warm, for the next ones. They end with
    ``close``, or with the process that owns the launcher, however that dies.
    """

    def __init__(
        self,
        home: Path,
        factory: str,
        *,
        maximum: int,
        arguments: Mapping[str, str] | None = None,
        on_end: Callable[[Launch], None] | None = None,
    ) -> None:
        """Nothing is started yet.

        Args:
            home: folder of the deployment; worker output goes to ``logs/worker.log`` in it.
            factory: ``package.module:name`` of a function (home, **arguments) -> ProcessWorker.
            maximum: processes at once.
            arguments: passed to the factory.
            on_end: called, from another thread, whenever a launch has ended in any way.
        """
        self._home = home
        self._command = child.command(home, factory, arguments or {})
        self._maximum = maximum
        self._on_end = on_end
        self._lock = threading.Lock()
        self._processes: list[_Process] = []
        self._endings: OrderedDict[str, Ending] = OrderedDict()
        self._closed = False

    def launch(self, launches: Sequence[Launch]) -> Sequence[Launch]:
        """Start workers in idle processes, then in new ones up to the maximum.

        Raises ``PlatformUnavailable`` when closed, or when not one process could be started.
        """
        accepted: list[Launch] = []
        with self._lock:
            if self._closed:  # idle processes may not have gone yet
                raise PlatformUnavailable("the launcher is closed")
            for launch in launches:
                try:
                    if not self._place(launch):
                        break
                except PlatformUnavailable:
                    if not accepted:
                        raise
                    break  # the next call meets it again and says so
                accepted.append(launch)
        return accepted

    def gone(self, worker_ids: Sequence[str]) -> frozenset[str]:
        with self._lock:
            # A process that died a moment ago may not have been followed to its end yet.
            dead = {
                process.launch.worker_id
                for process in self._processes
                if process.launch is not None and process.popen.poll() is not None
            }
            return frozenset(one for one in worker_ids if one in self._endings or one in dead)

    def endings(self, worker_ids: Sequence[str]) -> Mapping[str, Ending]:
        """How those of the launches ended that have."""
        with self._lock:
            return {one: self._endings[one] for one in worker_ids if one in self._endings}

    def held(self) -> Sequence[Launch]:
        """Launches that processes hold now."""
        with self._lock:
            return [one.launch for one in self._processes if one.launch is not None]

    def end(self, worker_ids: Iterable[str]) -> None:
        """Kill the processes that hold these launches, whatever they are doing.

        ``gone`` tells of them, and their places can be taken, as soon as they are dead.
        """
        wanted = frozenset(worker_ids)
        with self._lock:
            for process in self._processes:
                if process.launch is not None and process.launch.worker_id in wanted:
                    process.popen.kill()

    def prewarm(self, count: int) -> None:
        """Start processes ahead of need until ``count`` run; does not wait for them to be ready."""
        with self._lock:
            while len(self._processes) < min(count, self._maximum):
                self._spawn()

    def close(self, patience: float = _EXIT_SECONDS) -> None:
        """End every process: idle ones leave by themselves, busy ones are terminated, then killed.

        Takes at most about twice ``patience`` seconds. Closing again is no error.
        """
        with self._lock:
            self._closed = True
            processes = list(self._processes)
            for process in processes:
                if process.launch is not None:
                    process.popen.terminate()
                _close_pipe(process.stdin)
        deadline = time.monotonic() + patience
        for process in processes:
            if not _wait(process.popen, deadline - time.monotonic()):
                process.popen.kill()
        for process in processes:
            if process.follower is not None:
                process.follower.join(patience)

    def _place(self, launch: Launch) -> bool:
        """Give the launch to a process; the one used last first, for its warm caches."""
        idle = [process for process in self._processes if process.idle]
        for process in sorted(idle, key=lambda one: not one.ready):
            if process.give(launch):
                self._processes.remove(process)
                self._processes.insert(0, process)
                return True
        if sum(not process.failed for process in self._processes) >= self._maximum:
            return False
        return self._spawn().give(launch)

    def _spawn(self) -> _Process:
        if self._closed:
            raise PlatformUnavailable("the launcher is closed")
        try:
            with _open_log(self._home) as log:
                popen = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    # The child must find the modules this process finds.
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(_import_path())},
                    # Out of the terminal's group: Ctrl-C reaches only the parent.
                    process_group=0,
                )
        except OSError as error:
            raise PlatformUnavailable(
                f"cannot start a worker process: {error.strerror}; lower the number of workers"
            ) from error
        process = _Process(popen)
        process.follower = threading.Thread(
            target=self._follow, args=(process,), name=f"follow-{popen.pid}", daemon=True
        )
        self._processes.append(process)
        process.follower.start()
        return process

    def _follow(self, process: _Process) -> None:
        """Hear a process's answers until it ends."""
        decoder = msgspec.json.Decoder(child.Answer)
        with process.stdout as answers:
            for line in answers:
                self._heard(process, decoder.decode(line))
        if not _wait(process.popen, _EXIT_SECONDS):
            process.popen.kill()
        code = process.popen.wait()
        with self._lock:
            self._processes.remove(process)
            _close_pipe(process.stdin)
            ending = Ending(finished=False, killed=code == -signal.SIGKILL, reason=_words(code))
            launch = self._settle(process, ending)
        self._tell(launch)

    def _heard(self, process: _Process, answer: child.Answer) -> None:
        with self._lock:
            if isinstance(answer, child.Ready):
                process.ready = True
                return
            process.failed = bool(answer.failure)
            ending = Ending(finished=not answer.failure, reason=answer.failure)
            launch = self._settle(process, ending)
        self._tell(launch)

    def _settle(self, process: _Process, ending: Ending) -> Launch | None:
        launch, process.launch = process.launch, None
        if launch is not None:
            self._endings[launch.worker_id] = ending
            while len(self._endings) > _REMEMBERED:
                self._endings.popitem(last=False)
        return launch

    def _tell(self, launch: Launch | None) -> None:
        if launch is not None and self._on_end is not None:
            self._on_end(launch)


def _wait(popen: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        popen.wait(max(0.0, seconds))
    except subprocess.TimeoutExpired:
        return False
    return True


def _close_pipe(pipe: IO[bytes]) -> None:
    try:
        pipe.close()
    except BrokenPipeError:
        return  # the process died with a launch unread; the pipe is closed all the same


def _open_log(home: Path) -> IO[bytes]:
    log = home / "logs" / "worker.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > _LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))
    return log.open("ab")


def _import_path() -> Sequence[str]:
    return [entry or str(Path.cwd()) for entry in sys.path]


def _words(code: int) -> str:
    if code == -signal.SIGKILL:
        return "the process was killed, perhaps because the machine ran out of memory"
    if code < 0:
        return f"the process died of signal {signal.Signals(-code).name}"
    return f"the process ended with code {code}; see logs/worker.log in the home folder"
