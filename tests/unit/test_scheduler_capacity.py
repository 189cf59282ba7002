"""How many workers a stage gets: launches, drains, early starts."""

from __future__ import annotations

import pytest

from coordinator_state.records import StageStatus, WorkerStatus
from crossdock.scheduler import Limits
from crossdock.scheduler.instructions import DrainWorker, LaunchWorkers, SetCapacity
from tests.unit.scheduler_builders import (
    NOW,
    decided,
    ended,
    query,
    snapshot,
    stage,
    worker,
    workers,
)


@pytest.mark.parametrize(
    ("states", "active", "launching", "launched"),
    [
        ("....", 0, 0, 4),  # nothing runs yet
        ("......", 0, 0, 4),  # never beyond the budget
        ("..", 0, 0, 2),  # never beyond pending work
        ("....", 1, 2, 1),  # what accepts and what is on its way counts
        ("....", 0, 4, 0),
        ("RR..", 2, 0, 2),
        ("RR..", 2, 2, 0),
        ("CCR.", 1, 0, 1),
        ("CCR.", 2, 0, 0),  # the idle one takes it
        ("CCRR", 2, 0, 0),  # nothing pending
        ("CCCR", 0, 0, 0),  # a drained worker runs the last task
    ],
)
def test_launches_what_is_missing_and_no_more_than_pending_work(
    states: str, active: int, launching: int, launched: int
) -> None:
    state = snapshot([stage(0, len(states))], {0: states}, on=workers(active, launching))
    assert sum(i.count for i in decided(state, LaunchWorkers)) == launched


@pytest.mark.parametrize(
    ("states", "active", "launching", "drained"),
    [
        ("CR", 3, 0, ["w2", "w1"]),  # the newest go first
        ("CR", 1, 2, ["x1", "x0"]),  # also those that did not register yet
        ("RR", 2, 0, []),
        ("..", 2, 0, []),
    ],
)
def test_drains_the_newest_beyond_what_is_wanted(
    states: str, active: int, launching: int, drained: list[str]
) -> None:
    state = snapshot([stage(0, len(states))], {0: states}, on=workers(active, launching))
    assert [i.worker.worker_id for i in decided(state, DrainWorker)] == drained


def test_does_not_drain_what_the_next_stage_will_want() -> None:
    stages = [stage(0, 4), stage(1, 3, 0, status=StageStatus.WAITING)]
    state = snapshot(stages, {0: "CCCR"}, on=workers(4), of=query(exchange="batch"))
    assert len(decided(state, DrainWorker)) == 1


def test_draining_worker_is_not_counted_and_not_revived() -> None:
    drained = worker("w9", WorkerStatus.DRAINING)
    state = snapshot([stage(0, 2)], {0: ".."}, on=[drained])
    assert sum(i.count for i in decided(state, LaunchWorkers)) == 2
    assert decided(state, DrainWorker) == []


def test_worker_registering_after_scale_to_zero_gets_drained() -> None:
    late = workers(active=1)
    assert len(decided(snapshot([stage(0, 1)], {0: "C"}, of=ended(), on=late), DrainWorker)) == 1


@pytest.mark.parametrize(
    ("producers", "admitted"),
    [
        ("....", 0),  # every slot is for a producer
        ("CRRR", 1),  # one slot is left
        ("CCRR", 2),
        ("CCR.", 2),  # a pending producer counts like a running one
        ("CCCR", 3),
    ],
)
def test_early_start_uses_only_slots_beyond_unfinished_producers(
    producers: str, admitted: int
) -> None:
    stages = [stage(0, 4), stage(1, 4, 0, admitted=0, cursor=0)]
    state = snapshot(stages, {0: producers, 1: "...."}, on=workers(4))
    given = [i.admitted for i in decided(state, SetCapacity) if i.stage == 1]
    assert (given or [0]) == [admitted]


def test_early_start_counts_upstream_tasks_at_any_distance() -> None:
    stages = [
        stage(0, 1),
        stage(1, 2, 0, admitted=0, cursor=0),
        stage(2, 4, 1, admitted=0, cursor=0, depth=2),
    ]
    state = snapshot(stages, {0: "R", 1: "..", 2: "...."}, on=workers(1))
    given = {i.stage: i.admitted for i in decided(state, SetCapacity)}
    assert (given[1], given[2]) == (2, 1)


def test_ready_stage_goes_before_an_early_start_of_lower_depth() -> None:
    stages = [
        stage(0, 2),
        stage(1, 2, 0, admitted=0, cursor=0),
        stage(2, 1, status=StageStatus.COMPLETE),
        stage(3, 2, 2, admitted=0, cursor=0, depth=2),
        stage(4, 1, 1, 3, admitted=0, cursor=0, depth=3),
    ]
    state = snapshot(stages, {0: "RR", 1: "..", 3: "..", 4: "."}, on=workers(2))
    given = {i.stage: (i.admitted, i.desired) for i in decided(state, SetCapacity)}
    assert given[3] == (2, 2)
    assert 1 not in given


def test_budget_of_one_never_starts_a_consumer_early() -> None:
    stages = [stage(0, 1), stage(1, 1, 0, admitted=0, cursor=0)]
    state = snapshot(stages, {0: "R", 1: "."}, on=workers(1), limits=Limits(budget=1))
    assert [i for i in decided(state, SetCapacity) if i.stage == 1] == []


def test_admitted_is_never_taken_back() -> None:
    # A producer ran again after consumers had started early.
    stages = [stage(0, 4), stage(1, 4, 0, admitted=3, cursor=3)]
    state = snapshot(stages, {0: "....", 1: "RRR."}, on=workers(3))
    assert all(i.admitted >= 3 for i in decided(state, SetCapacity) if i.stage == 1)


def test_refused_launch_is_asked_again_later_and_later() -> None:
    def refused(count: int) -> list:
        return [
            worker(f"r{i}", WorkerStatus.LEFT, launched_at=NOW - 1 + i / 100) for i in range(count)
        ]

    def launches(count: int, after: float) -> int:
        state = snapshot([stage(0, 1)], {0: "."}, on=refused(count))
        last = NOW - 1 + (count - 1) / 100
        return len(decided(state, LaunchWorkers, now=last + after))

    assert (launches(1, 0.01), launches(1, 0.03)) == (0, 1)
    assert (launches(5, 0.3), launches(5, 0.4)) == (0, 1)
    assert (launches(20, 4.0), launches(20, 5.1)) == (0, 1)
