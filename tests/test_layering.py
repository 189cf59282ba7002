"""Imports point one way; the contracts stand in ``pyproject.toml``."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_no_module_imports_against_the_layers() -> None:
    program = Path(sysconfig.get_path("scripts")) / "lint-imports"
    result = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_environment_is_read_in_composition_roots_only() -> None:
    allowed = {
        "crossdock/client/connection.py",  # connect(): CROSSDOCK_* variables and the home folder
        "crossdock/client/endpoints.py",  # CROSSDOCK_ENDPOINT, and what signs requests to it
        "crossdock/platform/local/launcher.py",  # hands its environment to worker processes
    }
    found = {
        str(path.relative_to(ROOT))
        for package in ("crossdock", "coordinator_state")
        for path in (ROOT / package).rglob("*.py")
        if "os.environ" in path.read_text() or "os.getenv" in path.read_text()
    }
    assert found <= allowed
