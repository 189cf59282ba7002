"""TPC data and query texts for the demo and the benchmarks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".data"
TABLES = (
    "customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier",
)  # fmt: skip


def program(name: str) -> str:
    """Path of a command installed beside this interpreter."""
    return str(Path(sysconfig.get_path("scripts")) / name)


def tpch(scale: str) -> Path:
    """TPC-H: a folder with one Parquet file a table."""
    return dataset("tpch", scale)


def dataset(benchmark: str, scale: str) -> Path:
    """Folder of ``tpch`` or ``tpcds``; generated when it is not there, renamed when whole."""
    folder = CACHE / f"{benchmark}-sf{scale}"
    if folder.is_dir():
        return folder
    CACHE.mkdir(exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{benchmark}-", dir=CACHE))
    try:
        command = [program("tpcgen-cli"), benchmark, "parquet", "-s", scale, "-o", str(scratch)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


def queries(benchmark: str = "tpch") -> dict[int, str]:
    """The query texts of ``tpch`` or ``tpcds`` by number."""
    pairs = json.loads((ROOT / "tests" / "fixtures" / f"{benchmark}.json").read_text())
    return {int(number): text.strip().rstrip(";") for number, text in pairs}
