"""Which process drives a query on this machine, and whether it still lives."""

from __future__ import annotations

import os
import platform
import secrets

import psutil

_CLIENT = "client-"


def this_process() -> str:
    """``host:pid:starttime``: a process number alone comes back after a while."""
    return f"{platform.node()}:{os.getpid()}:{psutil.Process().create_time():.2f}"


def is_dead(owner: str) -> bool:
    """True only for certain: a process of this machine that runs no more."""
    host, pid, started = [*owner.rsplit(":", 2), "", ""][:3]
    if host != platform.node() or not pid.isdecimal():
        return False
    try:
        process = psutil.Process(int(pid))
        # A zombie has only its parent's look at its exit code before it.
        return f"{process.create_time():.2f}" != started or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def client_folder() -> str:
    """A name, never given twice, for a client's folder among those of queries."""
    return f"{_CLIENT}{this_process()}-{secrets.token_hex(4)}"


def is_of_living_client(folder: str) -> bool:
    """Whether a folder of that name is in use by a client; True where that cannot be told."""
    owner = folder.removeprefix(_CLIENT).rpartition("-")[0]
    return folder.startswith(_CLIENT) and not is_dead(owner)
