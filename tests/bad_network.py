"""A network that fails on purpose, below the SDK: answers of AWS are lost, refused or repeated.

Joined to a client, ``BadNetwork`` decides from a seed what becomes of each request it sends. The
SDK's own retries are real; so is whatever the service did before its answer was lost.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ReadTimeoutError
from botocore.httpsession import URLLib3Session

_SLOW_DOWN = (503, "SlowDown", "Please reduce your request rate.")
_THROTTLED: Mapping[str, tuple[int, str, str]] = {
    "s3": _SLOW_DOWN,
    "sqs": (400, "ThrottlingException", "Rate exceeded"),
    "dynamodb": (400, "ThrottlingException", "Rate of requests exceeds the allowed throughput."),
}
_FAILED: Mapping[str, tuple[int, str, str]] = {
    "s3": (500, "InternalError", "We encountered an internal error. Please try again."),
    "sqs": (500, "InternalFailure", "An internal error occurred."),
    "dynamodb": (500, "InternalServerError", "The request could not be processed."),
}
_CONFLICT = (400, "TransactionConflictException", "Transaction is ongoing for the item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """Shares of requests, each between 0 and 1."""

    throttled: float = 0.0  # not done, told so
    failed: float = 0.0  # not done, 500
    done_but_failed: float = 0.0  # done, 500
    timed_out: float = 0.0  # not done, no answer
    done_but_timed_out: float = 0.0  # done, no answer
    conflict: float = 0.0  # not done, DynamoDB's single writes only


_WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem"})
#: The SDK repeats a transaction under one token. The service answers as it did the first time; the
#: emulator takes the repetition for another request.
_NOT_REPEATABLE = frozenset({"TransactWriteItems"})


@dataclass(slots=True)
class BadNetwork:
    """Faults by chance, in every operation or in those that ``only`` names."""

    seed: int
    odds: Odds
    only: frozenset[str] = frozenset()  # operations; empty: all
    counts: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _random: random.Random = field(init=False)
    _session: URLLib3Session = field(default_factory=URLLib3Session)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def join(self, client: Any) -> None:
        """Stand between this client and its service from now on."""
        client.meta.events.register("before-send.*.*", self._send)

    def leave(self, client: Any) -> None:
        client.meta.events.unregister("before-send.*.*", self._send)

    def _send(self, request: Any, event_name: str, **_: Any) -> AWSResponse | None:
        _, service, operation = event_name.split(".")
        fate = self._fate(operation)
        if fate is None:
            return None
        with self._lock:
            self.counts[fate] += 1
        if fate.startswith("done"):
            self._session.send(request)
        if fate.endswith("timed_out"):
            raise ReadTimeoutError(endpoint_url=request.url)
        if fate == "conflict":
            return _answer(request, service, *_CONFLICT)
        answers = _THROTTLED if fate == "throttled" else _FAILED
        return _answer(request, service, *answers[service])

    def _fate(self, operation: str) -> str | None:
        if self.only and operation not in self.only:
            return None
        with self._lock:
            draw = self._random.random()
        for name in Odds.__slots__:
            if name == "conflict" and operation not in _WRITES:
                continue
            if name.startswith("done") and operation in _NOT_REPEATABLE:
                continue
            share = getattr(self.odds, name)
            if draw < share:
                return str(name)
            draw -= share
        return None


class _Raw:
    """The body of an answer as the SDK's parsers read it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> Any:
        yield self._body

    def read(self, *_: Any, **__: Any) -> bytes:
        body, self._body = self._body, b""
        return body


def _answer(request: Any, service: str, status: int, code: str, message: str) -> AWSResponse:
    if service == "s3":
        text = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
        headers = {"Content-Type": "application/xml"}
    else:
        text = json.dumps({"__type": f"com.amazonaws#{code}", "message": message})
        headers = {"Content-Type": "application/x-amz-json-1.0"}
    return AWSResponse(request.url, status, headers, _Raw(text.encode()))
