"""``python -m layers.lock``: resolve the wanted packages again and write the lock files.

A lock names exact versions and the hashes of the wheels for its machine and the functions' Python.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from layers.recipes import PROVIDED, PYTHON, ROOT, THIRD_PARTY, Machine, Target


@click.command(help=__doc__)
def main() -> None:
    for machine in Machine:
        target = Target(machine=machine)
        for layer in THIRD_PARTY:
            lines = resolve(layer, target)
            header = (
                f"# {layer} for {machine}, Python {PYTHON}; written by: python -m layers.lock\n"
            )
            target.lock(layer).write_text(header + "\n".join(lines) + "\n")
            click.echo(f"{target.lock(layer).relative_to(ROOT)}: {len(lines)} packages")


def resolve(layer: str, target: Target) -> list[str]:
    """Requirement lines with hashes, sorted by name."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
        command += ["--ignore-installed", f"--report={report}", f"--target={folder}/none"]
        command += [*target.pip_options, f"--requirement={ROOT / 'layers' / layer}.in"]
        subprocess.run(command, check=True)
        found = json.loads(report.read_text())["install"]
    return sorted(_line(package) for package in found if _name(package) not in PROVIDED)


def _name(package: dict[str, Any]) -> str:
    return str(package["metadata"]["name"]).lower().replace("_", "-")


def _line(package: dict[str, Any]) -> str:
    version = package["metadata"]["version"]
    digest = package["download_info"]["archive_info"]["hashes"]["sha256"]
    return f"{_name(package)}=={version} --hash=sha256:{digest}"


if __name__ == "__main__":
    main()
