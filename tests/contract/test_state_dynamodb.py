"""DynamoDB alone: lost answers, interleaved writers, sizes of items, numbers of requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from coordinator_state import schema
from coordinator_state.dynamodb import DynamoDbStateStore
from coordinator_state.dynamodb.items import pack_bound, unpack_bound
from coordinator_state.errors import (
    AlreadyExists,
    NotFound,
    Refused,
    StateError,
    StoreUnavailable,
)
from coordinator_state.ids import Nonce, QueryId, WorkerId
from coordinator_state.records import (
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
    TABLE,
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

    def interleave(self, operation: str, action: Callable[[], object], *, skip: int = 0) -> None:
        """Somebody else's ``action`` gets in just before ``operation`` is sent."""
        countdown = iter(range(skip, -1, -1))

        def act(**_: Any) -> None:
            if next(countdown, -1) == 0:
                action()

        self._hook(f"before-call.dynamodb.{operation}", act)

    def _hook(self, event: str, handler: Callable[..., Any]) -> None:
        self._events.register_first(event, handler)
        self._hooks.append((event, handler))

    def close(self) -> None:
        for event, handler in self._hooks:
            self._events.unregister(event, handler)


@pytest.fixture
def wire(state_client: Any) -> Iterator[Wire]:
    made = Wire(state_client)
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


# -- somebody else between a read and a write --------------------------------------------------
def test_a_stage_is_not_completed_over_a_task_taken_back_meanwhile(
    dynamodb: DynamoDbStateStore, wire: Wire
) -> None:
    start(dynamodb, tasks=1)
    done = dynamodb.commit_task(claim(dynamodb), COMMIT)
    wire.interleave("UpdateItem", lambda: dynamodb.rerun_task(done, LOST, now=NOW))
    with pytest.raises(Refused, match="taken back"):
        dynamodb.complete_stage(Q, S0)
    assert dynamodb.stages(Q)[0].status is StageStatus.ACTIVE
    assert claim(dynamodb, "n2").attempt == 2


def test_a_turn_that_ends_before_the_knock_is_taken_by_who_would_have_knocked(
    dynamodb: DynamoDbStateStore, wire: Wire
) -> None:
    start(dynamodb)
    dynamodb.begin_turn(Q, "a", now=NOW, until=NOW + 10)
    wire.interleave("UpdateItem", lambda: dynamodb.end_turn(Q, "a", wake=0), skip=1)
    turn = dynamodb.begin_turn(Q, "b", now=NOW + 1, until=NOW + 11)
    assert turn is not None
    assert (turn.turn_holder, turn.wake) == ("b", 0)


def test_a_commit_that_gets_in_before_the_reset_of_its_task_is_reset_too(
    dynamodb: DynamoDbStateStore, wire: Wire
) -> None:
    start(dynamodb, tasks=1)
    task = claim(dynamodb)
    wire.interleave("UpdateItem", lambda: dynamodb.commit_task(task, COMMIT))
    dynamodb.reset_stage(Q, S0, now=NOW)
    reset = dynamodb.get_task(Q, S0, 0)
    assert (reset.status, reset.attempt, reset.commit) == (TaskStatus.PENDING, 2, None)
    assert reset.lost_attempts == (1,)


def test_a_commit_that_gets_in_before_its_task_is_skipped_stands(
    dynamodb: DynamoDbStateStore, wire: Wire
) -> None:
    start(dynamodb, tasks=1)
    task = claim(dynamodb)
    wire.interleave("UpdateItem", lambda: dynamodb.commit_task(task, COMMIT), skip=1)
    dynamodb.skip_stage(Q, S0)
    assert dynamodb.get_task(Q, S0, 0).commit == COMMIT


def test_an_index_offered_by_two_coordinators_at_once_stands_there_once(
    dynamodb: DynamoDbStateStore, wire: Wire
) -> None:
    start(dynamodb, tasks=2)
    for nonce in ("n1", "n2"):
        dynamodb.hand_back_task(claim(dynamodb, nonce), now=NOW, offer=False)
    wire.interleave("UpdateItem", lambda: dynamodb.offer_again(Q, S0, [1]))
    dynamodb.offer_again(Q, S0, [0, 1])
    assert dynamodb.stages(Q)[0].offers == (1, 0)


def test_a_claimer_whose_offer_was_taken_meanwhile_gets_the_next_one(
    dynamodb: DynamoDbStateStore, wire: Wire
) -> None:
    start(dynamodb, tasks=2)
    for nonce in ("n1", "n2"):
        dynamodb.hand_back_task(claim(dynamodb, nonce), now=NOW)
    others: list[TaskRecord] = []
    wire.interleave("UpdateItem", lambda: others.append(claim(dynamodb, "n3")))
    assert claim(dynamodb, "n4").index == 1
    assert [task.index for task in others] == [0]


def test_the_last_offer_taken_meanwhile_leaves_nothing_to_claim(
    dynamodb: DynamoDbStateStore, wire: Wire
) -> None:
    start(dynamodb, tasks=1)
    wire.interleave("UpdateItem", lambda: claim(dynamodb, "n1"))
    assert dynamodb.claim_task(Q, S0, W, Nonce("n2"), now=NOW) is None


# -- sizes and counts --------------------------------------------------------------------------
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
    dynamodb: DynamoDbStateStore, state_client: Any
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
    item = state_client.get_item(TableName=TABLE, Key=key)["Item"]
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
    dynamodb: DynamoDbStateStore, state_client: Any
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


def test_a_missing_table_is_named(state_client: Any) -> None:
    with pytest.raises(StateError, match="no table elsewhere"):
        DynamoDbStateStore(state_client, "elsewhere").get_query(Q)


def test_a_query_closed_while_queries_are_listed_is_listed_once(
    dynamodb: DynamoDbStateStore, wire: Wire
) -> None:
    start(dynamodb)
    # The listing of open queries was read, that of closed ones is about to be.
    wire.interleave("Query", lambda: finish(dynamodb), skip=1)
    assert [query.query_id for query in dynamodb.list_queries()] == [Q]
    assert dynamodb.get_query(Q).closed
