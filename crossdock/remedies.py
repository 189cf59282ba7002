"""Which settings give a worker more: the words errors use, by platform."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedies:
    """``memory`` names settings; ``space`` is a whole piece of advice."""

    memory: str
    space: str


#: Worker processes of this machine.
LOCAL = Remedies(
    memory="worker_memory",
    space="make room on the disk of the home folder, or choose a home on another one",
)
#: Lambda functions; the settings are those of the deployment.
DEPLOYED = Remedies(
    memory="producer_memory_mb and consumer_memory_mb of the deployment",
    space="raise producer_scratch_mb and consumer_scratch_mb of the deployment, or partitions",
)
