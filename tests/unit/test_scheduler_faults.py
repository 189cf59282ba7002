"""Leases, dead workers, forgotten offers, lost exchange objects."""

from __future__ import annotations

import pytest

from coordinator_state.records import Commit, ErrorRecord, StageStatus, TaskRecord, WorkerStatus
from crossdock.scheduler import unread
from crossdock.scheduler.instructions import (
    LoseWorker,
    ObserveBeat,
    OfferAgain,
    RequeueTask,
    RerunProducer,
    ResetStages,
)
from tests.unit.scheduler_builders import (
    LEASE,
    LOST,
    NOW,
    SKEW,
    decided,
    snapshot,
    stage,
    task,
    worker,
    workers,
)


def running(**fields: object) -> TaskRecord:
    return task(0, 0, "R", **fields)


@pytest.mark.parametrize(
    ("beat", "seen", "seen_ago", "expected"),
    [
        (5, 5, LEASE - 1, None),  # silent, but not for long
        (5, 5, LEASE + SKEW - 0.1, None),  # another coordinator's clock may be off by the skew
        (5, 5, LEASE + SKEW + 0.1, RequeueTask),
        (6, 5, LEASE + SKEW + 0.1, ObserveBeat),  # it beat since: alive, whatever the clocks say
        (1, 1, 10 * LEASE, RequeueTask),
    ],
)
def test_lease_ends_only_after_an_unchanged_beat_was_watched_for_lease_and_skew(
    beat: int, seen: int, seen_ago: float, expected: type | None
) -> None:
    one = running(beat=beat, beat_seen=seen, beat_seen_at=NOW - seen_ago, claimed_at=NOW - 500)
    state = snapshot([stage(0, 1)], {0: [one]}, on=workers(1))
    found = decided(state, RequeueTask, ObserveBeat)
    assert [type(i) for i in found] == ([expected] if expected else [])


@pytest.mark.parametrize("claimed_at", [NOW - 1e6, NOW + 1e6])
def test_worker_clock_that_is_wrong_does_not_end_a_lease(claimed_at: float) -> None:
    one = running(beat=3, beat_seen=-1, claimed_at=claimed_at)
    state = snapshot([stage(0, 1)], {0: [one]}, on=workers(1))
    assert [type(i) for i in decided(state, RequeueTask, ObserveBeat)] == [ObserveBeat]


def test_short_tasks_cost_no_observation() -> None:
    state = snapshot([stage(0, 1)], {0: [running(claimed_at=NOW - 1)]}, on=workers(1))
    assert decided(state, ObserveBeat) == []


def test_silent_worker_is_lost_with_its_task() -> None:
    one = running(beat=5, beat_seen=5, beat_seen_at=NOW - 100)
    state = snapshot([stage(0, 1)], {0: [one]}, on=workers(1))
    (requeue,) = decided(state, RequeueTask)
    assert requeue.beat == 5
    assert [i.worker.worker_id for i in decided(state, LoseWorker)] == ["w0"]


@pytest.mark.parametrize(
    ("status", "gone"),
    [
        (WorkerStatus.ACTIVE, ["w0"]),  # its process was seen dead
        (WorkerStatus.LOST, []),
        (WorkerStatus.LEFT, []),  # said goodbye without ending its task
    ],
)
def test_task_of_a_dead_worker_is_given_away_at_once(status: WorkerStatus, gone: list[str]) -> None:
    state = snapshot([stage(0, 1)], {0: [running()]}, on=[worker("w0", status)], gone=gone)
    assert [i.task.index for i in decided(state, RequeueTask)] == [0]


