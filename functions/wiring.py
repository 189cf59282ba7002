"""The composition root: the environment, read once, becomes the parts that handlers call.

A warm process keeps its parts; another environment (in tests) gets others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from crossdock.api.ports import Others
from crossdock.aws import AwsConfig, Deployment, build, make_clients
from crossdock.errors import SettingError
from functions.gateway import Auth

if TYPE_CHECKING:
    from crossdock.api.api import Api
    from crossdock.api.desk import EngineDesk

T = TypeVar("T")
#: The API waits so long for the desk: then there is time left to say so, before the gateway gives
#: up at 30 s. Whatever the desk was doing goes on, and the same client token finds it.
ANSWER_SECONDS = 22
_Variables = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a deployment allows its callers."""

    auth: Auth = Auth.IAM
    others: Others = Others.HIDDEN
    open_queries: int = 100
    max_scanned_bytes: int | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Rules:
        """Raises ``SettingError`` naming the variable."""
        get = environment.get
        return cls(
            auth=_one_of(Auth, "CROSSDOCK_AUTH", get("CROSSDOCK_AUTH") or "iam"),
            others=_one_of(
                Others, "CROSSDOCK_OTHER_OWNERS", get("CROSSDOCK_OTHER_OWNERS") or "hidden"
            ),
            open_queries=int(get("CROSSDOCK_MAX_OPEN_QUERIES") or 100),
            max_scanned_bytes=int(get("CROSSDOCK_MAX_SCANNED_BYTES") or 0) or None,
        )


def rules() -> Rules:
    return _rules(_variables())


def deployment() -> Deployment:
    return _deployment(_variables())


def api() -> Api:
    return _api(_variables())


def desk() -> EngineDesk:
    return _desk(_variables())


def prepare(*parts: Callable[[], object]) -> None:
    """Make parts while a function's environment starts.

    It has a whole processor then, whatever its memory; making the SDK's clients takes 0.1 s of
    that, and several times as long within a request. Elsewhere there is nothing to make them of.
    """
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
        for part in parts:
            part()


def _variables() -> _Variables:
    known = ("CROSSDOCK_", "AWS_")
    return frozenset((k, v) for k, v in os.environ.items() if k.startswith(known))


@lru_cache(maxsize=1)
def _rules(variables: _Variables) -> Rules:
    return Rules.of(dict(variables))


@lru_cache(maxsize=1)
def _deployment(variables: _Variables) -> Deployment:
    return build(AwsConfig.of(dict(variables)))


@lru_cache(maxsize=1)
def _api(variables: _Variables) -> Api:
    from crossdock.aws.api import make_api

    parts = build(AwsConfig.of(dict(variables)), make_clients(answer_seconds=ANSWER_SECONDS))
    return make_api(parts, _rules(variables).others)


@lru_cache(maxsize=1)
def _desk(variables: _Variables) -> EngineDesk:
    from crossdock.api.planning import House
    from crossdock.aws.desk import make_desk, settings

    parts, allowed = _deployment(variables), _rules(variables)
    config = parts.config
    return make_desk(
        parts,
        House(
            settings=settings(
                dict(variables), workers=config.query_workers, memory=config.memory_bytes
            ),
            open_queries=allowed.open_queries,
            max_scanned_bytes=allowed.max_scanned_bytes,
            token_seconds=config.result_days * 86_400.0,
        ),
    )


def _one_of(kinds: Callable[[str], T], variable: str, text: str) -> T:
    try:
        return kinds(text)
    except ValueError as error:
        raise SettingError(f"environment variable {variable}: {error}") from error
