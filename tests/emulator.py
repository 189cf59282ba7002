"""A real server that stands in for AWS, for what moto in this process cannot show: races.

It needs a virtual environment of its own, because it pins other versions of the SDK than ours. The
first use makes one beside the repository's own and keeps it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv-ministack"
READY = ENVIRONMENT / "ready"
LOCK = ROOT / ".data" / "emulator.lock"  # git-ignored, as the environment is
START_SECONDS = 30.0


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Endpoint URL of a fresh emulator; any credentials are good."""
    folder = tmp_path_factory.mktemp("emulator")
    with running_emulator(folder) as url:
        yield url


@contextmanager
def running_emulator(folder: Path, **variables: str) -> Iterator[str]:
    """An emulator of one's own, with further environment variables; its URL (``http://``)."""
    with _running(_install(), folder, variables) as url:
        yield url


def _install() -> Path:
    """The emulator's interpreter; one test process installs while the others wait."""
    python = ENVIRONMENT / "bin" / "python"
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not READY.exists():
            shutil.rmtree(ENVIRONMENT, ignore_errors=True)
            _check([sys.executable, "-m", "venv", str(ENVIRONMENT)])
            _check([str(python), "-m", "pip", "install", "-q", "ministack", "boto3"])
            READY.touch()
    return python


def _check(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")


@contextmanager
def _running(python: Path, folder: Path, variables: Mapping[str, str]) -> Iterator[str]:
    port = _free_port()
    log = folder / "emulator.log"
    # Each environment of a function unpacks its layers there, and nobody else removes them.
    scratch = folder / "unpacked"
    scratch.mkdir()
    with log.open("wb") as output:
        server = subprocess.Popen(
            [str(python.parent / "ministack")],
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={
                "PATH": f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}",
                "HOME": str(folder),
                "TMPDIR": str(scratch),
                "GATEWAY_PORT": str(port),
                "BIND_HOST": "127.0.0.1",
                "IOT_MTLS_ENABLED": "0",
                "SFTP_ENABLED": "0",
                "LOG_LEVEL": "WARNING",
                **variables,
            },
        )
    try:
        _await(port, server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        functions = psutil.Process(server.pid).children(recursive=True)
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        _end(functions)
        shutil.rmtree(scratch, ignore_errors=True)


def _end(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=5)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"the emulator did not start:\n{log.read_text(errors='replace')[-2000:]}")
