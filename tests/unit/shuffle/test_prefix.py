"""Inputs of which the first producers that have enough rows together are all that is wanted."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from coordinator_state.ids import QueryId, StageId
from coordinator_state.records import Commit, TaskRecord, TaskStatus
from crossdock.planner.plan import Edge, ShuffleMode, StagePlan
from crossdock.shuffle.envelope import Data, Envelope, ProducerEnd
from crossdock.shuffle.exchange_object import IndexEntry
from crossdock.shuffle.inbox import BindingMoved, Inbox
from crossdock.shuffle.spec import AttemptId
from tests.unit.shuffle.table import PLAN, edge

PRODUCERS = 4


def inbox(enough: int) -> Inbox:
    edges = [edge(0, 0, 1, ShuffleMode.GATHER, 1)]
    return Inbox("q", 0, edges, {0: PRODUCERS}, {0: enough})


def key(index: int, attempt: int = 1) -> str:
    return f"exchange/00/q/0/{index}-{attempt}"


def bind(box: Inbox, *indexes: int, attempt: int = 1) -> None:
    box.bind(
        TaskRecord(
            query_id=QueryId("q"),
            stage=StageId(0),
            index=index,
            attempt=attempt,
            status=TaskStatus.COMMITTED,
            commit=Commit(object_key=key(index, attempt)),
        )
        for index in indexes
    )


def deliver(box: Inbox, index: int, *rows: int) -> int:
    """The envelope of a producer with sections of so many rows; how many are to be fetched."""
    data = [
        Data(sequence=n, offset=0, length=1, rows=each, checksum="") for n, each in enumerate(rows)
    ]
    envelope = Envelope(
        query="q",
        edge=0,
        generation=0,
        partition=0,
        stage=0,
        index=index,
        attempt=1,
        object_key=key(index),
        entries=(*data, ProducerEnd(count=len(data))),
    )
    return len(box.accept(envelope))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_same_producers_are_used_in_whatever_order_they_come(order: tuple[int, ...]) -> None:
    box = inbox(10)
    bind(box, *order)
    for index in order:
        deliver(box, index, 3, 3)
    assert box.complete
    assert box.bound == ((0, 0, 1), (0, 1, 1))
    assert box.unfinished_stages() == []


def test_enough_rows_of_later_producers_do_not_stand_for_those_of_the_first() -> None:
    box = inbox(10)
    bind(box, 1, 2, 3)
    for index in (1, 2, 3):
        deliver(box, index, 50)
    assert not box.complete
    assert box.unfinished_stages() == [0]
    bind(box, 0)
    deliver(box, 0)
    assert box.complete
    assert box.bound == ((0, 0, 1), (0, 1, 1))


def test_rows_count_only_when_the_producer_has_been_heard_to_its_end() -> None:
    box = inbox(10)
    bind(box, 0)
    entry = Data(sequence=0, offset=0, length=1, rows=50, checksum="")
    half = Envelope(
        query="q",
        edge=0,
        generation=0,
        partition=0,
        stage=0,
        index=0,
        attempt=1,
        object_key=key(0),
        entries=(entry,),
    )
    box.accept(half)
    assert not box.complete


def test_repeated_entries_do_not_count_their_rows_twice() -> None:
    box = inbox(10)
    bind(box, 0)
    assert [deliver(box, 0, 6), deliver(box, 0, 6)] == [1, 0]
    section = IndexEntry(edge=0, partition=0, offset=0, length=1, rows=6, checksum="")
    assert box.heal(AttemptId(0, 0, 1), {(0, 0): [section]}) == []
    assert not box.complete


def test_too_few_rows_mean_all_producers() -> None:
    box = inbox(100)
    bind(box, *range(PRODUCERS))
    for index in range(PRODUCERS):
        assert not box.complete
        deliver(box, index, 5)
    assert box.complete
    assert len(box.bound) == PRODUCERS


def test_a_used_producer_that_moves_voids_what_was_read() -> None:
    box = inbox(10)
    bind(box, 0)
    deliver(box, 0, 50)
    assert box.complete
    with pytest.raises(BindingMoved):
        bind(box, 0, attempt=2)


@pytest.mark.parametrize(
    ("edges", "limit"),
    [
        ([edge(0, 0, 2, ShuffleMode.GATHER, 1)], 7),
        ([edge(0, 0, 2, ShuffleMode.HASH, 2)], 0),  # a part of them is not the first of them
        ([edge(0, 0, 2, ShuffleMode.BROADCAST, 1)], 0),  # two tasks would know other rows
        ([edge(0, 0, 1, ShuffleMode.GATHER, 1), edge(1, 0, 2, ShuffleMode.GATHER, 1)], 0),
    ],
)
def test_only_a_stage_gathered_by_one_task_has_a_prefix(edges: list[Edge], limit: int) -> None:
    first = msgspec.structs.replace(PLAN.stages[0], prefix_limit=7)
    plan = StagePlan(
        engine="", sql="", columns=(), stages=(first, *PLAN.stages[1:]), edges=tuple(edges)
    )
    assert plan.prefix_limit(0) == limit
