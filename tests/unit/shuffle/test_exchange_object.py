"""An exchange object is read back as written, or the reader says what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from crossdock.errors import ExchangeCorrupt, ExchangeLost, ObjectExists
from crossdock.platform.memory import MemoryObjects
from crossdock.shuffle.exchange_object import MAGIC, fetch_section, read_index, write
from crossdock.shuffle.spec import AttemptId, SectionFile
from tests.unit.shuffle.table import commit_of

PRODUCER = AttemptId(3, 1, 2)
KEY = "exchange/00/q/3/1-2"


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


@pytest.fixture
def sections(tmp_path: Path) -> list[SectionFile]:
    made = []
    for edge, partition, content in (
        (1, 0, b"broadcast"),
        (0, 2, b"two"),
        (0, 0, b"zero, first"),
        (0, 0, b"zero, second"),
        (0, 1, b""),
    ):
        path = tmp_path / f"{edge}-{partition}-{len(made)}"
        path.write_bytes(content)
        made.append(
            SectionFile(
                edge=edge,
                partition=partition,
                path=path if content else None,
                rows=len(content),
                size=len(content),
            )
        )
    return made


def test_sections_come_back_byte_for_byte(objects, sections, tmp_path: Path) -> None:
    written = write(objects, KEY, sections)
    index = read_index(objects, commit_of(written), PRODUCER)
    assert index == written.index
    found = {}
    for place, entries in index.grouped().items():
        for number, entry in enumerate(entries):
            target = tmp_path / "fetched"
            fetch_section(objects, KEY, entry, target, PRODUCER)
            found[(*place, number)] = target.read_bytes()
            assert entry.rows == entry.length
    assert found == {
        (0, 0, 0): b"zero, first",
        (0, 0, 1): b"zero, second",
        (0, 2, 0): b"two",
        (1, 0, 0): b"broadcast",
    }


def test_an_empty_partition_is_in_the_index_with_length_0(objects, sections) -> None:
    written = write(objects, KEY, sections)
    (empty,) = [entry for entry in written.index.entries if entry.partition == 1]
    assert (empty.length, empty.rows) == (0, 0)


def test_magic_stands_at_both_ends(objects, sections) -> None:
    written = write(objects, KEY, sections)
    data = objects.get(KEY)
    assert data.startswith(MAGIC)
    assert data.endswith(MAGIC)
    assert len(data) == written.size


def test_an_object_without_any_section(objects) -> None:
    written = write(objects, KEY, [])
    assert read_index(objects, commit_of(written), PRODUCER).entries == ()


def test_writing_the_same_again_is_success(objects, sections) -> None:
    assert write(objects, KEY, sections) == write(objects, KEY, sections)


def test_other_content_under_ones_own_key_is_refused(objects, sections) -> None:
    write(objects, KEY, sections[:2])
    with pytest.raises(ObjectExists):
        write(objects, KEY, sections)


def test_same_size_but_other_bytes_is_refused(objects, sections) -> None:
    written = write(objects, KEY, sections[1:2])
    sections[1].path.write_bytes(b"TWO")
    with pytest.raises(ObjectExists):
        write(objects, KEY, sections[1:2])
    assert objects.head(KEY).size == written.size


def test_the_commit_record_stays_under_a_kilobyte(objects, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x")
    sections = [SectionFile(edge=0, partition=p, path=path, rows=1, size=1) for p in range(1000)]
    assert len(msgspec.json.encode(commit_of(write(objects, KEY, sections)))) < 1024


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],  # truncated
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data[:-40] + bytes([data[-40] ^ 1]) + data[-39:],  # in the index
        lambda data: data[:-1] + b"?",  # in the magic
        lambda data: data[:-24] + bytes(8) + data[-16:],  # in the index's length
    ],
)
def test_a_damaged_trailer_is_corrupt(objects, sections, damage) -> None:
    written = write(objects, KEY, sections)
    damaged = damage(objects.get(KEY))
    objects.delete([KEY])
    objects.put(KEY, damaged)
    with pytest.raises(ExchangeCorrupt) as error:
        read_index(objects, commit_of(written), PRODUCER)
    assert (error.value.stage, error.value.index, error.value.attempt) == (3, 1, 2)


def test_another_attempts_object_is_not_taken_for_the_committed_one(objects, sections) -> None:
    committed = commit_of(write(objects, KEY, sections))
    objects.delete([KEY])
    other = write(objects, KEY, sections[:3])
    assert other.size != committed.size
    with pytest.raises(ExchangeCorrupt):
        read_index(objects, committed, PRODUCER)


def test_a_missing_object_is_lost(objects, sections, tmp_path: Path) -> None:
    written = write(objects, KEY, sections)
    objects.delete([KEY])
    with pytest.raises(ExchangeLost):
        read_index(objects, commit_of(written), PRODUCER)
    with pytest.raises(ExchangeLost):
        fetch_section(objects, KEY, written.index.entries[0], tmp_path / "t", PRODUCER)


def test_one_torn_read_is_read_again(objects, sections, tmp_path: Path) -> None:
    written = write(objects, KEY, sections)
    fetch, tears = objects.fetch, [True]

    def torn(key: str, target: Path, *, offset: int = 0, length: int | None = None) -> None:
        fetch(key, target, offset=offset, length=length)
        if tears:
            tears.pop()
            target.write_bytes(target.read_bytes()[:-1])

    objects.fetch = torn
    fetch_section(objects, KEY, written.index.entries[0], tmp_path / "t", PRODUCER)
    assert (tmp_path / "t").read_bytes() == b"zero, first"


def test_a_changed_section_is_corrupt(objects, sections, tmp_path: Path) -> None:
    written = write(objects, KEY, sections)
    entry = written.index.entries[0]
    data = bytearray(objects.get(KEY))
    data[entry.offset] ^= 1
    objects.delete([KEY])
    objects.put(KEY, bytes(data))
    with pytest.raises(ExchangeCorrupt, match="bytes"):
        fetch_section(objects, KEY, entry, tmp_path / "t", PRODUCER)
