"""Activation, completion, and the three ways a query ends."""

from __future__ import annotations

import pytest

from coordinator_state.records import ErrorRecord, QueryStatus, StageStatus, WorkerStatus
from crossdock.scheduler import Limits, decide, unread
from crossdock.scheduler.instructions import (
    ActivateStage,
    Close,
    CompleteStage,
    DrainWorker,
    EndQuery,
    FinishQuery,
    LoseWorker,
    PrepareQueues,
    Sweep,
    Tick,
)
from tests.unit.scheduler_builders import (
    NOW,
    SKEW,
    decided,
    ended,
    query,
    snapshot,
    stage,
    task,
    worker,
    workers,
)

WAITING, COMPLETE = StageStatus.WAITING, StageStatus.COMPLETE


# -- activation ------------------------------------------------------------------------------------
def test_queues_come_first_then_consumers_then_producers() -> None:
    stages = [
        stage(0, 1, status=WAITING),
        stage(1, 1, 0, status=WAITING),
        stage(2, 1, 1, status=WAITING, depth=2),
    ]
    found = decided(snapshot(stages), PrepareQueues, ActivateStage)
    assert found == [
        PrepareQueues((1, 2)),
        ActivateStage(2),
        ActivateStage(1),
        ActivateStage(0),
    ]


def test_activation_interrupted_half_way_goes_on() -> None:
    stages = [
        stage(0, 1, status=WAITING),
        stage(1, 1, 0, status=WAITING),
        stage(2, 1, 1, depth=2),
    ]
    found = decided(snapshot(stages, {2: "."}), PrepareQueues, ActivateStage)
    assert found == [PrepareQueues((1,)), ActivateStage(1), ActivateStage(0)]


@pytest.mark.parametrize(
    ("first", "second", "activated"),
    [
        (WAITING, WAITING, [0, 1]),
        (COMPLETE, StageStatus.ACTIVE, []),  # the barrier: all upstream stages, not one
        (COMPLETE, COMPLETE, [2]),
        (COMPLETE, StageStatus.SKIPPED, [2]),
    ],
)
def test_batch_stage_waits_for_every_upstream_stage(
    first: StageStatus, second: StageStatus, activated: list[int]
) -> None:
    stages = [
        stage(0, 1, status=first),
        stage(1, 1, status=second),
        stage(2, 1, 0, 1, status=WAITING),
    ]
    state = snapshot(stages, {1: "R"}, of=query(exchange="batch"), on=[worker("w0")])
    assert [i.stage for i in decided(state, ActivateStage)] == activated
    assert decided(state, PrepareQueues) == []


# -- completion ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("states", "sealed", "complete"),
    [
        ("CC", 2, True),
        ("CR", 2, False),
        ("C.", 2, False),
        ("CC", 3, False),  # a short read is not the sealed list
    ],
)
def test_stage_is_complete_when_every_task_of_the_sealed_list_is_committed(
    states: str, sealed: int, complete: bool
) -> None:
    state = snapshot([stage(0, sealed), stage(1, 1, 0)], {0: states, 1: "R"}, on=workers(2))
    assert decided(state, CompleteStage) == ([CompleteStage(0)] if complete else [])


def test_counter_of_commits_is_only_a_hint() -> None:
    state = snapshot([stage(0, 2, committed=2), stage(1, 1, 0)], {0: "C.", 1: "."})
    assert decided(state, CompleteStage) == []


def test_last_commit_completes_every_stage_and_names_the_result_in_task_order() -> None:
    last = [task(1, i, "C", bound=((0, 0, 1), (0, 1, 1))) for i in range(3)]
    state = snapshot([stage(0, 2), stage(1, 3, 0)], {0: "CC", 1: last})
    assert decided(state, CompleteStage, FinishQuery) == [
        CompleteStage(0),
        CompleteStage(1),
        FinishQuery(("o0", "o1", "o2"), 30),
    ]


def test_result_stage_found_complete_already_is_read_for_its_manifest() -> None:
    # The turn that completed it died before it ended the query.
    state = snapshot([stage(0, 1, status=COMPLETE)])
    assert unread(state, NOW) == {0}
    assert decided(snapshot([stage(0, 1, status=COMPLETE)], {0: "C"}), FinishQuery) == [
        FinishQuery(("o0",), 10)
    ]


# -- ends ------------------------------------------------------------------------------------------
def the_end(state: object) -> ErrorRecord:
    (only,) = decide(state, NOW)  # type: ignore[arg-type]
    assert isinstance(only, EndQuery)
    assert only.status is QueryStatus.FAILED
    return only.error


def test_failed_task_fails_the_query_with_its_error_and_its_place() -> None:
    failed = task(0, 1, "F", error=ErrorRecord(kind="InvalidInput", message="no number: 'x'"))
    error = the_end(snapshot([stage(0, 2)], {0: [task(0, 0, "C"), failed]}))
    assert (error.kind, error.message) == ("InvalidInput", "no number: 'x' (stage 0, task 1)")


@pytest.mark.parametrize("state", [".", "R"])
def test_used_up_attempts_fail_the_query(state: str) -> None:
    tired = task(0, 0, state, failures=4, error=ErrorRecord(kind="OutOfMemory", message="full"))
    error = the_end(snapshot([stage(0, 1)], {0: [tired]}, on=workers(1)))
    assert error.kind == "OutOfMemory"
    assert "failed 4 times" in error.message
    assert "full" in error.message


def test_one_failure_less_does_not() -> None:
    tired = task(0, 0, ".", failures=3, error=ErrorRecord(kind="OutOfMemory", message="full"))
    assert decided(snapshot([stage(0, 1)], {0: [tired]}), EndQuery) == []


