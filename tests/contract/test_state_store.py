"""What every state store promises, verb by verb; run over each implementation.

The DynamoDB store runs on moto in this process, one thread only; races are in ``test_state_races``.
"""

from __future__ import annotations

import inspect
import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import msgspec
import pytest
from botocore.exceptions import ReadTimeoutError
from moto import mock_aws

from coordinator_state import schema
from coordinator_state.dynamodb import DynamoDbStateStore, client_config, create_table
from coordinator_state.dynamodb.items import pack_bound, unpack_bound
from coordinator_state.errors import (
    AlreadyExists,
    IllegalTransition,
    NotFound,
    QueryEnded,
    Refused,
    StaleAttempt,
    StateError,
    StoreUnavailable,
)
from coordinator_state.ids import Nonce, QueryId, StageId, WorkerId
from coordinator_state.records import (
    Commit,
    ErrorRecord,
    LedgerEntry,
    LedgerKind,
    QueryRecord,
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

Q = QueryId("20261130T120000-abcdef")
S0, S1 = StageId(0), StageId(1)
W = WorkerId("w-1")
NOW = 1_790_000_000.5
TABLE = "state"
LOST = ErrorRecord(kind="ExchangeLost", message="gone", retryable=True, scope="input")
EXPIRED = ErrorRecord(kind="LeaseExpired", message="no heartbeat", retryable=True)
COMMIT = Commit(
    object_key="exchange/20261130T120000-abcdef/00000/0000000/00001",
    size=123_456_789,
    checksum="0123456789abcdef",
    index_offset=123_450_000,
    rows_in=1_000_000,
    bytes_in=64_000_000,
    rows_out=500_000,
    bytes_out=123_456_000,
    seconds=12.125,
    peak_memory=3_000_000_000,
)


@pytest.fixture(scope="module")
def moto_client() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client(
            "dynamodb",
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=client_config(),
        )


@pytest.fixture
def client(moto_client: Any) -> Iterator[Any]:
    create_table(moto_client, TABLE)
    yield moto_client
    moto_client.delete_table(TableName=TABLE)


@pytest.fixture(params=["sqlite", "dynamodb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StateStore]:
    if request.param == "dynamodb":
        yield DynamoDbStateStore(request.getfixturevalue("client"), TABLE)
        return
    sqlite = SqliteStateStore(tmp_path / "state.db")
    yield sqlite
    sqlite.close()


@pytest.fixture
def dynamodb(client: Any) -> DynamoDbStateStore:
    return DynamoDbStateStore(client, TABLE)


def new_query(query_id: QueryId = Q, **fields: Any) -> QueryRecord:
    return QueryRecord(query_id=query_id, created_at=NOW, sql="SELECT 1", **fields)


def new_stages(query_id: QueryId = Q, tasks: int = 3) -> list[StageRecord]:
    return [
        StageRecord(query_id=query_id, stage=S0, tasks=tasks),
        StageRecord(query_id=query_id, stage=S1, tasks=2, depth=1, upstream=(S0,)),
    ]


def start(store: StateStore, *, tasks: int = 3, admitted: int | None = None) -> None:
    """A running query whose stage 0 offers its tasks to the registered worker W."""
    store.create_query(new_query(), new_stages(tasks=tasks))
    store.activate_stage(Q, S0)
    store.set_capacity(Q, S0, admitted=tasks if admitted is None else admitted, desired=1)
    store.add_worker(WorkerRecord(query_id=Q, worker_id=W, launched_at=NOW))
    store.register_worker(Q, W, now=NOW, life_until=NOW + 900)


def claim(store: StateStore, nonce: str = "n1", stage: StageId = S0) -> TaskRecord:
    task = store.claim_task(Q, stage, W, Nonce(nonce), now=NOW + 1)
    assert task is not None
    return task


def indexes_claimed(store: StateStore, stage: StageId = S0) -> list[int]:
    found = []
    while (task := store.claim_task(Q, stage, W, Nonce(f"m{len(found)}"), now=NOW + 2)) is not None:
        found.append(task.index)
    return found


def finish(store: StateStore, status: QueryStatus = QueryStatus.SUCCEEDED) -> None:
    store.end_query(Q, status, now=NOW + 5)
    store.mark_swept(Q)
    store.close_query(Q, expires_at=NOW + 1000)


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
    store.mark_swept(Q)
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


def stored(store: StateStore) -> list[object]:
    """Every row or item there is, of whatever kind."""
    if isinstance(store, DynamoDbStateStore):
        found: list[object] = store._table.client.scan(TableName=TABLE)["Items"]
        return found
    assert isinstance(store, SqliteStateStore)
    tables = ("queries", "stages", "tasks", "workers", "ledger")
    cx = store._database.connection()
    return [row for table in tables for row in cx.execute(f"SELECT * FROM {table}")]


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


# -- DynamoDB alone: answers that are lost, limits of items ------------------------------------
class Wire:
    """Loses answers of requests that did their work."""

    def __init__(self, client: Any) -> None:
        self._events = client.meta.events
        self._hooks: list[tuple[str, Callable[..., Any]]] = []
        self.requests: list[str] = []
        self._hook("before-call.dynamodb", lambda model, **_: self.requests.append(model.name))

    def repeat_once(self, operation: str, *, skip: int = 0) -> None:
        """The SDK sends ``operation`` again, as after a 500 or a timeout whose work was done."""
        countdown = iter(range(skip, -1, -1))
        self._hook(
            f"needs-retry.dynamodb.{operation}",
            lambda **_: 0.0 if next(countdown, -1) == 0 else None,
        )

    def lose_answer(self, operation: str, *, skip: int = 0) -> None:
        """The SDK gives up on ``operation`` although its work was done."""
        countdown = iter(range(skip, -1, -1))

        def lost(**_: Any) -> None:
            if next(countdown, -1) == 0:
                raise ReadTimeoutError(endpoint_url="https://dynamodb")

        self._hook(f"after-call.dynamodb.{operation}", lost)

    def _hook(self, event: str, handler: Callable[..., Any]) -> None:
        self._events.register_first(event, handler)
        self._hooks.append((event, handler))

    def close(self) -> None:
        for event, handler in self._hooks:
            self._events.unregister(event, handler)


@pytest.fixture
def wire(client: Any) -> Iterator[Wire]:
    made = Wire(client)
    yield made
    made.close()


def test_a_commit_that_landed_unanswered_is_won(dynamodb: DynamoDbStateStore, wire: Wire) -> None:
    start(dynamodb)
    task = claim(dynamodb)
    wire.repeat_once("UpdateItem")
    done = dynamodb.commit_task(task, COMMIT)
    assert (done.status, done.commit, done.nonce) == (TaskStatus.COMMITTED, COMMIT, "n1")


def test_a_commit_whose_answer_never_came_is_won_when_asked_again(
    dynamodb: DynamoDbStateStore, wire: Wire
) -> None:
    start(dynamodb)
    task = claim(dynamodb)
    wire.lose_answer("UpdateItem")
    with pytest.raises(StoreUnavailable):
        dynamodb.commit_task(task, COMMIT)
    assert dynamodb.commit_task(task, COMMIT).status is TaskStatus.COMMITTED


def test_a_claim_that_landed_unanswered_is_mine(dynamodb: DynamoDbStateStore, wire: Wire) -> None:
    start(dynamodb)
    wire.repeat_once("UpdateItem", skip=1)  # the first update moves the cursor
    task = claim(dynamodb)
    assert (task.index, task.attempt, task.nonce) == (0, 1, "n1")
    assert dynamodb.stages(Q)[0].cursor == 1


def test_a_cursor_moved_twice_by_a_lost_answer_leaves_a_task_that_can_be_offered_again(
    dynamodb: DynamoDbStateStore, wire: Wire
) -> None:
    start(dynamodb)
    wire.repeat_once("UpdateItem")
    assert claim(dynamodb).index == 1
    dynamodb.offer_again(Q, S0, [0])
    assert claim(dynamodb, "n2").index == 0


UNANSWERED: dict[str, tuple[str, Callable[[StateStore], object]]] = {
    "register": (
        "UpdateItem",
        lambda s: s.register_worker(Q, WorkerId("w-2"), now=1, life_until=2),
    ),
    "tick": ("UpdateItem", lambda s: s.advance_tick(Q, expected=0)),
    "turn": ("UpdateItem", lambda s: s.begin_turn(Q, "a", now=NOW, until=NOW + 1) is not None),
    "release": ("UpdateItem", lambda s: s.end_turn(Q, "held", wake=0)),
    "end": ("UpdateItem", lambda s: s.end_query(Q, QueryStatus.SUCCEEDED, now=9.0).ended_at == 9.0),
    "generation": ("UpdateItem", lambda s: s.begin_generation(Q, S0, expected=0).generation == 1),
    "activate": ("UpdateItem", lambda s: s.activate_stage(Q, S1)),
    "launch": (
        "TransactWriteItems",
        lambda s: s.add_worker(WorkerRecord(query_id=Q, worker_id=WorkerId("w-3"))) is None,
    ),
    "draft": ("PutItem", lambda s: s.create_query(new_query(QueryId("q2")), [])),
}


@pytest.mark.parametrize("what", UNANSWERED)
def test_a_write_whose_first_answer_was_lost_is_not_refused(
    dynamodb: DynamoDbStateStore, wire: Wire, what: str
) -> None:
    start(dynamodb)
    dynamodb.add_worker(WorkerRecord(query_id=Q, worker_id=WorkerId("w-2")))
    if what == "release":
        dynamodb.begin_turn(Q, "held", now=NOW, until=NOW + 1)
    operation, write = UNANSWERED[what]
    wire.repeat_once(operation)
    assert write(dynamodb)
    assert operation in wire.requests


def test_the_write_that_makes_a_query_visible_may_be_answered_late(
    dynamodb: DynamoDbStateStore, wire: Wire
) -> None:
    wire.repeat_once("PutItem", skip=1)
    assert dynamodb.create_query(new_query(), new_stages()) == dynamodb.get_query(Q)


def test_a_requeue_whose_answer_was_lost_counts_one_failure(
    dynamodb: DynamoDbStateStore, wire: Wire
) -> None:
    start(dynamodb)
    task = claim(dynamodb)
    wire.repeat_once("UpdateItem")
    assert dynamodb.requeue_task(task, EXPIRED, now=NOW).failures == 1
    assert dynamodb.stages(Q)[0].offers == (0,)


def test_a_reset_whose_answer_was_lost_moves_each_attempt_once(
    dynamodb: DynamoDbStateStore, wire: Wire
) -> None:
    start(dynamodb)
    claim(dynamodb)
    wire.repeat_once("UpdateItem")
    dynamodb.reset_stage(Q, S0, now=NOW)
    assert [task.attempt for task in dynamodb.tasks(Q, S0)] == [2, 1, 1]


def test_a_creation_that_died_is_invisible_and_can_be_dropped(
    dynamodb: DynamoDbStateStore, wire: Wire
) -> None:
    wire.lose_answer("BatchWriteItem", skip=1)  # after the stages, with the tasks
    with pytest.raises(StoreUnavailable):
        dynamodb.create_query(new_query(), new_stages())
    assert len(stored(dynamodb)) == 1 + 2 + 3 + 2
    for read in (dynamodb.get_query, dynamodb.mark_swept, dynamodb.purge_query):
        with pytest.raises(NotFound):
            read(Q)
    assert list(dynamodb.list_queries()) == list(dynamodb.open_queries()) == []
    with pytest.raises(AlreadyExists):
        dynamodb.create_query(new_query(), new_stages())
    assert dynamodb.drop_drafts(before=NOW) == 0
    assert dynamodb.drop_drafts(before=NOW + 1) == 1
    assert stored(dynamodb) == []
    dynamodb.create_query(new_query(), new_stages())


def test_dropping_drafts_leaves_created_queries_alone(store: StateStore) -> None:
    store.create_query(new_query(), new_stages())
    assert store.drop_drafts(before=NOW + 1e9) == 0
    assert store.get_query(Q).status is QueryStatus.RUNNING


def item_bytes(item: dict[str, Any]) -> int:
    """Size as the service bills it, a little over: names, values, and marks of nesting."""

    def size(value: dict[str, Any]) -> int:
        ((kind, inner),) = value.items()
        if kind == "S":
            return len(inner.encode())
        if kind == "N":
            return len(inner) // 2 + 2
        if kind == "M":
            return 3 + sum(len(name) + size(member) + 1 for name, member in inner.items())
        if kind == "L":
            return 3 + sum(size(member) + 1 for member in inner)
        return 1

    return sum(len(name) + size(value) for name, value in item.items())


def test_a_committed_task_stays_under_the_kilobyte_a_write_is_billed_by(
    dynamodb: DynamoDbStateStore, client: Any
) -> None:
    start(dynamodb)
    task = dynamodb.claim_task(
        Q, S0, W, Nonce("0123456789abcdef0123456789abcdef"), now=NOW + 1.123456
    )
    assert task is not None
    dynamodb.commit_task(task, COMMIT, bound=[(S1, index, 1) for index in range(1000)])
    key = {
        "pk": {"S": schema.task_partition(Q, S0, 0)},
        "sk": {"S": schema.task_sort(0)},
    }
    item = client.get_item(TableName=TABLE, Key=key)["Item"]
    assert 500 < item_bytes(item) < 1024
    assert len(dynamodb.get_task(Q, S0, 0).bound) == 1000


@pytest.mark.parametrize(
    "bound",
    [
        (),
        ((0, 5, 1),),
        ((0, 0, 1), (0, 1, 1), (0, 2, 2), (0, 3, 1), (1, 0, 1)),
        tuple((stage, index, 1 + index % 3) for stage in range(3) for index in range(50)),
    ],
)
def test_bound_attempts_survive_packing(bound: Any) -> None:
    assert unpack_bound(pack_bound(bound)) == tuple(sorted(bound))


def test_the_query_item_alone_expires_and_only_after_it_was_closed(
    dynamodb: DynamoDbStateStore, client: Any
) -> None:
    start(dynamodb)
    dynamodb.end_query(Q, QueryStatus.SUCCEEDED, now=NOW)
    dynamodb.mark_swept(Q)
    assert not [item for item in stored(dynamodb) if schema.TTL_ATTRIBUTE in item]
    dynamodb.close_query(Q, expires_at=NOW + 10)
    (expiring,) = [item for item in stored(dynamodb) if schema.TTL_ATTRIBUTE in item]
    assert expiring["sk"] == {"S": schema.QUERY_SORT}
    assert expiring[schema.TTL_ATTRIBUTE] == {"N": str(int(NOW) + 10)}


def test_a_claim_is_one_read_and_two_writes(dynamodb: DynamoDbStateStore, wire: Wire) -> None:
    start(dynamodb)
    wire.requests.clear()
    claim(dynamodb)
    assert wire.requests == ["BatchGetItem", "UpdateItem", "UpdateItem"]
    wire.requests.clear()
    indexes_claimed(dynamodb)
    wire.requests.clear()
    assert dynamodb.claim_task(Q, S0, W, Nonce("n9"), now=NOW) is None
    assert wire.requests == ["BatchGetItem"]


def test_a_missing_table_is_named(client: Any) -> None:
    with pytest.raises(StateError, match="no table elsewhere"):
        DynamoDbStateStore(client, "elsewhere").get_query(Q)


# -- SQLite alone ------------------------------------------------------------------------------
def test_a_file_that_is_no_database_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(StateError, match="damaged or no state file"):
        SqliteStateStore(path)


def test_a_file_of_another_layout_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = SqliteStateStore(path)
    store._database.connection().execute("PRAGMA user_version = 99")
    store.close()
    with pytest.raises(StateError, match="another version"):
        SqliteStateStore(path)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot be opened"):
        SqliteStateStore(tmp_path / "missing" / "state.db")


def test_a_store_locked_for_too_long_is_unavailable_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store, other = SqliteStateStore(path), SqliteStateStore(path, busy_seconds=0.05)
    store.create_query(new_query(), new_stages())
    with store._database.write(), pytest.raises(StoreUnavailable, match="locked"):
        other.end_query(Q, QueryStatus.FAILED, now=NOW)
    assert other.get_query(Q).status is QueryStatus.RUNNING
    store.close()
    other.close()


def test_a_full_disk_is_named_and_the_write_undone(tmp_path: Path) -> None:
    store = SqliteStateStore(tmp_path / "state.db")
    store._database.connection().execute("PRAGMA max_page_count = 20")
    with pytest.raises(StateError, match="no space left"):
        store.create_query(new_query(), new_stages(tasks=5000))
    with pytest.raises(NotFound):
        store.get_query(Q)
    store.close()


def test_waiting_ends_with_another_connections_commit_and_not_with_ones_own(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.db"
    mine, other = SqliteStateStore(path), SqliteStateStore(path)
    assert mine.wait_for_change(0.0) is False
    mine.create_query(new_query(), new_stages())
    assert mine.wait_for_change(0.01) is False
    other.activate_stage(Q, S0)  # between two waits: must not be slept through
    assert mine.wait_for_change(5.0) is True
    assert mine.wait_for_change(0.0) is False
    mine.close()
    other.close()


def test_a_forked_child_opens_its_own_connection(tmp_path: Path) -> None:
    store = SqliteStateStore(tmp_path / "state.db")
    store.create_query(new_query(), new_stages())
    child = multiprocessing.get_context("fork").Process(target=_end_in_child, args=(store,))
    child.start()
    child.join(20)
    assert child.exitcode == 0
    assert store.get_query(Q).status is QueryStatus.CANCELLED
    store.activate_stage(Q, S0)
    store.close()


def _end_in_child(store: SqliteStateStore) -> None:
    assert not list(store._database.connections)
    store.end_query(Q, QueryStatus.CANCELLED, now=NOW)


def test_a_purged_query_is_forgotten_when_its_time_has_passed(tmp_path: Path) -> None:
    store = SqliteStateStore(tmp_path / "state.db")
    start(store)
    finish(store)  # expires at NOW + 1000
    store.create_query(msgspec.structs.replace(new_query(QueryId("q2")), created_at=NOW + 5000), [])
    assert store.get_query(Q).closed
    store.purge_query(Q)
    store.create_query(msgspec.structs.replace(new_query(QueryId("q3")), created_at=NOW + 5000), [])
    with pytest.raises(NotFound):
        store.get_query(Q)
    store.close()
