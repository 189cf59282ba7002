"""Exchange objects: everything one attempt hands on, in one object with an index at its end.

    header   magic, format version
    sections one self-contained Parquet file each
    index    where each section is (MessagePack)
    footer   length and checksum of the index, magic

A reader needs only the commit record (object, size, index offset, index checksum) for the index,
and one index entry for a section: each is one ranged read, and each is verified.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import xxhash
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from coordinator_state.records import Commit
from crossdock.errors import ExchangeCorrupt, ExchangeLost, ObjectExists, ObjectNotFound
from crossdock.platform.ports import Objects
from crossdock.shuffle.spec import AttemptId, SectionFile

MAGIC = b"XDOCKOBJ"
FORMAT_VERSION = 1
_HEADER = struct.Struct("<8sII")  # magic, version, reserved
_FOOTER = struct.Struct("<QQ8s")  # index length, index checksum, magic
_BLOCK_BYTES = 1 << 20
#: One re-read before an object is called lost or corrupt: a torn read must not cost a producer.
_READ_TWICE = Retrying(
    retry=retry_if_exception_type((ExchangeLost, ExchangeCorrupt)),
    stop=stop_after_attempt(2),
    reraise=True,
)


class IndexEntry(msgspec.Struct, frozen=True, array_like=True):
    """One section. ``length`` 0: the partition has no rows. ``checksum`` is xxh3-64, hex."""

    edge: int
    partition: int
    offset: int
    length: int
    rows: int
    checksum: str


class Index(msgspec.Struct, frozen=True, array_like=True):
    """All sections of an object, by edge, then partition. One partition may have several."""

    entries: tuple[IndexEntry, ...]

    def grouped(self) -> dict[tuple[int, int], list[IndexEntry]]:
        """Sections with rows by (edge, partition); places in a list are DATA sequences."""
        groups: dict[tuple[int, int], list[IndexEntry]] = {}
        for entry in self.entries:
            if entry.length:
                groups.setdefault((entry.edge, entry.partition), []).append(entry)
        return groups


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """An object as written; the first four fields go into the commit record."""

    key: str
    size: int
    checksum: str
    index_offset: int
    index: Index


def write(objects: Objects, key: str, sections: Sequence[SectionFile]) -> Written:
    """Write ``sections`` as one object; the section files are copied, not read into memory.

    An object that is already there under one's own key is success if its size and its index are
    the same; anything else there raises ``ObjectExists``.
    """
    header = _HEADER.pack(MAGIC, FORMAT_VERSION, 0)
    ordered = sorted(sections, key=lambda s: (s.edge, s.partition))
    index, index_offset = _index(ordered, len(header))
    trailer = _trailer(index)
    written = Written(
        key=key,
        size=index_offset + len(trailer),
        checksum=xxhash.xxh3_64_hexdigest(trailer[: -_FOOTER.size]),
        index_offset=index_offset,
        index=index,
    )
    files = [section.path for section in ordered if section.path]
    parts: list[bytes | Path] = [header, *files, trailer]
    try:
        objects.put_files(key, parts)
    except ObjectExists:
        if not _is_there(objects, written, trailer):
            raise
    return written


def read_index(objects: Objects, commit: Commit, producer: AttemptId) -> Index:
    """The index of a committed object. Raises ``ExchangeLost``, ``ExchangeCorrupt``."""
    return _READ_TWICE(_read_index, objects, commit, producer)


def fetch_section(
    objects: Objects, key: str, entry: IndexEntry, target: Path, producer: AttemptId
) -> None:
    """One section into a new local file. Raises ``ExchangeLost``, ``ExchangeCorrupt``."""
    _READ_TWICE(_fetch_section, objects, key, entry, target, producer)


def checksum_of(path: Path) -> str:
    """xxh3-64 of a file, hex."""
    digest = xxhash.xxh3_64()
    for block in _blocks(path):
        digest.update(block)
    return digest.hexdigest()


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            yield block


def _index(sections: Iterable[SectionFile], offset: int) -> tuple[Index, int]:
    """The index, and where it will stand."""
    entries = []
    for section in sections:
        length = section.size if section.path else 0
        checksum = checksum_of(section.path) if section.path else ""
        entries.append(
            IndexEntry(
                edge=section.edge,
                partition=section.partition,
                offset=offset,
                length=length,
                rows=section.rows,
                checksum=checksum,
            )
        )
        offset += length
    return Index(tuple(entries)), offset


def _trailer(index: Index) -> bytes:
    encoded = msgspec.msgpack.encode(index)
    return encoded + _FOOTER.pack(len(encoded), xxhash.xxh3_64_intdigest(encoded), MAGIC)


def _is_there(objects: Objects, written: Written, trailer: bytes) -> bool:
    """Whether a first, unanswered put of the same bytes succeeded."""
    if objects.head(written.key).size != written.size:
        return False
    return objects.get(written.key, offset=written.index_offset) == trailer


def _read_index(objects: Objects, commit: Commit, producer: AttemptId) -> Index:
    length = commit.size - commit.index_offset
    try:
        trailer = objects.get(commit.object_key, offset=commit.index_offset, length=length)
    except ObjectNotFound:
        raise _lost(commit.object_key, producer) from None
    encoded = trailer[: -_FOOTER.size]
    if len(trailer) != length or length < _FOOTER.size:
        raise _corrupt(commit.object_key, producer, f"{len(trailer)} bytes of index, not {length}")
    if xxhash.xxh3_64_hexdigest(encoded) != commit.checksum:
        raise _corrupt(commit.object_key, producer, "the index is not the committed one")
    index_length, _, magic = _FOOTER.unpack(trailer[-_FOOTER.size :])
    if index_length != len(encoded) or magic != MAGIC:
        raise _corrupt(commit.object_key, producer, "the footer does not fit the index")
    return msgspec.msgpack.decode(encoded, type=Index)


def _fetch_section(
    objects: Objects, key: str, entry: IndexEntry, target: Path, producer: AttemptId
) -> None:
    target.unlink(missing_ok=True)
    try:
        objects.fetch(key, target, offset=entry.offset, length=entry.length)
    except ObjectNotFound:
        raise _lost(key, producer) from None
    size = target.stat().st_size
    if size != entry.length:
        raise _corrupt(key, producer, f"a section has {size} bytes, not {entry.length}")
    if checksum_of(target) != entry.checksum:
        raise _corrupt(key, producer, "a section's bytes are not those written")


def _lost(key: str, producer: AttemptId) -> ExchangeLost:
    return ExchangeLost(
        f"exchange object {key} is missing",
        stage=producer.stage,
        index=producer.index,
        attempt=producer.attempt,
    )


def _corrupt(key: str, producer: AttemptId, what: str) -> ExchangeCorrupt:
    return ExchangeCorrupt(
        f"exchange object {key} is corrupt: {what}",
        stage=producer.stage,
        index=producer.index,
        attempt=producer.attempt,
    )
