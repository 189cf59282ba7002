"""Commits of statements that write: a table changes in the write that ends its query, or not."""

from __future__ import annotations

import pytest

from coordinator_state.errors import TableMoved
from coordinator_state.ids import QueryId
from coordinator_state.records import (
    ErrorRecord,
    QueryRecord,
    QueryStatus,
    TableChange,
    TableRecord,
)
from coordinator_state.store import StateStore
from tests.contract.state_setup import NOW, Q, new_query, new_stages

OTHER = QueryId("20261130T120001-abcdef")


def table(manifest: str = "data/1", query_id: QueryId = Q, name: str = "Sales") -> TableRecord:
    return TableRecord(name=name, manifest=manifest, made_by=query_id, changed_at=NOW)


def change(manifest: str = "data/1", expected: str = "", query_id: QueryId = Q) -> TableChange:
    return TableChange(record=table(manifest, query_id), expected=expected)


def begin(store: StateStore, *queries: QueryId) -> None:
    for query_id in queries or (Q,):
        store.create_query(new_query(query_id, writes=True), new_stages(query_id))


def end(store: StateStore, made: TableChange | None, query_id: QueryId = Q) -> QueryRecord:
    return store.end_query(query_id, QueryStatus.SUCCEEDED, now=NOW, table=made)


def test_a_table_appears_with_the_end_of_its_query(store: StateStore) -> None:
    begin(store)
    assert store.find_table("sales") is None
    query = end(store, change())
    assert query.status is QueryStatus.SUCCEEDED
    assert query.manifest == "data/1"
    assert store.find_table("SALES") == table()
    assert store.tables() == [table()]


def test_ending_again_does_not_change_the_table_again(store: StateStore) -> None:
    begin(store)
    end(store, change())
    assert end(store, change("data/2", expected="data/1")).manifest == "data/1"
    assert store.find_table("sales") == table()


def test_a_cancelled_query_changes_no_table(store: StateStore) -> None:
    begin(store)
    store.end_query(Q, QueryStatus.CANCELLED, now=NOW)
    assert end(store, change()).status is QueryStatus.CANCELLED
    assert store.find_table("sales") is None


def test_of_two_that_create_one_table_the_second_is_told_and_still_runs(store: StateStore) -> None:
    begin(store, Q, OTHER)
    end(store, change())
    with pytest.raises(TableMoved) as refused:
        end(store, change("data/other", query_id=OTHER), OTHER)
    assert refused.value.current == table()
    assert store.get_query(OTHER).status is QueryStatus.RUNNING
    assert store.find_table("sales") == table()


def test_a_commit_made_for_an_older_state_of_the_table_is_refused(store: StateStore) -> None:
    begin(store, Q, OTHER)
    store.change_table(change("data/0"))
    end(store, change("data/1", expected="data/0"))
    with pytest.raises(TableMoved):
        end(store, change("data/2", expected="data/0", query_id=OTHER), OTHER)
    assert end(store, change("data/2", expected="data/1", query_id=OTHER), OTHER).manifest
    found = store.find_table("sales")
    assert found is not None
    assert found.manifest == "data/2"


def test_a_dropped_table_can_be_made_again_and_forgotten_only_while_dropped(
    store: StateStore,
) -> None:
    store.change_table(change())
    store.forget_table("sales")
    assert store.find_table("sales") == table()
    dropped = TableRecord(name="Sales", retired=(("data/1", NOW),))
    store.change_table(TableChange(record=dropped, expected="data/1"))
    assert store.find_table("sales") == dropped
    store.change_table(change("data/2"))
    store.forget_table("sales")
    assert store.find_table("sales") == table("data/2")
    store.change_table(TableChange(record=dropped, expected="data/2"))
    store.forget_table("sales")
    store.forget_table("sales")
    assert store.tables() == []


def test_a_change_outside_a_query_is_refused_when_the_table_moved(store: StateStore) -> None:
    store.change_table(change())
    with pytest.raises(TableMoved):
        store.change_table(change("data/2"))
    with pytest.raises(TableMoved):
        store.change_table(change("data/2", expected="data/9"))
    assert store.find_table("sales") == table()


def test_once_files_are_shown_only_the_committer_ends_the_query(store: StateStore) -> None:
    begin(store)
    assert store.begin_commit(Q).committing
    assert store.begin_commit(Q).committing
    cancelled = store.end_query(Q, QueryStatus.CANCELLED, now=NOW)
    assert cancelled.status is QueryStatus.RUNNING
    assert cancelled.committing
    failure = ErrorRecord(kind="PlatformDenied", message="may not write")
    failed = store.end_query(Q, QueryStatus.FAILED, now=NOW, error=failure, committer=True)
    assert failed.status is QueryStatus.FAILED


def test_no_commit_begins_once_the_query_was_cancelled(store: StateStore) -> None:
    begin(store)
    store.end_query(Q, QueryStatus.CANCELLED, now=NOW)
    assert not store.begin_commit(Q).committing
