"""Page tokens: where a listing or a result goes on. Opaque to callers, the same page every time."""

from __future__ import annotations

import base64
import binascii

import msgspec

from crossdock.api.problems import TOKEN, ApiError

_VERSION = 1
_NOT_OURS = "take it from the answer before, unchanged, for the same address"


class _Place(msgspec.Struct, frozen=True, array_like=True):
    version: int
    subject: str  # what is paged, so that a token of one result is none of another
    place: list[int | str]


def write(subject: str, *place: int | str) -> str:
    """The token of a place within ``subject``."""
    data = msgspec.json.encode(_Place(_VERSION, subject, list(place)))
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def read_numbers(token: str, subject: str, count: int) -> tuple[int, ...]:
    """A place of ``count`` whole numbers, not negative. Raises ``ApiError``."""
    place = _read(token, subject)
    numbers = tuple(n for n in place if isinstance(n, int) and 0 <= n < 2**62)
    if len(numbers) != count or len(place) != count:
        raise ApiError(TOKEN, _NOT_OURS)
    return numbers


def read_text(token: str, subject: str) -> str:
    """A place that is one text. Raises ``ApiError``."""
    place = _read(token, subject)
    if len(place) != 1 or not isinstance(place[0], str):
        raise ApiError(TOKEN, _NOT_OURS)
    return place[0]


def _read(token: str, subject: str) -> list[int | str]:
    try:
        data = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        found = msgspec.json.decode(data, type=_Place)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise ApiError(TOKEN, _NOT_OURS) from error
    if found.version != _VERSION or found.subject != subject:
        raise ApiError(TOKEN, _NOT_OURS)
    return found.place