def test_passed_deadline_names_the_setting() -> None:
    late = query(created_at=NOW - 61, deadline_at=NOW - 1)
    error = the_end(snapshot([stage(0, 1)], {0: "R"}, of=late, on=workers(1)))
    assert (error.kind, error.subject) == ("Timeout", "timeout_seconds")
    assert "60 s" in error.message


@pytest.mark.parametrize(
    ("lost", "started", "fails"),
    [
        (5, None, True),
        (4, None, False),
        (5, NOW - 1, False),  # one launched after them registered: not in a row
        (5, NOW - 100, True),  # one launched before them did
    ],
)
def test_launches_in_a_row_that_never_register_fail_the_query(
    lost: int, started: float | None, fails: bool
) -> None:
    on = [worker(f"l{i}", WorkerStatus.LOST, launched_at=NOW - 50 + i) for i in range(lost)]
    if started is not None:
        on.append(worker("w0", launched_at=started))
    state = snapshot([stage(0, 1)], {0: "."}, on=on)
    assert bool(decided(state, EndQuery)) is fails


@pytest.mark.parametrize(("died", "fails"), [(20, True), (19, False)])
def test_workers_that_die_one_after_the_other_fail_the_query(died: int, fails: bool) -> None:
    on = [
        worker(f"l{i}", WorkerStatus.LOST, launched_at=NOW - 50 + i, registered_at=NOW - 49 + i)
        for i in range(died)
    ]
    assert bool(decided(snapshot([stage(0, 1)], {0: "."}, on=on), EndQuery)) is fails


@pytest.mark.parametrize(
    ("waited", "busy", "fails"), [(121, False, True), (119, False, False), (121, True, False)]
)
def test_no_capacity_for_long_fails_only_a_query_without_workers(
    waited: float, busy: bool, fails: bool
) -> None:
    on = [worker("r0", WorkerStatus.LEFT, launched_at=NOW - waited)]
    if busy:
        on.append(worker("w0", launched_at=NOW - 1000))
    state = snapshot([stage(0, 1)], {0: "R" if busy else "."}, on=on)
    assert bool(decided(state, EndQuery)) is fails


# -- after the end ---------------------------------------------------------------------------------
def test_ended_query_drains_its_workers_and_is_swept() -> None:
    state = snapshot([stage(0, 1)], of=ended(), on=workers(active=1, launching=1))
    assert len(decided(state, DrainWorker)) == 2
    assert decided(state, Sweep, Close) == [Sweep()]


@pytest.mark.parametrize(
    ("one", "gone", "closes"),
    [
        (worker("w0", WorkerStatus.LEFT), [], True),
        (worker("w0", WorkerStatus.ACTIVE), [], False),
        (worker("w0", WorkerStatus.DRAINING), [], False),
        (worker("w0", WorkerStatus.DRAINING), ["w0"], True),  # its process is known dead
        (worker("w0", WorkerStatus.LOST), [], True),  # it never registered, and now may not
        (worker("w0", WorkerStatus.LOST, registered_at=NOW - 9), [], False),  # may write yet
        (
            worker("w0", WorkerStatus.LOST, registered_at=NOW - 9, life_until=NOW - SKEW - 1),
            [],
            True,
        ),
        (worker("w0", WorkerStatus.LOST, registered_at=NOW - 9, left_at=NOW - 1), [], True),
    ],
)
def test_query_closes_only_when_no_worker_can_write_any_more(
    one: object, gone: list[str], closes: bool
) -> None:
    state = snapshot([stage(0, 1)], of=ended(swept=True), on=[one], gone=gone)  # type: ignore[list-item]
    assert bool(decided(state, Close)) is closes


def test_worker_drained_before_it_registered_does_not_hold_up_the_close_for_ever() -> None:
    late = worker("w0", WorkerStatus.DRAINING, registered_at=0.0, launch_deadline=NOW - 1)
    state = snapshot([stage(0, 1)], of=ended(swept=True), on=[late])
    assert len(decided(state, LoseWorker)) == 1


def test_closed_query_asks_for_nothing() -> None:
    assert decide(snapshot([], of=ended(swept=True, closed=True)), NOW) == ()


# -- ticks -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("of", "states", "on", "delay"),
    [
        (query(), ".", [], 5.0),
        (query(lease_seconds=6.0), "R", workers(1), 2.0),  # a third of the lease
        (query(deadline_at=NOW + 1.5), ".", [], 1.5),
        (query(), ".", [worker("x", WorkerStatus.LAUNCHING, launch_deadline=NOW + 3)], 3.0),
        (query(deadline_at=NOW + 0.001), ".", [], 0.05),  # never a busy loop
    ],
)
def test_tick_comes_when_the_next_thing_is_due(
    of: object, states: str, on: list, delay: float
) -> None:
    state = snapshot([stage(0, 1)], {0: states}, of=of, on=on)  # type: ignore[arg-type]
    (tick,) = decided(state, Tick)
    assert tick.delay == pytest.approx(delay)


def test_decision_depends_on_nothing_but_its_arguments() -> None:
    state = snapshot(
        [stage(0, 4), stage(1, 2, 0)], {0: "CR..", 1: ".."}, on=workers(2), limits=Limits(budget=3)
    )
    assert decide(state, NOW) == decide(state, NOW)


def test_stages_nothing_was_offered_of_are_not_read() -> None:
    stages = [stage(0, 2), stage(1, 2, 0, admitted=0, cursor=0)]
    assert unread(snapshot(stages, tasks={}), NOW) == {0}
