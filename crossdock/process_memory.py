"""How much memory this process has used."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_resident() -> int:
    """Most bytes this process has had resident, ever.

    On Linux not from ``getrusage``: there a new process starts with the peak of its parent.
    """
    if sys.platform == "linux":
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
