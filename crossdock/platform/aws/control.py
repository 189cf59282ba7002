"""Knocks and alarms as messages on one queue, which wakes the coordinator's function."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import msgspec

from crossdock.errors import PlatformUnavailable
from crossdock.platform.aws.errors import translated

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_log = logging.getLogger(__name__)

#: SQS's longest delay, in seconds. A later alarm rings then, finds nothing, and is set again.
MAX_DELAY = 900


class Knock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A control message: something of the query changed, or, with ``tick``, an alarm."""

    query: str
    tick: int = -1  # number of the alarm; none: -1


class SqsControl:
    """Sends control messages (``ports.Control``); threads may share it.

    Knocks are not held back here: a commit must be heard at once, and a process that waits to join
    knocks may be frozen meanwhile. They come together where they are received: one batch of
    messages means one turn per query, and a turn that is held takes note and looks again.
    """

    def __init__(self, client: SQSClient, queue_url: str) -> None:
        self._client = client
        self._url = queue_url

    def notify(self, query_id: str) -> None:
        """A knock that cannot be sent is let go: the next alarm sees what it was about."""
        try:
            self._send(Knock(query=query_id))
        except PlatformUnavailable as error:
            _log.warning("query %s: the coordinator was not told: %s", query_id, error)

    def tick(self, query_id: str, number: int, *, delay: float) -> None:
        """In whole seconds, rounded up: rounded down, a short delay would be none at all."""
        self._send(Knock(query=query_id, tick=number), min(MAX_DELAY, math.ceil(delay)))

    def _send(self, knock: Knock, delay: int = 0) -> None:
        with translated("the control queue"):
            self._client.send_message(
                QueueUrl=self._url,
                MessageBody=msgspec.json.encode(knock).decode(),
                DelaySeconds=delay,
            )
