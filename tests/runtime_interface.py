"""Lambda on this machine: the AWS Runtime Interface Emulator, one process an environment.

The emulator's program comes out of the wheel of the SAM command line, the runtime's client
(``awslambdaric``) from its own; both are fetched once, into ``.data/``. Handlers see their built
layers, the function code and what Lambda's Python has; nothing of this environment.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import urllib3

from layers.build import build_layers
from layers.cold_start import Bench
from layers.recipes import HANDLERS, Machine
from tests.datasets import CACHE

#: The wheel that brings the emulator, and the runtime's client: ``pip`` requirements.
EMULATOR, CLIENT = "aws-sam-cli==1.170.0", "awslambdaric==4.2.2"
#: Seconds that an environment may take to listen.
START_SECONDS = 30.0
#: Characters of a function's log that are told with its error.
TAIL = 3000


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """What environments are made of."""

    bench: Bench
    emulator: Path
    client: Path

    @classmethod
    def prepare(cls) -> Runtime:
        """Builds the layers for this machine; fetches the programs unless they are there."""
        build_layers(Machine.of_this())
        bench = Bench.prepare()
        folder = CACHE / f"runtime-interface-{bench.version}"
        CACHE.mkdir(exist_ok=True)
        with folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "ready").exists():
                _fetch(folder, bench.version)
                (folder / "ready").touch()
        return cls(bench=bench, emulator=folder / "emulator", client=folder / "client")

    def command(self, function: Function, ports: tuple[int, int]) -> list[str]:
        # Both addresses: by default the emulator listens on every interface.
        return [
            str(self.emulator),
            "--runtime-interface-emulator-address",
            f"127.0.0.1:{ports[0]}",
            "--runtime-api-address",
            f"127.0.0.1:{ports[1]}",
            # Neither this environment's packages (-S) nor compiled files in built folders (-B).
            *[str(self.bench.python), "-S", "-B", "-m", "awslambdaric"],
            f"functions.{function.folder}.handler.lambda_handler",
        ]

    def environment(self, function: Function) -> Mapping[str, str]:
        path = self.bench.path(HANDLERS[function.folder])
        return {
            "PATH": os.defpath,
            "PYTHONPATH": f"{path}{os.pathsep}{self.client}",
            "LAMBDA_TASK_ROOT": str(self.bench.functions),
            "AWS_LAMBDA_FUNCTION_NAME": function.name,
            "AWS_LAMBDA_FUNCTION_TIMEOUT": str(function.timeout),
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mb),
            **function.environment,
        }


def _fetch(folder: Path, version: str) -> None:
    pip = [sys.executable, "-m", "pip"]
    options = ["--quiet", "--only-binary=:all:"]
    client = ["install", *options, f"--target={folder / 'client'}", "--upgrade"]
    client += [f"--python-version={version}", "--implementation=cp"]
    tags = (f"{tag}_{Machine.of_this().wheel}" for tag in ("manylinux2014", "manylinux_2_28"))
    client += [f"--platform={tag}" for tag in tags]
    subprocess.run([*pip, *client, CLIENT], check=True)
    downloaded = ["download", *options, "--no-deps", f"--dest={folder}", EMULATOR]
    subprocess.run([*pip, *downloaded], check=True)
    (wheel,) = folder.glob("aws_sam_cli-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        program = f"samcli/local/rapid/aws-lambda-rie-{Machine.of_this()}"
        (folder / "emulator").write_bytes(archive.read(program))
    (folder / "emulator").chmod(0o755)
    wheel.unlink()


@dataclass(frozen=True, kw_only=True)
class Function:
    name: str
    folder: str  # whose handler it is
    environment: Mapping[str, str]
    timeout: int = 60
    memory_mb: int = 1769


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of an invocation; ``error`` is its kind, as Lambda names it."""

    payload: bytes
    error: str = ""
    log: str = ""  # what it ended with, of one that failed

    @property
    def json(self) -> Any:
        return json.loads(self.payload)

    @property
    def told(self) -> str:
        """Its error in full."""
        return f"{self.error}: {self.payload.decode(errors='replace')}\n{self.log}"


