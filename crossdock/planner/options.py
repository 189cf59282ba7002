"""What the planner may be told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerOptions:
    """Sizes are bytes. ``single_task_limit`` 0 forces distribution, of one-row tables too;
    ``broadcast_bytes`` 0 forces shuffles wherever a join has an equality.
    """

    workers: int = 1
    partitions: int | None = None  # of every shuffle; None: from estimated bytes
    single_task_limit: int = 0  # a query that reads no more is one task
    broadcast_bytes: int = 64 * 1024 * 1024
    split_bytes: int = 128 * 1024 * 1024  # column bytes a scan task is given
    partition_bytes: int = 128 * 1024 * 1024  # exchanged bytes a partition is given
    one_output: bool = False  # one task makes all the rows of the result

    @property
    def forced(self) -> bool:
        """True if even the smallest table is to be cut, as tests and rehearsals want."""
        return self.single_task_limit == 0
