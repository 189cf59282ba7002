"""Early stop: a stage of which the first rows are enough."""

from __future__ import annotations

import msgspec
import pytest

from coordinator_state.ids import StageId
from coordinator_state.records import Commit, StageRecord, StageStatus, TaskRecord, TaskStatus
from crossdock.scheduler import Limits, Snapshot
from crossdock.scheduler.instructions import (
    ActivateStage,
    CompleteStage,
    DrainWorker,
    FinishQuery,
    LaunchWorkers,
    OfferAgain,
    ResetStages,
    SetCapacity,
    SkipStage,
)
from tests.unit.scheduler_builders import LOST, decided, query, snapshot, stage, task, workers

LIMIT = 10


def made(index: int, rows: int, **fields: object) -> TaskRecord:
    commit = Commit(object_key=f"o{index}", rows_out=rows)
    return task(0, index, "C", commit=commit, **fields)


def scan(tasks: int, **fields: object) -> StageRecord:
    return stage(0, tasks, **{"prefix_limit": LIMIT, **fields})


def reader(state: str, **fields: object) -> list[TaskRecord]:
    return [task(1, 0, state, **fields)]


def skipped_task(number: int) -> TaskRecord:
    return msgspec.structs.replace(task(number, 1, "."), status=TaskStatus.SKIPPED)


FROM_FIRST = ((StageId(0), 0, 1),)


def test_committed_reader_ends_the_producers_it_did_not_need_and_the_query() -> None:
    state = snapshot(
        [scan(4), stage(1, 1, 0)],
        {0: [made(0, LIMIT), task(0, 1, "R"), task(0, 2, "."), task(0, 3, ".")]}
        | {1: reader("C", bound=FROM_FIRST)},
        on=workers(2),
    )
    found = decided(state, SkipStage, CompleteStage, FinishQuery)
    assert [type(each) for each in found] == [SkipStage, CompleteStage, FinishQuery]
    assert (found[0], found[1]) == (SkipStage(StageId(0)), CompleteStage(StageId(1)))


def test_stages_upstream_of_one_that_was_stopped_are_stopped_too() -> None:
    stages = [
        stage(0, 2),
        stage(1, 2, 0, prefix_limit=LIMIT),
        stage(2, 1, 1, depth=2),
    ]
    commit = Commit(object_key="o", rows_out=LIMIT)
    tasks = {
        0: "CR",
        1: [task(1, 0, "C", commit=commit, bound=FROM_FIRST), task(1, 1, ".")],
        2: [task(2, 0, "C", bound=((StageId(1), 0, 1),))],
    }
    skipped = decided(snapshot(stages, tasks, on=workers(2)), SkipStage)
    assert skipped == [SkipStage(StageId(1)), SkipStage(StageId(0))]


@pytest.mark.parametrize(
    ("limit", "states"),
    [
        (LIMIT, "R"),  # on its way, it may still fail and want rows again
        (LIMIT, "."),
        (0, "C"),  # nothing says that a part is enough
    ],
)
def test_nothing_but_a_committed_reader_of_enough_rows_stops_a_stage(
    limit: int, states: str
) -> None:
    state = snapshot(
        [scan(2, prefix_limit=limit), stage(1, 1, 0)],
        {0: [made(0, LIMIT), task(0, 1, "R")], 1: reader(states)},
        on=workers(2),
    )
    assert decided(state, SkipStage, CompleteStage) == []


def test_one_reader_of_two_stops_nothing() -> None:
    state = snapshot(
        [scan(2), stage(1, 1, 0), stage(2, 1, 0), stage(3, 1, 1, 2, depth=2)],
        {0: [made(0, LIMIT), task(0, 1, ".")], 1: reader("C", bound=FROM_FIRST), 2: ".", 3: "."},
        on=workers(2),
    )
    assert decided(state, SkipStage) == []


def test_reader_of_an_attempt_that_was_taken_back_stops_nothing() -> None:
    """It committed between the look that found nobody bound to the attempt and its re-run."""
    again = task(0, 0, ".", attempt=1, failures=1)
    state = snapshot(
        [scan(2), stage(1, 1, 0)],
        {0: [again, made(1, LIMIT)], 1: reader("C", bound=FROM_FIRST)},
        on=workers(2),
    )
    assert decided(state, SkipStage, CompleteStage) == []


def capacity(state: Snapshot) -> dict[int, tuple[int, int]]:
    """What each stage is given: admitted and desired."""
    given = {int(s.stage): (s.admitted, s.desired) for s in state.stages}
    changed = {int(i.stage): (i.admitted, i.desired) for i in decided(state, SetCapacity)}
    return given | changed


