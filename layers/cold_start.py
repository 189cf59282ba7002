"""``python -m layers.cold_start``: what importing each handler takes, from the built folders alone.

In processor time, because what else this machine does must not count.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from layers.build import build_functions, build_layers, build_native, build_runtime
from layers.pythons import find_python
from layers.recipes import CEILINGS, HANDLERS, PYTHON, Machine

_PROGRAM = """
import time, sys
began = time.process_time()
import functions.{handler}.handler
print(time.process_time() - began)
print(" ".join(sorted(name for name in sys.modules if "." not in name)))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """What importing a handler took and loaded."""

    seconds: float  # of a processor
    modules: frozenset[str]


@click.command(help=__doc__)
def main() -> None:
    bench = Bench.prepare()
    click.echo(f"processor seconds to import, with Python {bench.version}, best of 3:")
    for handler in HANDLERS:
        seconds = bench.measure(handler).seconds
        click.echo(f"  {handler:<12} {seconds:6.3f} s of {CEILINGS[handler]:.1f} s allowed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """An interpreter and folders that stand for a function's environment."""

    python: Path
    version: str
    layers: Path
    functions: Path
    runtime: Path

    @classmethod
    def prepare(cls) -> Bench:
        """With the functions' Python where this machine has it, else with the running one."""
        python = find_python(PYTHON)
        if python is not None and platform.system() == "Linux":
            layers, version = build_layers(Machine.of_this()), PYTHON
        else:
            layers, python = build_native(), Path(sys.executable)
            version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return cls(
            python=python,
            version=version,
            layers=layers,
            functions=build_functions(),
            runtime=build_runtime(),
        )

    def measure(self, handler: str, *, runs: int = 3) -> Import:
        """The quickest of ``runs``: other processes only ever slow an import down."""
        found = [self._import(handler) for _ in range(runs)]
        return min(found, key=lambda each: each.seconds)

    def path(self, layers: Iterable[str]) -> str:
        """What a function with these layers has on its path."""
        folders = [self.functions, *(self.layers / name / "python" for name in layers)]
        return os.pathsep.join(map(str, [*folders, self.runtime]))

    def run(self, layers: Iterable[str], program: str, *arguments: str, **environment: str) -> str:
        """Output of a program that sees the given layers and nothing of this machine's packages."""
        # -S: without site-packages; -B: built folders are compared by content.
        command = [str(self.python), "-S", "-B", "-c", program, *arguments]
        known: Mapping[str, str] = {"PATH": os.defpath, "PYTHONPATH": self.path(layers)}
        done = subprocess.run(
            command, env={**known, **environment}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout

    def _import(self, handler: str) -> Import:
        output = self.run(
            HANDLERS[handler],
            _PROGRAM.format(handler=handler),
            POWERTOOLS_SERVICE_NAME="crossdock",
            POWERTOOLS_METRICS_NAMESPACE="crossdock",
        )
        seconds, modules = output.splitlines()[-2:]
        return Import(seconds=float(seconds), modules=frozenset(modules.split()))


if __name__ == "__main__":
    main()
