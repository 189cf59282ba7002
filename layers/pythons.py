"""Finding an interpreter of a given version on this machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path


@cache
def find_python(version: str) -> Path | None:
    """An interpreter of this minor version: the running one, on the path, or one of pyenv's."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return Path(sys.executable)
    named = shutil.which(f"python{version}")
    pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}*/bin/python{version}"))
    candidates = [*([Path(named)] if named else []), *reversed(pyenv)]
    return next((path for path in candidates if _runs(path, version)), None)


def _runs(python: Path, version: str) -> bool:
    """A name on the path may be a shim for a version that is not chosen."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version