@pytest.mark.parametrize(
    ("tasks", "scans", "readers"),
    [
        ([made(0, 4), task(0, 1, "R"), task(0, 2, "."), task(0, 3, ".")], 3, 0),
        # Task 1 has enough, and task 0 comes before it: it alone is waited for.
        ([task(0, 0, "R"), made(1, LIMIT), task(0, 2, "."), task(0, 3, ".")], 1, 1),
        ([made(0, LIMIT), task(0, 1, "R"), task(0, 2, "."), task(0, 3, ".")], 0, 1),
    ],
)
def test_slots_go_only_to_tasks_before_the_last_row_that_is_wanted(
    tasks: list[TaskRecord], scans: int, readers: int
) -> None:
    state = snapshot(
        [scan(4), stage(1, 1, 0, admitted=0, cursor=0)],
        {0: tasks, 1: "."},
        on=workers(2),
        limits=Limits(budget=3),
    )
    found = capacity(state)
    assert (found[0][1], found[1][1]) == (scans, readers)


def test_with_a_budget_of_one_the_reader_gets_the_slot_once_there_are_enough_rows() -> None:
    state = snapshot(
        [scan(4, cursor=1), stage(1, 1, 0, admitted=0, cursor=0)],
        {0: [made(0, LIMIT), *(task(0, i, ".") for i in (1, 2, 3))], 1: "."},
        limits=Limits(budget=1),
    )
    assert decided(state, LaunchWorkers) == [LaunchWorkers(1, StageId(1))]


def test_batch_stage_starts_when_there_are_enough_rows_for_it() -> None:
    waiting = stage(1, 1, 0, status=StageStatus.WAITING)
    for rows, starts in ((LIMIT - 1, []), (LIMIT, [ActivateStage(StageId(1))])):
        tasks = [made(0, rows), task(0, 1, "R")]
        state = snapshot([scan(2), waiting], {0: tasks}, of=query(exchange="batch"), on=workers(2))
        assert decided(state, ActivateStage) == starts


def test_reader_that_handed_back_is_offered_again_though_producers_are_left() -> None:
    handed_back = task(1, 0, ".", handbacks=1)
    for rows, offered in ((LIMIT - 1, 0), (LIMIT, 1)):
        state = snapshot(
            [scan(2, cursor=1), stage(1, 1, 0)],
            {0: [made(0, rows), task(0, 1, ".")], 1: [handed_back]},
            on=workers(1),
        )
        again = [i for i in decided(state, OfferAgain) if i.stage == 1]
        assert len(again) == offered


def test_lost_object_of_a_stage_that_was_stopped_starts_it_and_what_was_skipped_above_anew() -> (
    None
):
    skipped = StageStatus.SKIPPED
    lost = msgspec.structs.replace(LOST, subject="1/0/1")
    state = snapshot(
        [
            stage(0, 2, status=skipped),
            stage(1, 2, 0, status=skipped, prefix_limit=LIMIT),
            stage(2, 1, 1, depth=2),
        ],
        {
            0: [task(0, 0, "C"), skipped_task(0)],
            1: [task(1, 0, "C"), skipped_task(1)],
            2: [task(2, 0, ".", error=lost, attempt=2)],
        },
        on=workers(1),
    )
    assert decided(state, ResetStages) == [
        ResetStages(StageId(1), 0, (StageId(0), StageId(1), StageId(2)))
    ]


def test_worker_at_a_task_that_nobody_needs_is_not_counted_on() -> None:
    """w1 is at task 1 in vain: w0 must not be drained as one too many, and nothing is launched."""
    tasks = {0: [made(0, LIMIT), task(0, 1, "R"), task(0, 2, "."), task(0, 3, ".")], 1: "."}
    stages = [scan(4), stage(1, 1, 0, admitted=0, cursor=0)]
    for count, launched in ((2, []), (1, [LaunchWorkers(1, StageId(1))])):
        on = workers(2)[2 - count :]  # the busy one is w1
        state = snapshot(stages, tasks, on=on, limits=Limits(budget=2))
        assert decided(state, DrainWorker) == []
        assert decided(state, LaunchWorkers) == launched
    busy = {0: [made(0, LIMIT), task(0, 1, "R"), task(0, 2, "R", worker_id="w0")], 1: "."}
    full = snapshot([scan(3), stages[1]], busy, on=workers(2), limits=Limits(budget=2))
    assert decided(full, DrainWorker, LaunchWorkers) == []
