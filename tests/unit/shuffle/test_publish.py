"""Who is told what, and how large a message may get."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossdock.platform.bodies import MAX_BYTES
from crossdock.shuffle import layout
from crossdock.shuffle.envelope import (
    MAX_ENTRIES,
    Data,
    Envelope,
    ProducerEnd,
    decode_envelope,
    encode_envelope,
    entries_of,
    split,
)
from crossdock.shuffle.exchange_object import IndexEntry
from tests.unit.shuffle.table import QUERY, World

BIG = 2**62


def envelope(sections: int) -> Envelope:
    """The largest values an envelope may hold."""
    entry = IndexEntry(
        edge=10**4, partition=10**4, offset=BIG, length=BIG, rows=BIG, checksum="f" * 16
    )
    return Envelope(
        query="q" * 20,
        edge=10**4,
        generation=10**4,
        partition=10**4,
        stage=10**4,
        index=10**5,
        attempt=10**4,
        object_key="exchange/" + "k" * 200,
        entries=entries_of([entry] * sections),
    )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def received(world: World, index: int) -> list[Envelope]:
    messages = world.queues.receive(world.queue(index))
    found = [decode_envelope(message.body) for message in messages]
    assert None not in found
    return [each for each in found if each is not None]


def test_one_envelope_per_edge_and_consumer_task(world: World) -> None:
    world.write(0, 0)
    assert world.publish(0, 0) == 2
    for index in (0, 1):
        (told,) = received(world, index)
        assert (told.edge, told.partition, told.query) == (0, index, QUERY)
        assert [type(entry) for entry in told.entries] == [Data, ProducerEnd]


def test_a_broadcast_section_is_announced_to_every_task(world: World) -> None:
    world.write(1, 0)
    assert world.publish(1, 0) == 2
    assert {received(world, i)[0].partition for i in (0, 1)} == {0}


def test_an_empty_partition_is_announced_by_its_end(world: World) -> None:
    world.write(0, 0, empty=True)
    world.publish(0, 0)
    (told,) = received(world, 0)
    assert told.entries == (ProducerEnd(count=0),)


def test_a_missing_queue_is_no_error(world: World) -> None:
    world.queues.drop(world.queue(1))
    world.write(0, 0)
    assert world.publish(0, 0) == 1


def test_the_largest_envelope_fits_a_message() -> None:
    (largest,) = split(envelope(MAX_ENTRIES - 1))
    assert len(encode_envelope(largest)) < MAX_BYTES


def test_more_entries_than_fit_are_spread_and_counted_once() -> None:
    parts = list(split(envelope(MAX_ENTRIES * 2)))
    assert len(parts) == 3
    entries = [entry for part in parts for entry in part.entries]
    assert [e.count for e in entries if isinstance(e, ProducerEnd)] == [MAX_ENTRIES * 2]
    sequences = [e.sequence for e in entries if isinstance(e, Data)]
    assert sequences == list(range(MAX_ENTRIES * 2))
    assert all(len(encode_envelope(part)) < MAX_BYTES for part in parts)


def test_envelopes_survive_encoding() -> None:
    before = envelope(2)
    assert decode_envelope(encode_envelope(before)) == before


def test_longest_queue_name_is_within_the_limit() -> None:
    name = layout.queue_name("v" * 32, 9999, 9999, 99999)
    assert len(name) <= layout.MAX_QUEUE_NAME
    assert name.startswith(layout.queue_prefix("v" * 32))
    assert layout.query_of_queue(name) == "v" * 32


@pytest.mark.parametrize("query", ["q" * 80, "a b", "q/1", "ü"])
def test_a_queue_name_the_service_would_refuse_is_refused_here(query: str) -> None:
    with pytest.raises(ValueError, match="queue name"):
        layout.queue_name(query, 0, 0, 0)


def test_keys_tell_their_query_and_are_listable_by_it() -> None:
    for key, prefix in (
        (layout.exchange_key("q1", 2, 3, 4), layout.exchange_prefix("q1")),
        (layout.result_key("q1", 2, 3, 4), layout.result_prefix("q1")),
        (layout.manifest_key("q1"), layout.result_prefix("q1")),
        (layout.plan_key("q1"), "plan/"),
        (layout.receipt_key("q1"), "receipt/"),
    ):
        assert key.startswith(prefix)
        assert layout.query_of_key(key) == "q1"
    assert layout.query_of_key("stranger") == ""
    assert layout.query_of_queue("another-service") == ""


def test_one_query_is_never_a_prefix_of_another() -> None:
    assert not layout.exchange_key("q11", 0, 0, 1).startswith(layout.exchange_prefix("q1"))
    assert not layout.queue_name("q11", 0, 0, 0).startswith(layout.queue_prefix("q1"))


def test_queries_are_spread_over_prefixes() -> None:
    heads = {layout.exchange_prefix(f"query{i}").split("/")[1] for i in range(1000)}
    assert len(heads) > 200