@pytest.mark.parametrize(
    ("phase", "kind"), [("fragment", "OutOfMemory"), ("wait", "WorkerLost"), ("", "WorkerLost")]
)
def test_attempt_that_vanishes_in_its_fragment_is_suspected_out_of_memory(
    phase: str, kind: str
) -> None:
    one = running(phase=phase, peak_memory=7 * 2**20)
    state = snapshot([stage(0, 1)], {0: [one]}, on=[worker("w0")], gone=["w0"])
    (requeue,) = decided(state, RequeueTask)
    assert requeue.error.kind == kind
    assert requeue.error.retryable


@pytest.mark.parametrize(
    ("status", "deadline", "life", "lost"),
    [
        (WorkerStatus.LAUNCHING, NOW + 1, NOW + 900, False),
        (WorkerStatus.LAUNCHING, NOW - 1, NOW + 900, True),
        (WorkerStatus.ACTIVE, NOW - 1, NOW + 900, False),  # it registered in time
        (WorkerStatus.ACTIVE, NOW - 1, NOW - 1, False),  # within the skew
        (WorkerStatus.ACTIVE, NOW - 1, NOW - SKEW - 1, True),
        (WorkerStatus.DRAINING, NOW - 1, NOW - SKEW - 1, True),
        (WorkerStatus.LOST, NOW - 1, NOW - 900, False),
    ],
)
def test_deadlines_of_workers(
    status: WorkerStatus, deadline: float, life: float, lost: bool
) -> None:
    one = worker("w0", status, launch_deadline=deadline, life_until=life)
    state = snapshot([stage(0, 1)], {0: "."}, on=[one])
    assert bool(decided(state, LoseWorker)) is lost


def test_idle_worker_that_takes_nothing_for_a_lease_is_lost() -> None:
    old = worker("w0", registered_at=NOW - 100)
    waiting = task(0, 0, ".", pending_since=NOW - 100)
    state = snapshot([stage(0, 1)], {0: [waiting]}, on=[old])
    assert [i.worker.worker_id for i in decided(state, LoseWorker)] == ["w0"]


def test_idle_worker_that_committed_a_moment_ago_is_not_lost() -> None:
    old = worker("w0", registered_at=NOW - 100)
    done = task(
        0, 0, "C", worker_id="w0", claimed_at=NOW - 90, commit=Commit(object_key="o", seconds=89)
    )
    waiting = task(0, 1, ".", pending_since=NOW - 100)
    state = snapshot([stage(0, 2)], {0: [done, waiting]}, on=[old])
    assert decided(state, LoseWorker) == []


@pytest.mark.parametrize(
    ("fields", "offered"),
    [
        ({"pending_since": NOW - 1}, False),  # a claim may be on its way
        ({"pending_since": NOW - 60}, True),
        ({"pending_since": NOW - 1, "handbacks": 1}, True),  # nobody else will offer it
    ],
)
def test_pending_task_behind_the_cursor_is_offered_again(fields: dict, offered: bool) -> None:
    state = snapshot([stage(0, 1, cursor=1)], {0: [task(0, 0, ".", **fields)]}, on=workers(1))
    assert [i.indexes for i in decided(state, OfferAgain)] == ([(0,)] if offered else [])


@pytest.mark.parametrize("fields", [{"cursor": 0}, {"cursor": 1, "offers": (0,)}])
def test_task_that_is_on_offer_is_not_offered_again(fields: dict) -> None:
    one = task(0, 0, ".", pending_since=NOW - 60)
    state = snapshot([stage(0, 1, **fields)], {0: [one]}, on=workers(1))
    assert decided(state, OfferAgain) == []


@pytest.mark.parametrize(("producer", "offered"), [(".", False), ("R", True), ("C", True)])
def test_handed_back_consumer_is_not_offered_while_its_input_is_unserved(
    producer: str, offered: bool
) -> None:
    stages = [stage(0, 1), stage(1, 1, 0), stage(2, 1, 1, depth=2)]
    back = task(2, 0, ".", handbacks=1)
    state = snapshot(stages, {0: producer, 1: "R", 2: [back]}, on=workers(1))
    assert bool([i for i in decided(state, OfferAgain) if i.stage == 2]) is offered


