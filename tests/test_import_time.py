"""Ceilings on imports: the command line and cold starts are paid for by them."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Processor seconds allowed, about five times what an idle machine takes.
CEILINGS = [
    ("crossdock", 0.5),
    ("crossdock.cli", 1.0),
    ("crossdock.planner.plan", 1.0),
]
#: What the light imports must not pull in, whatever the machine's speed.
HEAVY = {
    "crossdock": ("duckdb", "pyarrow", "boto3", "rich", "click", "psutil"),
    "crossdock.cli": ("duckdb", "pyarrow", "boto3", "rich.progress"),
    "coordinator_state.records": ("duckdb", "pyarrow", "boto3", "crossdock"),
    # Functions: the API's has no engine, workers have no Arrow.
    "crossdock.aws": ("duckdb", "pyarrow", "psutil", "rich"),
    "crossdock.aws.control": ("duckdb", "pyarrow"),
    "crossdock.aws.workers": ("pyarrow", "numpy", "rich"),
}


@pytest.mark.parametrize(("module", "ceiling"), CEILINGS)
def test_import_takes_no_longer_than_its_ceiling(module: str, ceiling: float) -> None:
    program = (
        "import time; began = time.process_time(); "
        f"import {module}; print(time.process_time() - began)"
    )
    # The best of three: other processes of the machine only ever slow an import down.
    seconds = min(float(_python(program)) for _ in range(3))
    assert seconds < ceiling


@pytest.mark.parametrize(("module", "heavy"), list(HEAVY.items()))
def test_light_import_loads_no_heavy_module(module: str, heavy: tuple[str, ...]) -> None:
    program = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    assert _python(program).strip() == "[]"


def _python(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