class Environment:
    """One execution environment: serves one invocation at a time, keeps its process warm."""

    def __init__(self, runtime: Runtime, function: Function, folder: Path) -> None:
        self.function = function
        self.event: Any = None  # being served, or the last one
        self._ports = _free_port(), _free_port()
        self.log = folder / f"{function.name}-{self._ports[0]}.log"
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                runtime.command(function, self._ports),
                env=dict(runtime.environment(function)),
                cwd=folder,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # the handler's process ends with it
            )
        _await_port(self._ports[0])

    def invoke(self, payload: bytes) -> Outcome:
        address = f"http://127.0.0.1:{self._ports[0]}/2015-03-31/functions/function/invocations"
        answer = urllib3.request(
            "POST", address, body=payload, retries=False, timeout=self.function.timeout + 30.0
        )
        outcome = _outcome(answer.status, answer.data)
        return replace(outcome, log=self._tail()) if outcome.error else outcome

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-TAIL:]

    def handler_process(self) -> psutil.Process:
        """The process of the handler."""
        (child,) = psutil.Process(self._process.pid).children()
        return child

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _outcome(status: int, data: bytes) -> Outcome:
    """An error of the handler and a timeout are answered with 200 too."""
    try:
        document = json.loads(data)
    except ValueError:
        message = {"errorMessage": data.decode(errors="replace")}
        kind = "Timeout" if b"timed out" in data else f"Status{status}"
        return Outcome(payload=json.dumps(message).encode(), error=kind)
    kind = document.get("errorType", "") if isinstance(document, dict) else ""
    if status != 200 and not kind:
        kind = f"Status{status}"
    return Outcome(payload=data, error=kind)


#: Hears of an asynchronous invocation that failed: the function's name and its event.
OnFailure = Callable[[str, Any], None]


@dataclass
class Service:
    """Starts environments as invocations need them, as Lambda does; speaks its HTTP API."""

    runtime: Runtime
    functions: Mapping[str, Function]
    folder: Path
    on_failure: OnFailure
    invoked: list[str] = field(default_factory=list)
    errors: list[tuple[str, str]] = field(default_factory=list)  # function, kind
    told: list[str] = field(default_factory=list)  # the errors in full
    busy: list[Environment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._idle: dict[str, list[Environment]] = {name: [] for name in self.functions}
        self._lock = threading.Lock()
        self._events = ThreadPoolExecutor(16, thread_name_prefix="event")

    def invoke(self, name: str, event: Any) -> Outcome:
        """Wait for the answer. An environment that timed out or died is not used again."""
        self.invoked.append(name)
        environment = self._acquire(name)
        environment.event = event
        try:
            outcome = environment.invoke(json.dumps(event).encode())
        except BaseException:
            self._release(environment, fit=False)
            raise
        if outcome.error:
            self.errors.append((name, outcome.error))
            self.told.append(f"{name}: {outcome.told}")
        self._release(environment, fit=not outcome.error)
        return outcome

    def send(self, name: str, event: Any) -> None:
        """Invoke it without waiting."""
        self._events.submit(self._run_event, name, event)

    def serve(self) -> ThreadingHTTPServer:
        """The part of Lambda's HTTP API that functions call."""
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                name = self.path.split("/functions/")[1].split("/")[0]
                event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.headers.get("X-Amz-Invocation-Type") == "Event":
                    service.send(name, event)
                    self._answer(202, b"", {})
                    return
                outcome = service.invoke(name, event)
                headers = {"X-Amz-Function-Error": "Unhandled"} if outcome.error else {}
                self._answer(200, outcome.payload, headers)

            def _answer(self, status: int, data: bytes, headers: Mapping[str, str]) -> None:
                self.send_response(status)
                for key, value in {**headers, "Content-Length": str(len(data))}.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Quiet."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def serving(self, worker_id: str) -> Environment | None:
        """The environment of a worker; None: it works no more."""
        with self._lock:
            found = (e for e in self.busy if e.event and e.event.get("worker_id") == worker_id)
            return next(found, None)

    def close(self) -> None:
        self._events.shutdown(wait=True)
        for environment in [*self.busy, *(e for pool in self._idle.values() for e in pool)]:
            environment.close()

    def _acquire(self, name: str) -> Environment:
        with self._lock:
            pool = self._idle[name]
            environment = pool.pop() if pool else None
        environment = environment or Environment(self.runtime, self.functions[name], self.folder)
        with self._lock:
            self.busy.append(environment)
        return environment

    def _release(self, environment: Environment, *, fit: bool) -> None:
        with self._lock:
            self.busy.remove(environment)
            if fit:
                self._idle[environment.function.name].append(environment)
        if not fit:
            environment.close()

    def _run_event(self, name: str, event: Any) -> None:
        if self.invoke(name, event).error:
            self.on_failure(name, event)


@contextmanager
def serving(service: Service) -> Iterator[str]:
    """The URL of the service."""
    server = service.serve()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        service.close()
        server.shutdown()
        server.server_close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await_port(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError("the runtime interface emulator did not start")
