"""Settings of a connection: names, defaults, environment variables, validation.

One table, ``FIELDS``, feeds ``connect()``, the CLI's flags and the ``CROSSDOCK_*`` variables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum

import psutil

from crossdock.errors import SettingError


class Exchange(StrEnum):
    """How rows travel between stages."""

    AUTO = "auto"  # s3qs
    S3QS = "s3qs"  # queues announce sections, consumers start early
    BATCH = "batch"  # consumers start after the last commit; no queues


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a user may set. Sizes are bytes, times seconds; None means chosen from the machine."""

    workers: int | None = None  # workers at once; default: processors
    worker_threads: int = 1  # DuckDB threads per worker
    worker_memory: int | None = None  # per worker; default: 70 % of memory / workers
    partitions: int | None = None  # of every shuffle; default: from estimated bytes
    exchange: Exchange = Exchange.AUTO
    single_task_bytes: int | None = None  # read at most this: one task; 0 forces distribution
    broadcast_bytes: int = 64 * 1024 * 1024  # largest side sent to every task; 0 forces shuffles
    lease_seconds: float = 30.0  # a silent worker's task is given away after this
    max_attempts: int = 4  # failures allowed per task
    timeout_seconds: float | None = None  # the query's deadline

    @property
    def worker_count(self) -> int:
        return self.workers or os.cpu_count() or 1

    @property
    def memory_per_worker(self) -> int:
        total: int = psutil.virtual_memory().total
        return self.worker_memory or int(total * 0.7) // self.worker_count

    @property
    def single_task_limit(self) -> int:
        if self.single_task_bytes is not None:
            return self.single_task_bytes
        return self.memory_per_worker * self.worker_count
