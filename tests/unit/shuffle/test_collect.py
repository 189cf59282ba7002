"""The consumer gets each section exactly once, whatever happens to messages and producers."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import msgspec
import pytest

from coordinator_state.records import TaskStatus
from crossdock.errors import ExchangeCorrupt, ExchangeLost
from crossdock.shuffle import Event, Step
from crossdock.shuffle.envelope import Data, ProducerEnd, decode_envelope, encode_envelope
from tests.unit.shuffle.table import World, contents

#: What consumer task 0 must get when every producer's first attempt counts.
ALL = {0: ["0.0.1.0", "0.1.1.0"], 1: ["1.0.1.0"]}
BOUND = ((0, 0, 1), (0, 1, 1), (1, 0, 1))
#: Longer than a test may take: only messages can help.
NEVER = 60.0


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def produce_all(world: World) -> None:
    for stage, index in ((0, 0), (0, 1), (1, 0)):
        world.produce(stage, index)


def envelopes(world: World, index: int = 0) -> list[bytes]:
    """Take all messages out of a consumer's queue."""
    bodies = []
    while messages := world.queues.receive(world.queue(index)):
        bodies += [message.body for message in messages]
        world.queues.delete(world.queue(index), [message.receipt for message in messages])
    return bodies


def test_everything_arrives_by_messages_alone(world: World) -> None:
    produce_all(world)
    collected = world.consumer(patience=NEVER).collect()
    assert contents(collected) == ALL
    assert collected.bound == BOUND
    assert (collected.rows_in, collected.bytes_in) == (3, 21)
    assert collected.counts.healed == 0
    assert envelopes(world) == []


def test_each_consumer_gets_its_own_partition_and_the_whole_broadcast(world: World) -> None:
    produce_all(world)
    collected = world.consumer(1, patience=NEVER).collect()
    assert contents(collected) == {0: ["0.0.1.1", "0.1.1.1"], 1: ["1.0.1.0"]}


def test_completion_is_counted_without_a_trailing_empty_poll(world: World) -> None:
    produce_all(world)
    polls = []
    receive = world.queues.receive

    def counted(name: str, **options):
        found = receive(name, **options)
        polls.append(len(found))
        return found

    world.queues.receive = counted  # type: ignore[method-assign]
    world.consumer(patience=NEVER).collect()
    assert polls == [3]


def test_empty_partitions_end_without_a_section(world: World) -> None:
    world.produce(0, 0, empty=True)
    world.produce(0, 1)
    world.produce(1, 0, empty=True)
    collected = world.consumer(patience=NEVER).collect()
    assert contents(collected) == {0: ["0.1.1.0"], 1: []}
    assert collected.bound == BOUND


def test_sections_are_fetched_before_the_last_producer_commits(world: World) -> None:
    world.produce(0, 0)
    world.produce(1, 0)
    world.write(0, 1)
    events: list[Event] = []
    two_fetched = threading.Semaphore(0)

    def observe(event: Event) -> None:
        events.append(event)
        if event.step is Step.FETCHED:
            two_fetched.release()

    def last_producer() -> None:
        two_fetched.acquire()
        two_fetched.acquire()
        world.commit(0, 1)
        world.publish(0, 1)

    thread = threading.Thread(target=last_producer)
    thread.start()
    collected = world.consumer(patience=NEVER, observer=observe).collect()
    thread.join()
    assert contents(collected) == ALL
    steps = [(e.step, e.producer.index if e.producer else -1) for e in events if e.edge != 1]
    assert steps.index((Step.FETCHED, 0)) < steps.index((Step.BOUND, 1))


@pytest.mark.parametrize("seed", range(5))
def test_duplicated_and_reordered_messages_change_nothing(world: World, seed: int) -> None:
    produce_all(world)
    bodies = envelopes(world) * 3
    random.Random(seed).shuffle(bodies)
    world.queues.send(world.queue(0), bodies)
    collected = world.consumer(patience=NEVER).collect()
    assert contents(collected) == ALL
    assert (collected.rows_in, collected.bytes_in) == (3, 21)


