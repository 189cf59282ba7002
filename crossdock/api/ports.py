"""What the API needs beyond the engine's own ports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as the gateway's authorizer knows them; queries are owned by it."""

    owner: str


class Others(StrEnum):
    """What a caller sees of other callers' queries."""

    HIDDEN = "hidden"  # they do not exist: 404
    REFUSED = "refused"  # 403
    SHARED = "shared"  # everything


class Presigner(Protocol):
    """Makes addresses that need no further credentials."""

    def url(self, key: str, *, seconds: int) -> str:
        """For reading one object, for so long."""
        ...