# -- lost exchange objects -------------------------------------------------------------------------
PRODUCER = stage(0, 2, status=StageStatus.COMPLETE, generation=3)


def test_reported_producer_is_read_with_all_its_readers() -> None:
    stages = [PRODUCER, stage(1, 1, 0), stage(2, 1, 0, status=StageStatus.COMPLETE)]
    state = snapshot(stages, {1: [task(1, 0, ".", error=LOST)]})
    assert unread(state, NOW) == {0, 2}


def test_lost_object_nobody_committed_from_costs_one_new_attempt_and_fences_its_readers() -> None:
    readers = [task(1, 0, ".", error=LOST), task(1, 1, "R")]
    state = snapshot([PRODUCER, stage(1, 2, 0)], {0: "CC", 1: readers}, on=workers(2))
    (rerun,) = decided(state, RerunProducer)
    assert (rerun.task.index, rerun.reset) == (0, ())
    assert [t.index for t in rerun.fence] == [1]


def test_lost_object_a_committed_reader_used_resets_readers_and_all_their_descendants() -> None:
    readers = [task(1, 0, "C", bound=((0, 0, 1), (0, 1, 1))), task(1, 1, ".", error=LOST)]
    stages = [PRODUCER, stage(1, 2, 0), stage(2, 1, 1, depth=2), stage(3, 1, depth=0)]
    state = snapshot(stages, {0: "CC", 1: readers, 2: ".", 3: "."}, on=workers(2))
    (rerun,) = decided(state, RerunProducer)
    assert (rerun.generation, rerun.reset) == (3, (1, 2))


def test_report_about_an_attempt_that_moved_on_is_ignored() -> None:
    newer = [task(0, 0, "C", attempt=2), task(0, 1, "C")]
    readers = [task(1, 0, ".", error=LOST)]
    state = snapshot([PRODUCER, stage(1, 1, 0)], {0: newer, 1: readers})
    assert decided(state, RerunProducer) == []


@pytest.mark.parametrize("subject", ["", "0", "0/0", "0/0/x", "7/0/1"])
def test_report_that_names_no_producer_is_ignored(subject: str) -> None:
    error = ErrorRecord(kind="ExchangeLost", message="gone", subject=subject)
    state = snapshot([PRODUCER, stage(1, 1, 0)], {0: "CC", 1: [task(1, 0, ".", error=error)]})
    assert decided(state, RerunProducer) == []


def test_stage_whose_tasks_used_two_attempts_of_a_producer_is_reset_not_completed() -> None:
    # Task 0 committed between the look that found nobody bound and the rerun of the producer.
    readers = [task(1, 0, "C", bound=((0, 0, 1),)), task(1, 1, "C", bound=((0, 0, 2),))]
    producer = stage(0, 1, status=StageStatus.COMPLETE)
    state = snapshot([producer, stage(1, 2, 0)], {0: [task(0, 0, "C", attempt=2)], 1: readers})
    (reset,) = decided(state, ResetStages)
    assert (reset.producer, reset.reset) == (0, (1,))


def test_a_worker_between_two_tasks_is_not_idle_after_it_gave_one_back() -> None:
    """Who gave a task back is not recorded, so nobody is blamed for a lease."""
    waiting = task(0, 1, ".", pending_since=NOW - 100)
    idler = worker("w0", registered_at=NOW - 50, launched_at=NOW - 60)
    returned = task(0, 0, ".", attempt=1, pending_since=NOW - 1, lost_attempts=(1,))
    assert decided(snapshot([stage(0, 2)], {0: [returned, waiting]}, on=[idler]), LoseWorker) == []
    long_ago = task(0, 0, ".", attempt=1, pending_since=NOW - 90, lost_attempts=(1,))
    assert decided(snapshot([stage(0, 2)], {0: [long_ago, waiting]}, on=[idler]), LoseWorker) != []
