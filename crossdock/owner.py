"""Which process drives a query on this machine, and whether it still lives."""

from __future__ import annotations

import os
import platform

import psutil


def this_process() -> str:
    """``host:pid:starttime``: a process number alone comes back after a while."""
    return f"{platform.node()}:{os.getpid()}:{psutil.Process().create_time():.2f}"


def is_dead(owner: str) -> bool:
    """True only for certain: a process of this machine that runs no more."""
    host, pid, started = [*owner.rsplit(":", 2), "", ""][:3]
    if host != platform.node() or not pid.isdecimal():
        return False
    try:
        return f"{psutil.Process(int(pid)).create_time():.2f}" != started
    except psutil.NoSuchProcess:
        return True