def test_the_end_may_arrive_before_its_data(world: World) -> None:
    produce_all(world)
    halves: list[bytes] = []
    for body in envelopes(world):
        envelope = decode_envelope(body)
        assert envelope is not None
        data = tuple(e for e in envelope.entries if isinstance(e, Data))
        end = tuple(e for e in envelope.entries if isinstance(e, ProducerEnd))
        halves = [
            encode_envelope(msgspec.structs.replace(envelope, entries=end)),
            *halves,
            encode_envelope(msgspec.structs.replace(envelope, entries=data)),
        ]
    world.queues.send(world.queue(0), halves)
    assert contents(world.consumer(patience=NEVER).collect()) == ALL


def test_a_lost_message_is_healed_from_the_commit_record(world: World) -> None:
    produce_all(world)
    bodies = envelopes(world)
    world.queues.send(world.queue(0), bodies[:1])
    collected = world.consumer().collect()
    assert contents(collected) == ALL
    assert collected.counts.healed == 2


def test_polls_that_bring_only_known_messages_do_not_put_healing_off(world: World) -> None:
    """Patience counts from the last *new* section, not from the last message."""
    produce_all(world)
    (known, *_) = envelopes(world)
    stop = threading.Event()

    def repeat() -> None:
        while not stop.wait(0.005):
            world.queues.send(world.queue(0), [known])

    thread = threading.Thread(target=repeat)
    thread.start()
    started = time.monotonic()
    collected = world.consumer().collect()
    stop.set()
    thread.join()
    assert contents(collected) == ALL
    assert time.monotonic() - started < 5
    assert collected.counts.duplicates > 0


def test_a_producer_that_died_between_commit_and_publish_is_healed(world: World) -> None:
    world.produce(0, 0)
    world.produce(1, 0)
    world.write(0, 1)
    world.commit(0, 1)
    assert contents(world.consumer().collect()) == ALL


def test_a_consumer_retried_after_its_messages_were_deleted_does_not_wait(world: World) -> None:
    produce_all(world)
    envelopes(world)
    collected = world.consumer(attempt=2, patience=NEVER).collect()
    assert contents(collected) == ALL


def test_strangers_are_deleted_and_counted(world: World) -> None:
    produce_all(world)
    bodies = envelopes(world)
    envelope = decode_envelope(bodies[0])
    assert envelope is not None
    change = msgspec.structs.replace
    strangers = [
        b"not json",
        b'{"some": "json"}',
        encode_envelope(change(envelope, protocol=99)),
        encode_envelope(change(envelope, query="another")),
        encode_envelope(change(envelope, edge=7)),
        encode_envelope(change(envelope, partition=1)),
        encode_envelope(change(envelope, index=44)),
    ]
    world.queues.send(world.queue(0), [*strangers, *bodies])
    collected = world.consumer(patience=NEVER).collect()
    assert contents(collected) == ALL
    assert collected.counts.strangers == len(strangers)
    assert envelopes(world) == []


def test_messages_of_a_stale_attempt_are_dropped(world: World) -> None:
    """Attempt 1 wrote and published although attempt 2 is the committed one."""
    world.write(0, 0, attempt=1)
    world.publish(0, 0, attempt=1)
    world.produce(0, 0, attempt=2)
    world.produce(0, 1)
    world.produce(1, 0)
    collected = world.consumer(patience=NEVER).collect()
    assert contents(collected)[0] == ["0.0.2.0", "0.1.1.0"]
    assert collected.bound[0] == (0, 0, 2)
    assert collected.counts.stale == 1


def test_an_announcement_without_a_commit_is_not_used(world: World) -> None:
    """A zombie's envelope, while the table says the task is running again."""
    world.produce(0, 1)
    world.produce(1, 0)
    world.write(0, 0, attempt=1)
    world.set(0, 0, 2, TaskStatus.RUNNING)
    world.publish(0, 0, attempt=1)

    def later() -> None:
        time.sleep(0.1)
        world.produce(0, 0, attempt=2)

    thread = threading.Thread(target=later)
    thread.start()
    collected = world.consumer().collect()
    thread.join()
    assert contents(collected)[0] == ["0.0.2.0", "0.1.1.0"]


