"""What a function of a deployment is told by its environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from crossdock.errors import SettingError

_MIB = 1024 * 1024
#: Memory of a function for each processor it gets, in MB; Lambda's rule.
_MEMORY_PER_PROCESSOR = 1769
_REQUIRED = (
    "CROSSDOCK_TABLE",
    "CROSSDOCK_EXCHANGE_BUCKET",
    "CROSSDOCK_RESULT_BUCKET",
    "CROSSDOCK_CONTROL_QUEUE_URL",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsConfig:
    """Names of a deployment's resources, its limits, and what this function has."""

    table: str
    exchange_bucket: str
    result_bucket: str
    control_queue_url: str
    pool_prefix: str = ""  # of the stack's queues, <prefix>0000 and on
    pool_size: int = 0
    queue_prefix: str = ""  # of queues made on demand
    producer_functions: tuple[str, ...] = ()
    consumer_functions: tuple[str, ...] = ()
    coordinator_function: str = ""
    concurrency: int = 100  # workers of all queries at once
    query_workers: int = 16  # of one query, unless it asks for fewer
    glue_database: str = ""  # of the account's Data Catalog, whose tables queries may read
    result_days: float = 7.0  # answers and receipts are kept so long
    memory_bytes: int = 1769 * _MIB  # of this function
    scratch: Path = Path("/tmp/crossdock")

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> AwsConfig:
        """Read the ``CROSSDOCK_*`` and ``AWS_*`` variables.

        Raises ``SettingError`` naming every variable that is missing or not a number.
        """
        missing = [name for name in _REQUIRED if not environment.get(name)]
        if missing:
            raise SettingError(f"environment variables are missing: {', '.join(missing)}")
        get = environment.get
        return cls(
            table=environment["CROSSDOCK_TABLE"],
            exchange_bucket=environment["CROSSDOCK_EXCHANGE_BUCKET"],
            result_bucket=environment["CROSSDOCK_RESULT_BUCKET"],
            control_queue_url=environment["CROSSDOCK_CONTROL_QUEUE_URL"],
            pool_prefix=get("CROSSDOCK_POOL_PREFIX", ""),
            pool_size=_count(environment, "CROSSDOCK_POOL_SIZE", 0),
            queue_prefix=get("CROSSDOCK_QUEUE_PREFIX", ""),
            producer_functions=_names(get("CROSSDOCK_PRODUCER_FUNCTIONS", "")),
            consumer_functions=_names(get("CROSSDOCK_CONSUMER_FUNCTIONS", "")),
            coordinator_function=get("CROSSDOCK_COORDINATOR_FUNCTION", ""),
            concurrency=_count(environment, "CROSSDOCK_CONCURRENCY", 100),
            query_workers=_count(environment, "CROSSDOCK_QUERY_WORKERS", 16),
            glue_database=get("CROSSDOCK_GLUE_DATABASE", ""),
            result_days=_count(environment, "CROSSDOCK_RESULT_DAYS", 7),
            memory_bytes=_count(environment, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE", 1769) * _MIB,
            scratch=Path(get("CROSSDOCK_SCRATCH") or "/tmp/crossdock"),
        )

    @property
    def threads(self) -> int:
        """Processors of this function, at least one."""
        return max(1, round(self.memory_bytes / _MIB / _MEMORY_PER_PROCESSOR))

    @property
    def pool(self) -> tuple[str, ...]:
        """The stack's queues, without their prefix."""
        return tuple(f"{number:04d}" for number in range(self.pool_size))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _count(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not text.isdecimal():
        raise SettingError(f"environment variable {name} = {text!r}: must be a whole number")
    return int(text)
