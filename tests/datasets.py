"""Small TPC-H and TPC-DS data sets, generated once and kept under ``.data/`` (git-ignored)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".data"
FIXTURES = Path(__file__).resolve().parent / "fixtures"
TINY_SCALE = "0.01"


def benchmark_queries(benchmark: str) -> list[tuple[str, str]]:
    """(number, text) of each query of ``tpch`` or ``tpcds``, without the final semicolon."""
    pairs = json.loads((FIXTURES / f"{benchmark}.json").read_text())
    return [(str(number), text.strip().rstrip(";")) for number, text in pairs]


def generate(benchmark: str, scale: str = TINY_SCALE) -> Path:
    """Folder with one ``<table>.parquet`` a table; generated when it is not there yet.

    Generation happens beside the final folder and is renamed into place, so that test processes
    running at the same time never see half a data set.
    """
    folder = CACHE / f"{benchmark}-{scale}"
    if folder.is_dir():
        return folder
    CACHE.mkdir(exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{benchmark}-", dir=CACHE))
    try:
        _run_generator(benchmark, scale, scratch)
        move_into_place(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


def _run_generator(benchmark: str, scale: str, folder: Path) -> None:
    program = Path(sysconfig.get_path("scripts")) / "tpcgen-cli"
    command = [str(program), benchmark, "parquet", "-s", scale, "-o", str(folder)]
    subprocess.run(command, check=True, capture_output=True)


def move_into_place(scratch: Path, folder: Path) -> None:
    try:
        os.rename(scratch, folder)  # noqa: PTH104 - must not fall back to a copy
    except OSError:
        if not folder.is_dir():  # another process may have been first: its copy is as good
            raise


@pytest.fixture(scope="session")
def tpch_tiny() -> Path:
    """TPC-H at scale 0.01, one Parquet file a table."""
    return generate("tpch")


@pytest.fixture(scope="session")
def tpch_tenth() -> Path:
    """TPC-H at scale 0.1, one Parquet file a table."""
    return generate("tpch", "0.1")


@pytest.fixture(scope="session")
def tpcds_tiny() -> Path:
    """TPC-DS at scale 0.01, one Parquet file a table."""
    return generate("tpcds")
