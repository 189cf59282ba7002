"""SQLite alone: damaged and full files, locks, forks, waiting for a change."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import msgspec
import pytest

from coordinator_state.errors import (
    NotFound,
    StateError,
    StoreUnavailable,
)
from coordinator_state.ids import QueryId
from coordinator_state.records import (
    QueryStatus,
)
from coordinator_state.sqlite import SqliteStateStore
from tests.contract.state_setup import (
    NOW,
    S0,
    Q,
    finish,
    new_query,
    new_stages,
    start,
)


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
