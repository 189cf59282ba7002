"""What a producer tells one consumer task about one edge: DATA entries and a PRODUCER_END.

One envelope per (edge, consumer task), unless it would not fit a message: then its entries are
spread over several. Entries carry their own numbers, so neither order nor repetition matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from crossdock.shuffle.exchange_object import IndexEntry
from crossdock.shuffle.spec import AttemptId

PROTOCOL_VERSION = 1
#: Entries in one envelope; an entry takes at most 200 bytes of JSON, a message 1 MiB.
MAX_ENTRIES = 4000


class Data(msgspec.Struct, frozen=True, kw_only=True, tag="DATA"):
    """One section; ``sequence`` counts from 0 within (producer attempt, edge, partition)."""

    sequence: int
    offset: int
    length: int
    rows: int
    checksum: str


class ProducerEnd(msgspec.Struct, frozen=True, kw_only=True, tag="PRODUCER_END"):
    """The producer has no more for this partition; ``count`` DATA entries are all."""

    count: int


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of one producer attempt for one partition of one shuffle."""

    protocol: int = PROTOCOL_VERSION
    query: str
    edge: int
    generation: int
    partition: int
    stage: int
    index: int
    attempt: int
    object_key: str
    entries: tuple[Data | ProducerEnd, ...]

    @property
    def producer(self) -> AttemptId:
        return AttemptId(self.stage, self.index, self.attempt)


_DECODER = msgspec.json.Decoder(Envelope)
_ENCODER = msgspec.json.Encoder()


def encode_envelope(envelope: Envelope) -> bytes:
    return _ENCODER.encode(envelope)


def decode_envelope(body: bytes) -> Envelope | None:
    """None for a message that is no envelope of this protocol version."""
    try:
        envelope = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return envelope if envelope.protocol == PROTOCOL_VERSION else None


def entries_of(sections: Sequence[IndexEntry]) -> tuple[Data | ProducerEnd, ...]:
    """The entries that announce ``sections``, which are all of one partition with rows."""
    data = [
        Data(
            sequence=sequence,
            offset=section.offset,
            length=section.length,
            rows=section.rows,
            checksum=section.checksum,
        )
        for sequence, section in enumerate(sections)
    ]
    return (*data, ProducerEnd(count=len(data)))


def split(envelope: Envelope) -> Iterator[Envelope]:
    """The envelope, in as many as its entries need to fit into messages."""
    for start in range(0, len(envelope.entries), MAX_ENTRIES):
        entries = envelope.entries[start : start + MAX_ENTRIES]
        yield msgspec.structs.replace(envelope, entries=entries)
