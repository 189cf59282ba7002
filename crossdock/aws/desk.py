"""The engine's desk in a function of a deployment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from crossdock.api.desk import EngineDesk
from crossdock.api.messages import Answer, Refusal, RefusalKind
from crossdock.api.planning import House
from crossdock.results.reader import ResultReader
from crossdock.settings import Settings, from_environment, with_values

if TYPE_CHECKING:
    from crossdock.aws import Deployment

_MIB = 1024 * 1024
#: What one worker reads in a second or two, in bytes: below it, a shuffle costs more than it saves.
_SINGLE_TASK_BYTES = 128 * _MIB

#: What a function's answer may have, in bytes: 6 MB, less a little for its envelope.
MAX_ANSWER_BYTES = 6_000_000


def fitting(answer: Answer) -> Answer:
    """The answer, or a refusal in words if it is larger than a function may give."""
    size = len(msgspec.json.encode(answer))
    if size <= MAX_ANSWER_BYTES:
        return answer
    return Refusal(
        kind=RefusalKind.NOT_SUPPORTED,
        message=f"the answer has {size:,} bytes, {MAX_ANSWER_BYTES:,} can be told; "
        "name fewer files, or larger ones",
    )


def settings(environment: Mapping[str, str], *, workers: int, memory: int) -> Settings:
    """Defaults of queries: those of the ``CROSSDOCK_*`` variables, else what suits functions.

    Args:
        environment: the function's.
        workers: the most one query may have.
        memory: bytes of a worker, unless CROSSDOCK_WORKER_MEMORY says.
    """
    given = from_environment(environment)
    return with_values(
        given,
        {
            "workers": workers,
            "worker_memory": given.worker_memory or memory,
            "single_task_bytes": (
                _SINGLE_TASK_BYTES if given.single_task_bytes is None else given.single_task_bytes
            ),
            "timezone": given.timezone or "UTC",
        },
    )


def make_desk(deployment: Deployment, house: House) -> EngineDesk:
    """A desk with this function's memory and disk."""
    config = deployment.config
    return EngineDesk(
        deployment.medium,
        deployment.catalog(),
        ResultReader(
            deployment.medium.objects,
            config.scratch / "results",
            memory=config.memory_bytes,
            threads=config.threads,
        ),
        house=house,
        control=deployment.control,
        clock=deployment.clock,
        ids=deployment.ids,
    )