def test_a_moved_binding_starts_again_from_nothing(world: World) -> None:
    """Producer 0/0 is rerun after its first attempt was read; then nothing of attempt 1 remains."""
    world.produce(0, 0)
    fetched = threading.Event()

    def observe(event: Event) -> None:
        if event.step is Step.FETCHED:
            fetched.set()

    def rerun() -> None:
        assert fetched.wait(5)
        world.produce(0, 0, attempt=2)
        world.produce(0, 1)
        world.produce(1, 0)

    thread = threading.Thread(target=rerun)
    thread.start()
    collected = world.consumer(observer=observe).collect()
    thread.join()
    assert contents(collected) == {0: ["0.0.2.0", "0.1.1.0"], 1: ["1.0.1.0"]}
    assert collected.bound == ((0, 0, 2), (0, 1, 1), (1, 0, 1))
    assert (collected.rows_in, collected.bytes_in) == (3, 21)
    assert collected.counts.restarts == 1
    assert sorted(collected.folder.iterdir()) == sorted(
        path for files in collected.files.values() for path in files
    )


def test_a_lost_object_names_the_producer_attempt(world: World) -> None:
    produce_all(world)
    world.objects.delete([world.written[(0, 1, 1)].key])
    with pytest.raises(ExchangeLost) as lost:
        world.consumer(patience=NEVER).collect()
    assert (lost.value.stage, lost.value.index, lost.value.attempt) == (0, 1, 1)
    assert not (world.folder / "in-0").exists()


def test_a_lost_object_of_an_attempt_that_was_rerun_is_nobodys_loss(world: World) -> None:
    produce_all(world)
    bodies = envelopes(world)
    collector = world.consumer(attempt=2)
    world.objects.delete([world.written[(0, 1, 1)].key])
    world.write(0, 1, attempt=2)
    read, rerun = world.objects.get, []

    def get(key: str, **options):
        if key == world.written[(0, 1, 1)].key and not rerun:
            rerun.append(key)
            world.commit(0, 1, attempt=2)
        return read(key, **options)

    world.objects.get = get  # type: ignore[method-assign]
    world.queues.send(world.queue(0), bodies)
    collected = collector.collect()
    assert contents(collected)[0] == ["0.0.1.0", "0.1.2.0"]
    assert collected.counts.restarts == 1


def test_a_corrupt_section_is_read_twice_then_named(world: World) -> None:
    produce_all(world)
    written = world.written[(0, 0, 1)]
    data = bytearray(world.objects.get(written.key))
    data[written.index.entries[0].offset] ^= 1
    world.objects.delete([written.key])
    world.objects.put(written.key, bytes(data))
    with pytest.raises(ExchangeCorrupt) as corrupt:
        world.consumer(patience=NEVER).collect()
    assert (corrupt.value.stage, corrupt.value.index, corrupt.value.attempt) == (0, 0, 1)


def test_batch_reads_commit_records_and_trailers_only(world: World) -> None:
    produce_all(world)
    collected = world.consumer(exchange="batch").collect()
    assert contents(collected) == ALL
    assert len(envelopes(world)) == 3


def test_batch_is_right_although_a_producer_is_still_running(world: World) -> None:
    world.produce(0, 0)
    world.produce(1, 0)

    def later() -> None:
        time.sleep(0.1)
        world.produce(0, 1)

    thread = threading.Thread(target=later)
    thread.start()
    assert contents(world.consumer(queues=None).collect()) == ALL
    thread.join()


def test_a_queue_that_is_gone_is_replaced_by_the_table(world: World) -> None:
    produce_all(world)
    world.queues.drop(world.queue(0))
    assert contents(world.consumer().collect()) == ALL


class Stop(Exception):
    pass


def test_what_on_wait_raises_ends_the_collection_and_leaves_nothing(world: World) -> None:
    world.produce(0, 0)
    waits = []

    def on_wait() -> None:
        waits.append(1)
        if len(waits) > 3:
            raise Stop

    with pytest.raises(Stop):
        world.consumer(on_wait=on_wait).collect()
    assert not (world.folder / "in-0").exists()


def test_slow_producers_do_not_make_the_table_hot(world: World) -> None:
    """Nothing new: the pause between two looks doubles."""
    world.produce(0, 0)

    def later() -> None:
        time.sleep(0.6)
        world.produce(0, 1)
        world.produce(1, 0)

    thread = threading.Thread(target=later)
    thread.start()
    world.consumer(patience=0.02).collect()
    thread.join()
    assert world.table.reads < 20


def test_discard_deletes_the_files(world: World) -> None:
    produce_all(world)
    collected = world.consumer(patience=NEVER).collect()
    collected.discard()
    assert not collected.folder.exists()
