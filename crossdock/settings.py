"""Settings of a connection: names, defaults, environment variables, validation.

One table, ``FIELDS``, feeds ``connect()``, the CLI's flags and the ``CROSSDOCK_*`` variables.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import psutil

from crossdock.errors import SettingError

ENVIRONMENT_PREFIX = "CROSSDOCK_"
#: Partitions of a shuffle, given or planned: an estimate may be millions of times off.
MOST_PARTITIONS = 4096
#: A variable this close to a setting's name is taken for a misspelling of it.
_MISSPELLING = 0.85
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)", re.IGNORECASE)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)?", re.IGNORECASE)
_CATALOG = re.compile(r"glue://[\w-]{1,255}")
_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


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
    timezone: str | None = None  # of the session; default: the machine's
    catalog: str | None = None  # further tables: glue://database

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


#: What a query may choose in a deployment, which has the others.
SETTABLE = frozenset(
    {
        "broadcast_bytes",
        "exchange",
        "max_attempts",
        "partitions",
        "single_task_bytes",
        "timezone",
        "workers",
    }
)


class Kind(StrEnum):
    """How a setting's text is read."""

    COUNT = "number"
    SIZE = "size"
    DURATION = "seconds"
    EXCHANGE = "method"
    CATALOG = "catalog"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One setting as people see it; bounds are in its own unit, ends included."""

    name: str
    kind: Kind
    help: str
    default: str  # in words
    minimum: float = 0
    maximum: float = math.inf
    optional: bool = False  # None (and "auto" as text) leaves the choice to the engine

    @property
    def flag(self) -> str:
        """The CLI's spelling."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment's spelling."""
        return ENVIRONMENT_PREFIX + self.name.upper()

    @property
    def allowed(self) -> str:
        """What may be written, for messages and help."""
        if self.kind is Kind.EXCHANGE:
            return "one of " + ", ".join(Exchange)
        examples = {
            Kind.COUNT: "a whole number",
            Kind.SIZE: "a size such as 64MB, 1GiB or a number of bytes,",
            Kind.DURATION: "a time such as 30, 1.5s or 2m,",
        }
        if self.kind is Kind.CATALOG:
            return "glue:// and the name of a database, such as glue://sales"
        if self.kind is Kind.TEXT:
            return "a name such as Europe/Berlin"
        bound = f"at least {_plain(self.minimum)}"
        if self.maximum != math.inf:
            bound = f"from {_plain(self.minimum)} to {_plain(self.maximum)}"
        return f"{examples[self.kind]} {bound}" + (", or auto" if self.optional else "")

    def parse(self, value: object) -> object:
        """The setting's value from text or a Python value.

        Raises ``SettingError`` naming the setting, the value and what is allowed.
        """
        if self.optional and (value is None or _is_word(value, "auto")):
            return None
        parsed = _PARSERS[self.kind](value)
        if parsed is None or (
            isinstance(parsed, int | float) and not self.minimum <= parsed <= self.maximum
        ):
            raise SettingError(f"{self.name} = {value!r}: must be {self.allowed}")
        return parsed


def _plain(bound: float) -> str:
    return f"{bound:g}" if bound < 1_000_000 else f"{int(bound):,}"


def _is_word(value: object, word: str) -> bool:
    return isinstance(value, str) and value.strip().lower() == word


def _count(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    text = value.strip() if isinstance(value, str) else ""
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None


def _size(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or (match[3] and not match[2]):
        return None
    base = 1024 if match[3] else 1000
    return int(float(match[1]) * base ** " kmgt".index(match[2].lower() or " "))


def _duration(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) else None
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    return float(match[1]) * _SECONDS[(match[2] or "").lower()] if match else None


def _exchange(value: object) -> Exchange | None:
    text = value.strip().lower() if isinstance(value, str) else ""
    return Exchange(text) if text in set(Exchange) else None


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _catalog(value: object) -> str | None:
    text = value.strip() if isinstance(value, str) else ""
    return text if _CATALOG.fullmatch(text) else None


_PARSERS = {
    Kind.CATALOG: _catalog,
    Kind.COUNT: _count,
    Kind.SIZE: _size,
    Kind.DURATION: _duration,
    Kind.EXCHANGE: _exchange,
    Kind.TEXT: _text,
}

FIELDS: tuple[Field, ...] = (
    Field(
        name="workers",
        kind=Kind.COUNT,
        help="workers at once",
        default="processors of the machine",
        minimum=1,
        maximum=1024,
        optional=True,
    ),
    Field(
        name="worker_threads",
        kind=Kind.COUNT,
        help="DuckDB threads of each worker",
        default="1",
        minimum=1,
        maximum=256,
    ),
    Field(
        name="worker_memory",
        kind=Kind.SIZE,
        help="memory of each worker",
        default="70 % of the machine's memory, shared by the workers",
        minimum=64 * 1024 * 1024,
        optional=True,
    ),
    Field(
        name="partitions",
        kind=Kind.COUNT,
        help="partitions of every shuffle",
        default="from estimated bytes and workers",
        minimum=1,
        maximum=MOST_PARTITIONS,
        optional=True,
    ),
    Field(
        name="exchange",
        kind=Kind.EXCHANGE,
        help="how rows travel: s3qs (queues, early start) or batch (barrier, no queues)",
        default="auto (s3qs)",
    ),
    Field(
        name="single_task_bytes",
        kind=Kind.SIZE,
        help="a query that reads no more runs as one task; 0 forces distribution",
        default="the memory of all workers",
        optional=True,
    ),
    Field(
        name="broadcast_bytes",
        kind=Kind.SIZE,
        help="largest join side sent whole to every task; 0 forces shuffles",
        default="64MiB",
    ),
    Field(
        name="lease_seconds",
        kind=Kind.DURATION,
        help="a task whose worker is silent this long is given to another",
        default="30",
        minimum=0.1,
        maximum=3600,
    ),
    Field(
        name="max_attempts",
        kind=Kind.COUNT,
        help="failed attempts allowed per task before the query fails",
        default="4",
        minimum=1,
        maximum=100,
    ),
    Field(
        name="timeout_seconds",
        kind=Kind.DURATION,
        help="deadline of a query, after which it is cancelled",
        default="none",
        minimum=0.001,
        optional=True,
    ),
    Field(
        name="timezone",
        kind=Kind.TEXT,
        help="time zone of the session, the same for every worker",
        default="the machine's",
        optional=True,
    ),
    Field(
        name="catalog",
        kind=Kind.CATALOG,
        help="tables of another catalog: a database of AWS Glue (glue://database)",
        default="none",
        optional=True,
    ),
)
_BY_NAME = {field.name: field for field in FIELDS}


def with_values(base: Settings, values: Mapping[str, object]) -> Settings:
    """``base`` with some settings replaced, each read and checked.

    Raises ``SettingError`` for an unknown name (with the nearest known one) or a bad value.
    """
    parsed: dict[str, object] = {}
    for name, value in values.items():
        if name not in _BY_NAME:
            raise SettingError(_unknown(name))
        parsed[name] = _BY_NAME[name].parse(value)
    return replace(base, **parsed)  # type: ignore[arg-type]


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Settings of the ``CROSSDOCK_*`` variables, defaults elsewhere.

    Other variables of that prefix are somebody else's, unless they look like a misspelling.
    Raises ``SettingError`` naming the variable.
    """
    settings = Settings()
    for variable, text in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        if name not in _BY_NAME:
            near = difflib.get_close_matches(name, _BY_NAME, n=1, cutoff=_MISSPELLING)
            if near:
                meant = _BY_NAME[near[0]].variable
                raise SettingError(f"environment variable {variable}: did you mean {meant}?")
            continue
        try:
            settings = with_values(settings, {name: text})
        except SettingError as error:
            raise SettingError(f"environment variable {variable}: {error}") from error
    return settings


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, _BY_NAME, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(_BY_NAME)
    return f"unknown setting {name!r}: {hint}"
