"""The pool of queues, client tokens, and what turns add to a query: both stores alike."""

from __future__ import annotations

from coordinator_state.ids import QueryId
from coordinator_state.records import QueueLease, TokenRecord
from coordinator_state.store import StateStore
from tests.contract.state_setup import NOW, Q, new_query, new_stages


def lease(queue: str = "pool-1", holder: str = "x-1") -> QueueLease:
    return QueueLease(queue=queue, holder=holder, leased_at=NOW)


def token(query_id: str = "q1", fingerprint: str = "f1", *, expires_at: int = 200) -> TokenRecord:
    return TokenRecord(
        token="t1",
        query_id=QueryId(query_id),
        fingerprint=fingerprint,
        created_at=100.0,
        expires_at=expires_at,
    )


def test_a_leased_queue_is_not_given_to_another_who_is_told_its_holder(store: StateStore) -> None:
    assert store.lease_queue(lease()) == lease()
    assert store.lease_queue(lease(holder="x-2")).holder == "x-1"
    assert store.queue_leases() == [lease()]


def test_leasing_again_for_the_same_holder_changes_nothing(store: StateStore) -> None:
    store.lease_queue(lease())
    assert store.lease_queue(lease()) == lease()
    assert len(store.queue_leases()) == 1


def test_a_returned_queue_can_be_leased_by_another(store: StateStore) -> None:
    store.lease_queue(lease())
    store.return_queue("pool-1", "x-1")
    store.return_queue("pool-1", "x-1")
    assert store.lease_queue(lease(holder="x-2")).holder == "x-2"


def test_a_late_return_leaves_the_next_holder_its_queue(store: StateStore) -> None:
    store.lease_queue(lease())
    store.return_queue("pool-1", "x-1")
    store.lease_queue(lease(holder="x-2"))
    store.return_queue("pool-1", "x-1")
    assert [one.holder for one in store.queue_leases()] == ["x-2"]


def test_leases_are_listed_by_queue(store: StateStore) -> None:
    for number in (3, 1, 2):
        store.lease_queue(lease(queue=f"pool-{number}", holder=f"x-{number}"))
    assert [one.queue for one in store.queue_leases()] == ["pool-1", "pool-2", "pool-3"]


def test_the_first_claim_of_a_token_stands(store: StateStore) -> None:
    assert store.find_token("t1", now=100.0) is None
    assert store.claim_token(token(), now=100.0) == token()
    assert store.claim_token(token("q2", "f2"), now=101.0) == token()
    assert store.find_token("t1", now=199.0) == token()


def test_an_expired_token_is_free(store: StateStore) -> None:
    store.claim_token(token(), now=100.0)
    assert store.find_token("t1", now=200.0) is None
    again = token("q2", expires_at=300)
    assert store.claim_token(again, now=200.0) == again


def test_turns_add_up_their_requests_on_the_query(store: StateStore) -> None:
    store.create_query(new_query(), new_stages())
    for holder, usage in (("a", {"queue_send": 2}), ("b", {"queue_send": 1, "object_put": 5})):
        store.begin_turn(Q, holder, now=NOW, until=NOW + 10)
        assert store.end_turn(Q, holder, wake=0, usage=usage)
    assert store.get_query(Q).coordinator_usage == {"queue_send": 3, "object_put": 5}


def test_a_turn_that_was_knocked_at_adds_nothing_yet(store: StateStore) -> None:
    store.create_query(new_query(), new_stages())
    store.begin_turn(Q, "a", now=NOW, until=NOW + 10)
    store.begin_turn(Q, "b", now=NOW, until=NOW + 10)
    assert not store.end_turn(Q, "a", wake=0, usage={"queue_send": 2})
    assert store.get_query(Q).coordinator_usage == {}


def test_requests_are_added_once_however_often_the_release_is_repeated(store: StateStore) -> None:
    store.create_query(new_query(), new_stages())
    store.begin_turn(Q, "a", now=NOW, until=NOW + 10)
    for _ in range(2):
        store.end_turn(Q, "a", wake=0, usage={"queue_send": 2})
    assert store.get_query(Q).coordinator_usage == {"queue_send": 2}
