"""What every state store promises of tasks: claims, heartbeats, and how an attempt ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from coordinator_state.errors import (
    NotFound,
    QueryEnded,
    Refused,
    StaleAttempt,
)
from coordinator_state.ids import Nonce, WorkerId
from coordinator_state.records import (
    ErrorRecord,
    QueryStatus,
    StageStatus,
    TaskRecord,
    TaskStatus,
    WorkerRecord,
)
from coordinator_state.store import StateStore
from tests.contract.state_setup import (
    COMMIT,
    EXPIRED,
    LOST,
    NOW,
    S0,
    S1,
    Q,
    W,
    claim,
    indexes_claimed,
    start,
)


# -- claims ------------------------------------------------------------------------------------
def test_a_claim_starts_an_attempt_with_its_first_beat(store: StateStore) -> None:
    start(store)
    task = claim(store)
    assert (task.status, task.attempt, task.nonce, task.worker_id) == (
        TaskStatus.RUNNING,
        1,
        "n1",
        W,
    )
    assert (task.beat, task.beat_seen, task.claimed_at) == (1, -1, NOW + 1)
    assert store.get_task(Q, S0, 0) == task


@pytest.mark.parametrize(
    "make_unfit",
    [
        lambda s, w: s.add_worker(WorkerRecord(query_id=Q, worker_id=w)),
        lambda s, w: register_and(s, w, s.drain_worker),
        lambda s, w: register_and(s, w, s.lose_worker),
        lambda s, w: register_and(s, w, lambda q, x: s.leave_worker(q, x, now=NOW, usage={})),
    ],
    ids=["launching", "draining", "lost", "left"],
)
def test_a_worker_that_is_not_active_claims_nothing(store: StateStore, make_unfit: Any) -> None:
    start(store)
    unfit = WorkerId("w-unfit")
    make_unfit(store, unfit)
    with pytest.raises(Refused, match="only ACTIVE"):
        store.claim_task(Q, S0, unfit, Nonce("n1"), now=NOW)
    assert store.stages(Q)[0].cursor == 0


def register_and(store: StateStore, worker_id: WorkerId, then: Any) -> None:
    store.add_worker(WorkerRecord(query_id=Q, worker_id=worker_id))
    store.register_worker(Q, worker_id, now=NOW, life_until=NOW)
    then(Q, worker_id)


def test_an_unknown_worker_claims_nothing(store: StateStore) -> None:
    start(store)
    with pytest.raises(NotFound):
        store.claim_task(Q, S0, WorkerId("nobody"), Nonce("n1"), now=NOW)


def test_offers_are_served_before_the_cursor_and_stale_ones_are_passed_over(
    store: StateStore,
) -> None:
    start(store, tasks=4)
    first, second = claim(store, "n1"), claim(store, "n2")
    store.hand_back_task(first, now=NOW)
    store.requeue_task(second, EXPIRED, now=NOW)
    assert claim(store, "n3").index == 0
    assert indexes_claimed(store) == [1, 2, 3]


# -- heartbeats --------------------------------------------------------------------------------
def test_a_heartbeat_counts_up_and_tells_how_the_query_stands(store: StateStore) -> None:
    start(store)
    task = claim(store)
    assert store.heartbeat(task, phase="fragment", peak_memory=5) is QueryStatus.RUNNING
    assert store.heartbeat(task, phase="write", peak_memory=7) is QueryStatus.RUNNING
    current = store.get_task(Q, S0, 0)
    assert (current.beat, current.phase, current.peak_memory) == (3, "write", 7)
    store.end_query(Q, QueryStatus.CANCELLED, now=NOW)
    assert store.heartbeat(task, phase="write") is QueryStatus.CANCELLED


def test_noting_a_beat_again_does_not_extend_the_lease(store: StateStore) -> None:
    start(store)
    claim(store)
    seen = store.get_task(Q, S0, 0)
    store.observe_beat(seen, now=NOW + 10)
    store.observe_beat(seen, now=NOW + 20)
    noted = store.get_task(Q, S0, 0)
    assert (noted.beat_seen, noted.beat_seen_at) == (1, NOW + 10)
    store.heartbeat(noted, phase="wait")
    store.observe_beat(store.get_task(Q, S0, 0), now=NOW + 30)
    store.observe_beat(seen, now=NOW + 40)
    assert store.get_task(Q, S0, 0).beat_seen_at == NOW + 30


def test_an_expired_lease_is_not_taken_from_a_worker_that_beat_meanwhile(
    store: StateStore,
) -> None:
    start(store)
    claim(store)
    seen = store.get_task(Q, S0, 0)
    store.heartbeat(seen, phase="wait")
    with pytest.raises(Refused, match="alive"):
        store.requeue_task(seen, EXPIRED, now=NOW, beat=seen.beat)
    current = store.get_task(Q, S0, 0)
    assert current.status is TaskStatus.RUNNING
    assert store.requeue_task(seen, EXPIRED, now=NOW, beat=current.beat).status is (
        TaskStatus.PENDING
    )


# -- how an attempt ends -----------------------------------------------------------------------
def test_a_commit_stands_and_may_be_repeated(store: StateStore) -> None:
    start(store)
    task = claim(store)
    bound = [(S0, index, 1) for index in range(200)] + [(S0, 200, 2), (S1, 0, 1)]
    done = store.commit_task(task, COMMIT, bound=bound)
    assert (done.status, done.commit, done.attempt) == (TaskStatus.COMMITTED, COMMIT, 1)
    assert sorted(done.bound) == sorted(bound)
    assert store.commit_task(task, COMMIT) == done == store.get_task(Q, S0, 0)
    assert store.tasks(Q, S0, status=TaskStatus.COMMITTED) == [done]


ENDS: dict[str, Callable[[StateStore, TaskRecord], object]] = {
    "heartbeat": lambda s, t: s.heartbeat(t, phase="wait"),
    "observe_beat": lambda s, t: s.observe_beat(t, now=NOW),
    "commit_task": lambda s, t: s.commit_task(t, COMMIT),
    "requeue_task": lambda s, t: s.requeue_task(t, EXPIRED, now=NOW),
    "hand_back_task": lambda s, t: s.hand_back_task(t, now=NOW),
    "fail_task": lambda s, t: s.fail_task(t, LOST),
    "rerun_task": lambda s, t: s.rerun_task(t, LOST, now=NOW),
}


CONFLICTS = {
    # Two ends that both leave PENDING are repetitions; a committed attempt may be taken back.
    "requeue_task": ["heartbeat", "observe_beat", "commit_task", "fail_task"],
    "commit_task": ["heartbeat", "observe_beat", "requeue_task", "hand_back_task", "fail_task"],
    "fail_task": [verb for verb in ENDS if verb != "fail_task"],
}


@pytest.mark.parametrize("first", CONFLICTS)
def test_of_two_ends_of_one_attempt_the_second_is_stale(store: StateStore, first: str) -> None:
    start(store)
    task = claim(store)
    ENDS[first](store, task)
    before = store.get_task(Q, S0, 0)
    for late in CONFLICTS[first]:
        with pytest.raises(StaleAttempt) as refusal:
            ENDS[late](store, task)
        assert refusal.value.current == before == store.get_task(Q, S0, 0), late


def test_an_older_attempt_changes_nothing_of_a_newer_one(store: StateStore) -> None:
    start(store)
    old = claim(store)
    store.requeue_task(old, EXPIRED, now=NOW)
    new = claim(store, "n2")
    assert (new.index, new.attempt) == (old.index, 2)
    for late in ENDS.values():
        with pytest.raises(StaleAttempt):
            late(store, old)
    assert store.get_task(Q, S0, 0) == new


def test_an_attempt_of_the_same_number_under_another_nonce_is_a_stranger(
    store: StateStore,
) -> None:
    start(store)
    task = claim(store)
    stranger = msgspec.structs.replace(task, nonce=Nonce("other"))
    with pytest.raises(StaleAttempt):
        store.commit_task(stranger, COMMIT)
    with pytest.raises(StaleAttempt):
        store.heartbeat(stranger, phase="wait")


def test_a_nonce_used_again_does_not_admit_the_older_attempt(store: StateStore) -> None:
    start(store)
    old = claim(store, "again")
    store.requeue_task(old, EXPIRED, now=NOW)
    new = claim(store, "again")
    with pytest.raises(StaleAttempt):
        store.commit_task(old, COMMIT)
    assert store.get_task(Q, S0, 0) == new


@pytest.mark.parametrize("end", ["requeue_task", "hand_back_task", "fail_task"])
def test_ending_an_attempt_twice_counts_once(store: StateStore, end: str) -> None:
    start(store)
    task = claim(store)
    once = ENDS[end](store, task)
    assert ENDS[end](store, task) == once == store.get_task(Q, S0, 0)
    assert once.lost_attempts == (1,)
    assert once.failures + once.handbacks == 1


def test_requeue_burns_a_failure_unless_told_not_to(store: StateStore) -> None:
    start(store)
    burned = store.requeue_task(claim(store), EXPIRED, now=NOW + 3)
    assert (burned.failures, burned.error, burned.pending_since) == (1, EXPIRED, NOW + 3)
    spared = store.requeue_task(claim(store, "n2"), EXPIRED, now=NOW + 4, burn=False)
    assert (spared.failures, spared.attempt, spared.lost_attempts) == (1, 2, (1, 2))
    assert spared.worker_id == ""


def test_a_task_handed_back_without_offer_waits_for_the_coordinator(store: StateStore) -> None:
    start(store, tasks=1)
    back = store.hand_back_task(claim(store), now=NOW, offer=False)
    assert (back.failures, back.handbacks) == (0, 1)
    assert store.claim_task(Q, S0, W, Nonce("n2"), now=NOW) is None
    store.offer_again(Q, S0, [0])
    assert claim(store, "n3").attempt == 2


def test_a_failed_task_is_final(store: StateStore) -> None:
    start(store, tasks=1)
    error = ErrorRecord(kind="InvalidInput", message="bad cast")
    failed = store.fail_task(claim(store), error)
    assert (failed.status, failed.error, failed.failures) == (TaskStatus.FAILED, error, 1)
    store.offer_again(Q, S0, [0])
    assert store.claim_task(Q, S0, W, Nonce("n2"), now=NOW) is None


def test_a_committed_task_whose_object_is_lost_runs_again_and_reopens_its_stage(
    store: StateStore,
) -> None:
    start(store, tasks=1)
    done = store.commit_task(claim(store), COMMIT)
    store.complete_stage(Q, S0)
    pending = store.rerun_task(done, LOST, now=NOW + 8)
    assert (pending.status, pending.commit, pending.lost_attempts) == (
        TaskStatus.PENDING,
        None,
        (1,),
    )
    assert store.rerun_task(done, LOST, now=NOW + 9) == pending
    assert store.stages(Q)[0].status is StageStatus.ACTIVE
    with pytest.raises(Refused):
        store.complete_stage(Q, S0)
    again = claim(store, "n2")
    assert again.attempt == 2
    store.commit_task(again, COMMIT)
    store.complete_stage(Q, S0)
    with pytest.raises(StaleAttempt):
        store.rerun_task(done, LOST, now=NOW)
    assert store.stages(Q)[0].status is StageStatus.COMPLETE


def test_a_commit_after_the_query_ended_says_so(store: StateStore) -> None:
    start(store)
    task = claim(store)
    store.end_query(Q, QueryStatus.CANCELLED, now=NOW)
    with pytest.raises(QueryEnded):
        store.commit_task(task, COMMIT)
