"""What every state store promises, verb by verb; run over each implementation.

The DynamoDB store runs on moto in this process, one thread only; races are in ``test_state_races``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import msgspec
import pytest

from coordinator_state import schema
from coordinator_state.dynamodb import DynamoDbStateStore
from coordinator_state.errors import (
    AlreadyExists,
    IllegalTransition,
    NotFound,
    QueryEnded,
    Refused,
    StaleAttempt,
)
from coordinator_state.ids import Nonce, QueryId, WorkerId
from coordinator_state.records import (
    ErrorRecord,
    LedgerEntry,
    LedgerKind,
    QueryStatus,
    StageRecord,
    StageStatus,
    TaskRecord,
    TaskStatus,
    WorkerRecord,
    WorkerStatus,
)
from coordinator_state.sqlite import SqliteStateStore
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
    finish,
    indexes_claimed,
    new_query,
    new_stages,
    start,
    stored,
)


# -- the suite itself --------------------------------------------------------------------------
@pytest.mark.parametrize("implementation", [SqliteStateStore, DynamoDbStateStore])
def test_every_verb_has_the_signature_of_the_protocol(implementation: type) -> None:
    verbs = [name for name in vars(StateStore) if not name.startswith("_")]
    assert len(verbs) > 35
    for verb in verbs:
        assert getattr(implementation, verb) is not getattr(StateStore, verb), verb
        promised = inspect.signature(getattr(StateStore, verb)).parameters
        assert inspect.signature(getattr(implementation, verb)).parameters == promised, verb


# -- creating and reading ----------------------------------------------------------------------
def test_a_created_query_reads_back_whole(store: StateStore) -> None:
    query = new_query(deadline_at=NOW + 60, lease_seconds=7.25, owner="host:1:2", max_attempts=3)
    assert store.create_query(query, new_stages()) == query
    assert store.get_query(Q) == query
    assert store.stages(Q) == new_stages()
    assert [task.index for task in store.tasks(Q, S0)] == [0, 1, 2]
    assert {task.status for task in store.tasks(Q, S1)} == {TaskStatus.PENDING}
    assert store.get_task(Q, S1, 1) == TaskRecord(query_id=Q, stage=S1, index=1, pending_since=NOW)
    assert store.workers(Q) == []
    assert store.owned(Q) == []


def test_creating_an_id_twice_is_refused_with_the_query_that_is_there(store: StateStore) -> None:
    store.create_query(new_query(owner="first"), new_stages())
    with pytest.raises(AlreadyExists) as refusal:
        store.create_query(new_query(owner="second"), new_stages())
    assert refusal.value.current == store.get_query(Q)
    assert store.get_query(Q).owner == "first"


def test_a_long_statement_is_cut(store: StateStore) -> None:
    store.create_query(msgspec.structs.replace(new_query(), sql="x" * 9000), [])
    assert len(store.get_query(Q).sql) == schema.MAX_SQL_CHARS
    assert store.get_query(Q).sql.endswith("…")


def test_more_tasks_than_one_partition_holds_come_back_in_order(store: StateStore) -> None:
    tasks = schema.TASKS_PER_BUCKET + 3
    store.create_query(new_query(), new_stages(tasks=tasks))
    assert [task.index for task in store.tasks(Q, S0)] == list(range(tasks))


def test_reading_what_is_not_there_says_so(store: StateStore) -> None:
    reads: dict[str, Callable[[StateStore], object]] = {
        "get_query": lambda s: s.get_query(Q),
        "stages": lambda s: s.stages(Q),
        "tasks": lambda s: s.tasks(Q, S0),
        "get_task": lambda s: s.get_task(Q, S0, 0),
        "workers": lambda s: s.workers(Q),
        "owned": lambda s: s.owned(Q),
    }
    assert accepted(store, reads) == []


def test_queries_are_listed_newest_first_across_all_their_ends(store: StateStore) -> None:
    ids = [QueryId(f"q{number}") for number in range(5)]
    for query_id in ids:
        store.create_query(new_query(query_id), new_stages(query_id))
    for query_id in ids[:2]:
        store.end_query(query_id, QueryStatus.FAILED, now=NOW)
        store.mark_swept(query_id)
        store.close_query(query_id, expires_at=None)
    store.purge_query(ids[0])
    assert [query.query_id for query in store.list_queries()] == ids[::-1]
    assert [query.query_id for query in store.list_queries(limit=2)] == ["q4", "q3"]
    assert [query.query_id for query in store.list_queries(before=ids[2])] == ["q1", "q0"]
    failed = store.list_queries(status=QueryStatus.FAILED)
    assert [query.query_id for query in failed] == ["q1", "q0"]
    assert store.open_queries() == ids[2:]
    assert store.unpurged_queries() == [ids[1]]


# -- the end of a query ------------------------------------------------------------------------
def test_the_first_end_stands_and_later_ones_are_told_of_it(store: StateStore) -> None:
    start(store)
    won = store.end_query(
        Q, QueryStatus.SUCCEEDED, now=NOW + 5, result=("r/0", "r/1"), result_rows=7
    )
    assert (won.status, won.ended_at, won.result) == (
        QueryStatus.SUCCEEDED,
        NOW + 5,
        ("r/0", "r/1"),
    )
    late = store.end_query(Q, QueryStatus.CANCELLED, now=NOW + 6)
    assert late == won == store.get_query(Q)


def test_a_failed_query_keeps_its_error_cut_to_size(store: StateStore) -> None:
    start(store)
    error = ErrorRecord(kind="OutOfMemory", message="m" * 5000, scope="query", subject="task 0.1")
    ended = store.end_query(Q, QueryStatus.FAILED, now=NOW, error=error)
    assert ended.error is not None
    assert len(ended.error.message) == schema.MAX_ERROR_CHARS
    assert ended.error.subject == "task 0.1"


def test_a_query_cannot_end_running_nor_with_a_manifest_too_long_for_its_item(
    store: StateStore,
) -> None:
    start(store)
    with pytest.raises(ValueError, match="RUNNING"):
        store.end_query(Q, QueryStatus.RUNNING, now=NOW)
    with pytest.raises(ValueError, match="result_key"):
        store.end_query(Q, QueryStatus.SUCCEEDED, now=NOW, result=["k"] * 1000)
    assert store.get_query(Q).status is QueryStatus.RUNNING


def test_sweep_close_purge_and_forget_are_refused_out_of_order(store: StateStore) -> None:
    start(store)
    for early in (
        lambda: store.mark_swept(Q),
        lambda: store.close_query(Q, expires_at=None),
        lambda: store.purge_query(Q),
        lambda: store.forget_query(Q),
    ):
        with pytest.raises(IllegalTransition):
            early()
    store.end_query(Q, QueryStatus.CANCELLED, now=NOW)
    with pytest.raises(IllegalTransition, match="swept"):
        store.close_query(Q, expires_at=None)
    store.mark_swept(Q)
    with pytest.raises(IllegalTransition):
        store.purge_query(Q)
    store.close_query(Q, expires_at=NOW)
    with pytest.raises(IllegalTransition, match="purge"):
        store.forget_query(Q)
    store.purge_query(Q)
    store.forget_query(Q)
    with pytest.raises(NotFound):
        store.get_query(Q)


def test_the_ends_of_a_query_may_be_repeated(store: StateStore) -> None:
    start(store)
    finish(store)
    finish(store)
    store.purge_query(Q)
    store.purge_query(Q)
    finish(store)  # a late one must not list it for purging again
    assert store.unpurged_queries() == []
    store.forget_query(Q)
    store.forget_query(Q)


def test_a_purge_leaves_the_query_item_and_nothing_else(store: StateStore) -> None:
    start(store, tasks=schema.TASKS_PER_BUCKET + 1)
    store.own([LedgerEntry(query_id=Q, kind=LedgerKind.QUEUE, name="q", owned_at=NOW)])
    finish(store)
    store.purge_query(Q)
    query = store.get_query(Q)
    assert (query.status, query.closed, query.purged) == (QueryStatus.SUCCEEDED, True, True)
    assert store.stages(Q) == store.workers(Q) == store.owned(Q) == []
    with pytest.raises(NotFound):
        store.get_task(Q, S0, 0)


# -- nothing comes back to life ----------------------------------------------------------------
TASK = TaskRecord(query_id=Q, stage=S0, index=0, attempt=1, nonce=Nonce("n1"))
LATE_TASK_WRITES: dict[str, Callable[[StateStore], object]] = {
    "activate_stage": lambda s: s.activate_stage(Q, S0),
    "set_capacity": lambda s: s.set_capacity(Q, S0, admitted=9, desired=9),
    "complete_stage": lambda s: s.complete_stage(Q, S0),
    "skip_stage": lambda s: s.skip_stage(Q, S0),
    "offer_again": lambda s: s.offer_again(Q, S0, [0]),
    "begin_generation": lambda s: s.begin_generation(Q, S0, expected=0),
    "reset_stage": lambda s: s.reset_stage(Q, S0, now=NOW),
    "heartbeat": lambda s: s.heartbeat(TASK, phase="wait"),
    "observe_beat": lambda s: s.observe_beat(TASK, now=NOW),
    "commit_task": lambda s: s.commit_task(TASK, COMMIT),
    "requeue_task": lambda s: s.requeue_task(TASK, EXPIRED, now=NOW),
    "hand_back_task": lambda s: s.hand_back_task(TASK, now=NOW),
    "fail_task": lambda s: s.fail_task(TASK, LOST),
    "rerun_task": lambda s: s.rerun_task(TASK, LOST, now=NOW),
    "register_worker": lambda s: s.register_worker(Q, W, now=NOW, life_until=NOW),
    "drain_worker": lambda s: s.drain_worker(Q, W),
    "leave_worker": lambda s: s.leave_worker(Q, W, now=NOW, usage={}),
    "report_usage": lambda s: s.report_usage(Q, W, {}),
    "lose_worker": lambda s: s.lose_worker(Q, W),
}
LATE_QUERY_WRITES: dict[str, Callable[[StateStore], object]] = {
    "end_query": lambda s: s.end_query(Q, QueryStatus.FAILED, now=NOW),
    "mark_swept": lambda s: s.mark_swept(Q),
    "close_query": lambda s: s.close_query(Q, expires_at=None),
    "purge_query": lambda s: s.purge_query(Q),
    "begin_turn": lambda s: s.begin_turn(Q, "me", now=NOW, until=NOW + 1),
    "end_turn": lambda s: s.end_turn(Q, "me", wake=0),
    "advance_tick": lambda s: s.advance_tick(Q, expected=0),
    "claim_task": lambda s: s.claim_task(Q, S0, W, Nonce("n9"), now=NOW),
    "add_worker": lambda s: s.add_worker(WorkerRecord(query_id=Q, worker_id=W)),
    "own": lambda s: s.own(
        [LedgerEntry(query_id=Q, kind=LedgerKind.QUEUE, name="q", owned_at=NOW)]
    ),
}


def test_no_late_write_resurrects_a_forgotten_query(store: StateStore) -> None:
    start(store)
    claim(store)
    finish(store)
    store.purge_query(Q)
    store.forget_query(Q)
    assert accepted(store, {**LATE_TASK_WRITES, **LATE_QUERY_WRITES}) == []
    assert stored(store) == []


def test_no_late_write_resurrects_items_of_a_purged_query(store: StateStore) -> None:
    start(store)
    claim(store)
    finish(store)
    store.purge_query(Q)
    assert accepted(store, LATE_TASK_WRITES) == []
    assert len(stored(store)) == 1


def accepted(store: StateStore, writes: dict[str, Callable[[StateStore], object]]) -> list[str]:
    """Those of the writes that did not say ``NotFound``."""
    passed = []
    for verb, write in writes.items():
        try:
            write(store)
        except NotFound:
            continue
        passed.append(verb)
    return passed


def test_an_ended_query_gets_no_worker_no_resource_and_no_claim(store: StateStore) -> None:
    start(store)
    store.end_query(Q, QueryStatus.CANCELLED, now=NOW)
    with pytest.raises(QueryEnded):
        store.add_worker(WorkerRecord(query_id=Q, worker_id=WorkerId("w-2")))
    with pytest.raises(QueryEnded):
        store.own([LedgerEntry(query_id=Q, kind=LedgerKind.QUEUE, name="q", owned_at=NOW)])
    with pytest.raises(QueryEnded) as refusal:
        store.claim_task(Q, S0, W, Nonce("n1"), now=NOW)
    assert refusal.value.current == store.get_query(Q)
    assert store.owned(Q) == []
    assert len(store.workers(Q)) == 1


# -- the turn ----------------------------------------------------------------------------------
def test_a_held_turn_is_knocked_at_and_not_taken(store: StateStore) -> None:
    start(store)
    mine = store.begin_turn(Q, "a", now=NOW, until=NOW + 10)
    assert mine is not None
    assert (mine.turn_holder, mine.turn_until, mine.wake) == ("a", NOW + 10, 0)
    assert store.begin_turn(Q, "b", now=NOW + 1, until=NOW + 11) is None
    assert store.get_query(Q).wake == 1
    assert store.get_query(Q).turn_holder == "a"


def test_a_turn_is_not_released_past_a_knock(store: StateStore) -> None:
    start(store)
    assert store.begin_turn(Q, "a", now=NOW, until=NOW + 10) is not None
    store.begin_turn(Q, "b", now=NOW + 1, until=NOW + 11)
    assert store.end_turn(Q, "a", wake=0) is False
    again = store.begin_turn(Q, "a", now=NOW + 2, until=NOW + 12)
    assert again is not None
    assert again.wake == 1
    assert store.end_turn(Q, "a", wake=1) is True
    assert store.begin_turn(Q, "b", now=NOW + 3, until=NOW + 13) is not None


def test_a_lapsed_turn_is_taken_over_and_its_late_release_frees_nothing(store: StateStore) -> None:
    start(store)
    store.begin_turn(Q, "a", now=NOW, until=NOW + 10)
    taken = store.begin_turn(Q, "b", now=NOW + 10, until=NOW + 20)
    assert taken is not None
    assert store.end_turn(Q, "a", wake=0) is True
    assert store.get_query(Q).turn_holder == "b"


def test_only_the_live_tick_moves(store: StateStore) -> None:
    start(store)
    assert store.advance_tick(Q, expected=0) is True
    assert store.advance_tick(Q, expected=0) is False
    assert store.advance_tick(Q, expected=2) is False
    assert store.get_query(Q).tick == 1


# -- stages ------------------------------------------------------------------------------------
def test_a_waiting_stage_offers_nothing(store: StateStore) -> None:
    start(store)
    store.set_capacity(Q, S1, admitted=2, desired=1)
    assert store.claim_task(Q, S1, W, Nonce("n1"), now=NOW) is None
    assert store.activate_stage(Q, S1).status is StageStatus.ACTIVE
    assert store.activate_stage(Q, S1).status is StageStatus.ACTIVE
    assert indexes_claimed(store, S1) == [0, 1]


def test_claims_stop_at_what_is_admitted(store: StateStore) -> None:
    start(store, tasks=5, admitted=2)
    assert indexes_claimed(store) == [0, 1]
    store.set_capacity(Q, S0, admitted=50, desired=3)
    assert indexes_claimed(store) == [2, 3, 4]


def test_admitted_does_not_go_down_while_desired_does(store: StateStore) -> None:
    start(store, tasks=5, admitted=4)
    stage = store.set_capacity(Q, S0, admitted=1, desired=0)
    assert (stage.admitted, stage.desired) == (4, 0)
    assert store.stages(Q)[0] == stage


def test_a_stage_with_an_uncommitted_task_is_not_completed(store: StateStore) -> None:
    start(store, tasks=2)
    store.commit_task(claim(store), COMMIT)
    running = claim(store, "n2")
    with pytest.raises(Refused, match="1 of 2"):
        store.complete_stage(Q, S0)
    store.commit_task(running, COMMIT)
    complete = store.complete_stage(Q, S0)
    assert (complete.status, complete.committed) == (StageStatus.COMPLETE, 2)
    assert store.complete_stage(Q, S0) == complete


@pytest.mark.parametrize(
    ("verb", "status"),
    [
        ("activate_stage", StageStatus.COMPLETE),
        ("activate_stage", StageStatus.SKIPPED),
        ("complete_stage", StageStatus.WAITING),
        ("complete_stage", StageStatus.SKIPPED),
        ("skip_stage", StageStatus.COMPLETE),
    ],
)
def test_a_stage_is_not_moved_from_where_the_move_does_not_start(
    store: StateStore, verb: str, status: StageStatus
) -> None:
    stage = StageRecord(query_id=Q, stage=S0, tasks=1, status=status)
    store.create_query(new_query(), [stage])
    with pytest.raises(IllegalTransition) as refusal:
        getattr(store, verb)(Q, S0)
    assert refusal.value.current == stage == store.stages(Q)[0]


def test_a_skipped_stage_takes_its_unfinished_tasks_along(store: StateStore) -> None:
    start(store)
    done = store.commit_task(claim(store), COMMIT)
    running = claim(store, "n2")
    assert store.skip_stage(Q, S0).status is StageStatus.SKIPPED
    store.skip_stage(Q, S0)
    tasks = store.tasks(Q, S0)
    assert [task.status for task in tasks] == [
        TaskStatus.COMMITTED,
        TaskStatus.SKIPPED,
        TaskStatus.SKIPPED,
    ]
    assert tasks[0] == done
    assert tasks[1].lost_attempts == (1,)
    assert store.claim_task(Q, S0, W, Nonce("n3"), now=NOW) is None
    with pytest.raises(StaleAttempt):
        store.commit_task(running, COMMIT)


def test_a_task_lost_between_offer_and_claim_is_offered_again_once(store: StateStore) -> None:
    start(store, tasks=3)
    for nonce in ("n1", "n2", "n3"):
        store.hand_back_task(claim(store, nonce), now=NOW, offer=False)
    assert store.claim_task(Q, S0, W, Nonce("n4"), now=NOW) is None
    store.offer_again(Q, S0, [2, 0, 2])
    store.offer_again(Q, S0, [0, 1])
    assert store.stages(Q)[0].offers == (2, 0, 1)
    assert indexes_claimed(store) == [2, 0, 1]


def test_offering_again_what_the_cursor_will_reach_or_what_is_not_pending_changes_nothing(
    store: StateStore,
) -> None:
    start(store, tasks=3)
    claim(store)
    store.offer_again(Q, S0, [0, 1, 2])
    assert store.stages(Q)[0].offers == ()


def test_more_offers_than_one_write_takes_are_all_made(store: StateStore) -> None:
    # Every task was passed by the cursor and none was claimed: 100 claimers died in between.
    passed = StageRecord(
        query_id=Q, stage=S0, tasks=100, status=StageStatus.ACTIVE, admitted=100, cursor=100
    )
    store.create_query(new_query(), [passed])
    store.offer_again(Q, S0, list(range(100)))
    assert store.stages(Q)[0].offers == tuple(range(100))


def test_a_generation_is_begun_once(store: StateStore) -> None:
    start(store)
    assert store.begin_generation(Q, S0, expected=0).generation == 1
    assert store.begin_generation(Q, S0, expected=0).generation == 1
    with pytest.raises(Refused, match="generation 1, not 5"):
        store.begin_generation(Q, S0, expected=5)
    assert claim(store).generation == 1


def test_a_reset_fences_every_older_attempt_committed_or_not(store: StateStore) -> None:
    start(store)
    done = store.commit_task(claim(store), COMMIT, bound=[(S0, 0, 1)])
    running = claim(store, "n2")
    store.reset_stage(Q, S0, now=NOW + 9)
    tasks = store.tasks(Q, S0)
    assert [task.status for task in tasks] == [TaskStatus.PENDING] * 3
    assert [task.attempt for task in tasks] == [2, 2, 1]
    assert [task.lost_attempts for task in tasks] == [(1,), (1,), ()]
    assert tasks[0].commit is None
    assert tasks[0].bound == ()
    for late in (
        lambda: store.commit_task(running, COMMIT),
        lambda: store.commit_task(done, COMMIT),
        lambda: store.heartbeat(running, phase="wait"),
        lambda: store.requeue_task(running, EXPIRED, now=NOW),
        lambda: store.rerun_task(done, LOST, now=NOW),
    ):
        with pytest.raises(StaleAttempt):
            late()
    assert indexes_claimed(store) == [0, 1, 2]
    assert [task.attempt for task in store.tasks(Q, S0)] == [3, 3, 2]


def test_a_reset_reactivates_a_complete_or_skipped_stage_but_not_a_waiting_one(
    store: StateStore,
) -> None:
    start(store, tasks=1)
    store.commit_task(claim(store), COMMIT)
    store.complete_stage(Q, S0)
    store.reset_stage(Q, S0, now=NOW)
    assert store.stages(Q)[0].status is StageStatus.ACTIVE
    store.skip_stage(Q, S0)
    store.reset_stage(Q, S0, now=NOW)
    assert store.stages(Q)[0].status is StageStatus.ACTIVE
    assert indexes_claimed(store) == [0]
    store.reset_stage(Q, S1, now=NOW)
    assert store.stages(Q)[1].status is StageStatus.WAITING
    assert {task.attempt for task in store.tasks(Q, S1)} == {0}


# -- workers -----------------------------------------------------------------------------------
def test_a_worker_registers_once(store: StateStore) -> None:
    store.create_query(new_query(), new_stages())
    launched = WorkerRecord(
        query_id=Q, worker_id=W, stage=S0, launched_at=NOW, launch_deadline=NOW + 30
    )
    store.add_worker(launched)
    assert store.workers(Q) == [launched]
    active = store.register_worker(Q, W, now=NOW + 1, life_until=NOW + 900)
    assert (active.status, active.registered_at) == (WorkerStatus.ACTIVE, NOW + 1)
    with pytest.raises(Refused, match="cannot register"):
        store.register_worker(Q, W, now=NOW + 1, life_until=NOW + 900)
    assert store.workers(Q) == [active]


def test_a_worker_is_added_once(store: StateStore) -> None:
    start(store)
    with pytest.raises(AlreadyExists) as refusal:
        store.add_worker(WorkerRecord(query_id=Q, worker_id=W, launched_at=NOW + 1))
    assert refusal.value.current == store.workers(Q)[0]
    assert store.workers(Q)[0].status is WorkerStatus.ACTIVE


@pytest.mark.parametrize("give_up", ["drain_worker", "lose_worker"])
def test_a_worker_given_up_before_it_came_cannot_register(store: StateStore, give_up: str) -> None:
    store.create_query(new_query(), new_stages())
    store.add_worker(WorkerRecord(query_id=Q, worker_id=W))
    gone = getattr(store, give_up)(Q, W)
    assert getattr(store, give_up)(Q, W) == gone
    with pytest.raises(Refused, match=str(gone.status)):
        store.register_worker(Q, W, now=NOW, life_until=NOW)


def test_a_draining_worker_finishes_its_task_and_claims_no_other(store: StateStore) -> None:
    start(store)
    task = claim(store)
    store.drain_worker(Q, W)
    assert store.report_usage(Q, W, {"object_get": 3}).status is WorkerStatus.DRAINING
    assert store.commit_task(task, COMMIT).status is TaskStatus.COMMITTED
    with pytest.raises(Refused):
        store.claim_task(Q, S0, W, Nonce("n2"), now=NOW)


def test_late_usage_of_a_lost_worker_is_kept_and_it_stays_lost(store: StateStore) -> None:
    start(store)
    store.report_usage(Q, W, {"object_put": 1})
    store.lose_worker(Q, W)
    store.leave_worker(Q, W, now=NOW + 7, usage={"object_put": 4, "queue_send": 2})
    worker = store.workers(Q)[0]
    assert (worker.status, worker.left_at) == (WorkerStatus.LOST, NOW + 7)
    assert worker.usage == {"object_put": 4, "queue_send": 2}


def test_a_worker_that_left_is_neither_drained_nor_lost(store: StateStore) -> None:
    start(store)
    store.leave_worker(Q, W, now=NOW + 7, usage={"object_put": 4})
    store.leave_worker(Q, W, now=NOW + 7, usage={"object_put": 4})
    for verb in (store.drain_worker, store.lose_worker):
        with pytest.raises(IllegalTransition):
            verb(Q, W)
    assert store.workers(Q)[0].status is WorkerStatus.LEFT


def test_workers_are_listed_by_launch(store: StateStore) -> None:
    store.create_query(new_query(), new_stages())
    for number, launched in enumerate((3.0, 1.0, 2.0)):
        store.add_worker(
            WorkerRecord(query_id=Q, worker_id=WorkerId(f"w{number}"), launched_at=launched)
        )
    assert [worker.worker_id for worker in store.workers(Q)] == ["w1", "w2", "w0"]


# -- ledger ------------------------------------------------------------------------------------
def test_the_ledger_remembers_until_released(store: StateStore) -> None:
    start(store)
    entries = [
        LedgerEntry(query_id=Q, kind=LedgerKind.QUEUE, name=f"q{number:03d}", owned_at=NOW)
        for number in range(120)
    ]
    prefix = LedgerEntry(query_id=Q, kind=LedgerKind.OBJECTS, name="exchange/x#1/", owned_at=NOW)
    store.own([prefix, *entries])
    store.own([msgspec.structs.replace(entries[0], owned_at=NOW + 9)])
    assert store.owned(Q) == [prefix, *entries]
    store.release(Q, LedgerKind.QUEUE, "q000")
    store.release(Q, LedgerKind.QUEUE, "q000")
    store.release(Q, LedgerKind.OBJECTS, "exchange/x#1/")
    assert store.owned(Q) == entries[1:]
    store.end_query(Q, QueryStatus.FAILED, now=NOW)
    store.release(Q, LedgerKind.QUEUE, "q001")
    assert store.owned(Q) == entries[2:]
