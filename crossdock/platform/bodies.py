"""What a queue message may be and how messages are cut into requests: SQS's rules everywhere.

The local queues obey them too, so that what runs on a laptop is not refused on AWS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from crossdock.errors import PlatformError

#: Longest message, and most bytes in one batch of messages.
MAX_BYTES = 1024 * 1024
#: Most messages in one send, receive or delete request.
MAX_ENTRIES = 10
#: Longest wait of one receive request, in seconds.
MAX_WAIT = 20
#: Payload is billed by the started 64 KiB.
CHUNK_BYTES = 64 * 1024

# The characters SQS refuses are those XML 1.0 cannot carry.
_REFUSED = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text_of(body: bytes) -> str:
    """The message as text. Raises ``PlatformError`` for a body that SQS would refuse."""
    if not body:
        raise PlatformError("a queue message must not be empty")
    if len(body) > MAX_BYTES:
        raise PlatformError(
            f"a queue message of {len(body)} bytes is over the limit of {MAX_BYTES};"
            " put the payload in an object and send its key"
        )
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise PlatformError(f"a queue message must be UTF-8 text: {error.reason}") from error
    if refused := _REFUSED.search(text):
        raise PlatformError(
            f"a queue message must not contain the character U+{ord(refused.group()):04X};"
            " escape it in the message's encoding"
        )
    return text


def batches(bodies: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Cut messages, in order, into requests of at most 10 messages and 1 MiB together."""
    start = size = 0
    for index, body in enumerate(bodies):
        if index > start and (index - start == MAX_ENTRIES or size + len(body) > MAX_BYTES):
            yield bodies[start:index]
            start, size = index, 0
        size += len(body)
    if start < len(bodies):
        yield bodies[start:]


def chunks(bodies: Sequence[bytes]) -> int:
    """How many 64 KiB units one request with these messages is billed for; at least one."""
    return max(1, -(-sum(map(len, bodies)) // CHUNK_BYTES))
