"""What a deployment may set, read from CDK context keys ``crossdock:<name>``.

Values come from ``cdk.json`` (JSON types) or from ``cdk ... -c crossdock:name=value`` (texts; lists
separated by commas). Everything is checked at once, before any resource is made.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, get_type_hints

CONTEXT_PREFIX = "crossdock:"

#: Limits of the services that settings may not exceed.
MEMORY_MB = (128, 10_240)
SCRATCH_MB = (512, 10_240)
#: Environments one function may start in 10 s.
LAUNCHES_PER_FUNCTION = 1_000
#: A stack holds at most 500 resources, and a queue with its policy is two.
MAX_POOL = 200
LOG_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 3653)
#: No dash: names of resources are ``<name>-...``, and permissions are given by such prefixes.
_NAME = re.compile(r"[a-z][a-z0-9]{2,23}")
_DATABASE = re.compile(r"[\w-]{1,255}")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^*?]*)?")


class SettingsError(ValueError):
    """The context does not describe a deployment; the message lists every reason."""


class Architecture(StrEnum):
    ARM64 = "arm64"
    X86_64 = "x86_64"


class Auth(StrEnum):
    """Who may call the HTTP API. There is no value for "anybody"."""

    IAM = "iam"  # SigV4
    JWT = "jwt"  # bearer tokens of one issuer


class OtherOwners(StrEnum):
    """What a caller sees of other callers' queries."""

    HIDDEN = "hidden"
    REFUSED = "refused"
    SHARED = "shared"


class Removal(StrEnum):
    """What becomes of the table and the buckets when their stack is deleted."""

    RETAIN = "retain"
    DESTROY = "destroy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Sizes in MB (1024 * 1024 bytes), times as named."""

    name: str = "crossdock"  # prefix of stack, queue and metric names
    architecture: Architecture = Architecture.ARM64  # `arm64` or `x86_64`
    layers: str = ""  # folder of built layers; default `build/layers/<architecture>`
    functions: str = "build/functions"  # folder of built function code

    api_memory_mb: int = 512  # memory of the API function
    coordinator_memory_mb: int = 1769  # memory of the coordinator (1,769 MB is one CPU)
    producer_memory_mb: int = 3008  # memory of producers
    consumer_memory_mb: int = 3008  # memory of consumers
    producer_scratch_mb: int = 4096  # `/tmp` of producers
    consumer_scratch_mb: int = 10_240  # `/tmp` of consumers
    worker_timeout_seconds: int = 900  # a worker's longest life, 60 to 900

    concurrency: int = 100  # workers of the deployment at once
    query_workers: int = 64  # workers of one query at once
    worker_copies: int = 1  # copies of each worker function, 1,000 launches/10 s each
    reserve_concurrency: bool = True  # reserve the functions' concurrency
    coordinator_concurrency: int = 20  # coordinator turns at once
    api_concurrency: int = 50  # API requests at once
    pool_size: int = 64  # shuffle queues kept ready; more are made on demand
    janitor_minutes: int = 1  # minutes until the janitor revives a query that fell asleep
    sweep_minutes: int = 60  # minutes between its rounds over all objects and queues

    auth: Auth = Auth.IAM  # `iam` (SigV4) or `jwt`
    jwt_issuer: str = ""  # issuer URL of accepted tokens, with `auth=jwt`
    jwt_audience: tuple[str, ...] = ()  # accepted audiences, with `auth=jwt`
    cors_origins: tuple[str, ...] = ()  # origins of browsers that may call the API
    other_owners: OtherOwners = OtherOwners.HIDDEN  # queries of other callers
    open_queries: int = 100  # queries that may be open at once; more are refused with 429
    max_scanned_gb: int = 0  # largest read a query may plan, in GB of Parquet; 0: no limit
    throttle_rate: int = 50  # API requests a second
    throttle_burst: int = 100  # API requests in a burst

    data: tuple[str, ...] = ()  # `bucket` or `bucket/prefix` that queries may read
    targets: tuple[str, ...] = ()  # `bucket` or `bucket/prefix` that COPY may write to
    data_key_arns: tuple[str, ...] = ()  # KMS keys the data is encrypted with
    glue_database: str = ""  # database of the AWS Glue Data Catalog whose tables queries may name

    result_days: int = 7  # days a result can be fetched
    exchange_days: int = 2  # days until forgotten exchange objects expire
    log_days: int = 30  # days logs are kept
    removal: Removal = Removal.RETAIN  # `retain` or `destroy` table and buckets

    tracing: bool = True  # X-Ray traces
    snap_start: bool = False  # SnapStart of the API function (billed while deployed)
    dashboard: bool = True  # a CloudWatch dashboard
    alarm_topic_arn: str = ""  # SNS topic that alarms notify

    def __post_init__(self) -> None:
        problems = [text for check in _CHECKS for text in check(self)]
        if problems:
            raise SettingsError("; ".join(problems))

    @property
    def layer_folder(self) -> str:
        return self.layers or f"build/layers/{self.architecture}"

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> Settings:
        """Settings of the ``crossdock:`` keys of a CDK context. Raises ``SettingsError``."""
        given = {
            key.removeprefix(CONTEXT_PREFIX): value
            for key, value in context.items()
            if key.startswith(CONTEXT_PREFIX)
        }
        types = get_type_hints(cls)
        unknown = [_unknown(name, types) for name in sorted(given.keys() - types.keys())]
        if unknown:
            raise SettingsError("; ".join(unknown))
        return cls(**{name: _parsed(name, types[name], value) for name, value in given.items()})


