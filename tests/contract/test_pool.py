"""The pool of queues: who gets which, and what a name means to processes that did not lease it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coordinator_state.sqlite import SqliteStateStore
from crossdock.platform.aws.pool import PoolQueues
from crossdock.platform.clock import SystemClock
from crossdock.platform.memory import MemoryQueues

SIZE = 4
NAMES = [f"crossdock-q-1-0-{index}" for index in range(6)]


class Account:
    """The queues of an account and the table, as several processes see them."""

    def __init__(self, folder: Path) -> None:
        self.stack, self.made = MemoryQueues(), MemoryQueues()
        self.pool = [f"{number:04d}" for number in range(SIZE)]
        self.stack.create(*self.pool)
        self.store = SqliteStateStore(folder / "state.db")

    def process(self) -> PoolQueues:
        return PoolQueues(self.stack, self.made, self.pool, store=self.store, clock=SystemClock())

    def holders(self) -> set[str]:
        return {lease.holder for lease in self.store.queue_leases()}


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    made = Account(tmp_path)
    yield made
    made.store.close()


def test_the_pool_serves_first_and_queues_are_made_for_the_rest(account: Account) -> None:
    account.process().create(*NAMES)
    assert len(account.holders()) == SIZE
    assert account.holders().union(account.made.names("")) == set(NAMES)
    assert len(account.made.names("")) == len(NAMES) - SIZE


def test_another_process_finds_every_queue_by_its_name(account: Account) -> None:
    account.process().create(*NAMES)
    sender, receiver = account.process(), account.process()
    for name in NAMES:
        sender.send(name, [name.encode()])
    assert [receiver.receive(name)[0].body.decode() for name in NAMES] == NAMES


def test_making_again_what_a_dead_coordinator_made_in_part_leases_nothing_twice(
    account: Account,
) -> None:
    account.process().create(*NAMES[:2])
    account.process().create(*NAMES[:3])
    assert [lease.holder for lease in account.store.queue_leases()].count(NAMES[0]) == 1
    assert account.holders() == set(NAMES[:3])


def test_dropping_gives_leases_back_and_deletes_what_was_made(account: Account) -> None:
    account.process().create(*NAMES)
    account.process().drop(*NAMES)
    assert account.process().names("crossdock-") == []
    assert account.stack.names("") == account.pool
    assert account.store.queue_leases() == []


def test_a_name_in_both_places_is_found_until_both_are_gone(account: Account) -> None:
    account.process().create(NAMES[0])
    account.made.create(NAMES[0])  # by a coordinator that found the pool used up
    for _ in range(2):
        assert account.process().names("crossdock-") == [NAMES[0]]
        account.process().drop(NAMES[0])
    assert account.process().names("crossdock-") == []


def test_messages_of_an_earlier_holder_come_as_strangers_and_in_nobody_s_way(
    account: Account,
) -> None:
    first = account.process()
    first.create(*NAMES[:SIZE])
    for name in NAMES[:SIZE]:
        first.send(name, [b"old"])
    first.drop(*NAMES[:SIZE])
    other = "crossdock-r-1-0-0"
    account.process().create(other)
    account.process().send(other, [b"new"])
    assert {message.body for message in account.process().receive(other)} == {b"old", b"new"}


def test_coordinators_that_lease_at_once_never_share_a_queue(account: Account) -> None:
    def make(query: int) -> None:
        account.process().create(*(f"crossdock-{query}-1-0-{index}" for index in range(2)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, range(4)))
    leases = account.store.queue_leases()
    assert len({lease.queue for lease in leases}) == len({lease.holder for lease in leases}) == SIZE
    assert len(account.made.names("")) == 8 - SIZE


def test_a_stage_s_queues_cost_one_look_at_the_leases(account: Account) -> None:
    account.process().create(*NAMES)
    looks = []
    reader = account.process()
    real = account.store.queue_leases
    account.store.queue_leases = lambda: looks.append(1) or real()  # type: ignore[method-assign]
    for name in NAMES:
        reader.send(name, [b"x"])
        reader.receive(name)
    assert len(looks) == 1
