"""Asking whoever has the engine, and what it means when they refuse or do not answer."""

from __future__ import annotations

from typing import TypeVar

from crossdock.api.limits import RETRY_AFTER_SECONDS
from crossdock.api.messages import Action, Desk, Refusal
from crossdock.api.problems import UNAVAILABLE, ApiError, of_refusal
from crossdock.errors import InternalError, PlatformUnavailable

A = TypeVar("A")


def ask(desk: Desk, action: Action, expected: type[A]) -> A:
    """The answer of the expected type. Raises ``ApiError`` for a refusal or no answer."""
    try:
        answer = desk.perform(action)
    except PlatformUnavailable as error:
        raise ApiError(UNAVAILABLE, str(error), retry_after=RETRY_AFTER_SECONDS) from error
    if isinstance(answer, Refusal):
        raise of_refusal(answer)
    if not isinstance(answer, expected):
        raise InternalError(f"{type(action).__name__} was answered by {type(answer).__name__}")
    return answer