#: Every setting, in order; each stands in ``docs/operations.md``.
NAMES = tuple(field.name for field in dataclasses.fields(Settings))


def _unknown(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
    return f"{CONTEXT_PREFIX}{name} is no setting; {hint}"


def _parsed(name: str, kind: Any, value: Any) -> Any:
    if kind is int:
        return _whole(name, value)
    if kind is bool:
        return _truth(name, value)
    if kind == tuple[str, ...]:
        return _texts(name, value)
    if not isinstance(value, str):
        raise SettingsError(f"{name} must be a text, not {value!r}")
    if kind is str:
        return value.strip()
    try:
        return kind(value.strip().lower())
    except ValueError:
        allowed = ", ".join(kind)
        raise SettingsError(f"{name} must be one of {allowed}, not {value!r}") from None


def _whole(name: str, value: Any) -> int:
    text = str(value).replace("_", "").strip()
    if isinstance(value, bool) or not re.fullmatch(r"-?\d+", text):
        raise SettingsError(f"{name} must be a whole number, not {value!r}")
    return int(text)


def _truth(name: str, value: Any) -> bool:
    answers = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    answer = answers.get(str(value).strip().lower())
    if answer is None:
        raise SettingsError(f"{name} must be true or false, not {value!r}")
    return answer


def _texts(name: str, value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise SettingsError(f"{name} must be a list of texts, not {value!r}")
    return tuple(part.strip() for part in parts if part.strip())


_RANGES: Mapping[str, tuple[int, int]] = {
    "api_memory_mb": MEMORY_MB,
    "coordinator_memory_mb": MEMORY_MB,
    "producer_memory_mb": (512, MEMORY_MB[1]),
    "consumer_memory_mb": (512, MEMORY_MB[1]),
    "producer_scratch_mb": SCRATCH_MB,
    "consumer_scratch_mb": SCRATCH_MB,
    "worker_timeout_seconds": (60, 900),
    "concurrency": (1, 10_000),
    "query_workers": (1, 10_000),
    "worker_copies": (1, 20),
    "coordinator_concurrency": (4, 1_000),
    "api_concurrency": (1, 1_000),
    "pool_size": (0, MAX_POOL),
    "janitor_minutes": (1, 60),
    "sweep_minutes": (5, 1_440),
    "open_queries": (1, 100_000),
    "max_scanned_gb": (0, 1_000_000),
    "throttle_rate": (1, 10_000),
    "throttle_burst": (1, 5_000),
    "result_days": (1, 365),
    "exchange_days": (2, 30),
}


def _in_range(settings: Settings) -> list[str]:
    return [
        f"{name} must be {low:,} to {high:,}, not {getattr(settings, name):,}"
        for name, (low, high) in _RANGES.items()
        if not low <= getattr(settings, name) <= high
    ]


def _named(settings: Settings) -> list[str]:
    if _NAME.fullmatch(settings.name):
        return []
    return [
        f"name must be 3 to 24 lower-case letters and digits, starting with a letter, "
        f"not {settings.name!r}"
    ]


def _in_glue(settings: Settings) -> list[str]:
    if not settings.glue_database or _DATABASE.fullmatch(settings.glue_database):
        return []
    return [
        "glue_database must be the name of one database (letters, digits, _ and -), "
        f"not {settings.glue_database!r}"
    ]


def _budgeted(settings: Settings) -> list[str]:
    problems = []
    if settings.query_workers > settings.concurrency:
        problems.append(
            f"query_workers ({settings.query_workers}) is more than concurrency "
            f"({settings.concurrency}), which all queries share"
        )
    if settings.worker_copies > settings.concurrency:
        problems.append("worker_copies is more than concurrency: a copy would have no worker")
    return problems


def _authorized(settings: Settings) -> list[str]:
    given = bool(settings.jwt_issuer or settings.jwt_audience)
    if settings.auth is Auth.IAM and given:
        return ["jwt_issuer and jwt_audience have no effect with auth=iam; set auth=jwt"]
    if settings.auth is Auth.JWT and not (settings.jwt_issuer and settings.jwt_audience):
        return ["auth=jwt needs jwt_issuer and jwt_audience"]
    if settings.jwt_issuer and not settings.jwt_issuer.startswith("https://"):
        return [f"jwt_issuer must be an https:// URL, not {settings.jwt_issuer!r}"]
    return []


def _kept(settings: Settings) -> list[str]:
    if settings.log_days in LOG_DAYS:
        return []
    return [f"log_days must be one of {', '.join(map(str, LOG_DAYS))}, not {settings.log_days}"]


def _scoped(settings: Settings) -> list[str]:
    """Data is named bucket by bucket: a pattern would let queries read what nobody listed."""
    problems = [
        f"{name} must name a bucket or bucket/prefix without s3:// and wildcards, not {source!r}"
        for name, sources in (("data", settings.data), ("targets", settings.targets))
        for source in sources
        if not _BUCKET.fullmatch(source)
    ]
    problems += [
        f"data_key_arns must be ARNs of keys, not {arn!r}"
        for arn in settings.data_key_arns
        if not re.fullmatch(r"arn:aws[\w-]*:kms:[\w-]+:\d{12}:key/[\w-]+", arn)
    ]
    if "*" in settings.cors_origins:
        problems.append("cors_origins must name origins; '*' would allow any page")
    return problems


_CHECKS: tuple[Callable[[Settings], list[str]], ...] = (
    _in_range,
    _named,
    _in_glue,
    _budgeted,
    _authorized,
    _kept,
    _scoped,
)
