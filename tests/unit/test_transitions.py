"""The tables of legal moves: what they must never allow, and that all else is written from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from coordinator_state import conditions
from coordinator_state.errors import IllegalTransition, Refused, StaleAttempt
from coordinator_state.ids import Nonce, QueryId, StageId, WorkerId
from coordinator_state.records import (
    Commit,
    ErrorRecord,
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
from coordinator_state.transitions import (
    QUERY_MOVES,
    STAGE_MOVES,
    TASK_MOVES,
    WORKER_MOVES,
    Move,
    landed,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "task-states.md"
Q, S, W = QueryId("q"), StageId(0), WorkerId("w")
ERROR = ErrorRecord(kind="LeaseExpired", message="no heartbeat")
TABLES: list[Mapping[str, Move[Any]]] = [QUERY_MOVES, STAGE_MOVES, TASK_MOVES, WORKER_MOVES]


def exits(moves: Mapping[str, Move[Any]], status: StrEnum) -> set[str]:
    """Verbs that lead out of ``status``."""
    return {
        m.verb for m in moves.values() if status in m.sources and m.target not in (None, status)
    }


# -- what no table may allow -------------------------------------------------------------------
@pytest.mark.parametrize(
    ("moves", "first", "statuses"),
    [
        (STAGE_MOVES, StageStatus.WAITING, StageStatus),
        (TASK_MOVES, TaskStatus.PENDING, TaskStatus),
        (WORKER_MOVES, WorkerStatus.LAUNCHING, WorkerStatus),
    ],
)
def test_every_state_can_be_reached(moves: Any, first: StrEnum, statuses: Any) -> None:
    reached = {first}
    for _ in statuses:
        reached |= {m.target for m in moves.values() if m.target and m.sources & reached}
    assert reached == set(statuses)


@pytest.mark.parametrize("status", [WorkerStatus.LEFT, WorkerStatus.LOST])
def test_a_worker_that_is_gone_never_comes_back(status: WorkerStatus) -> None:
    assert exits(WORKER_MOVES, status) == set()


def test_a_draining_worker_is_never_revived() -> None:
    targets = {m.target for m in WORKER_MOVES.values() if WorkerStatus.DRAINING in m.sources}
    assert targets == {WorkerStatus.LEFT, WorkerStatus.LOST}


@pytest.mark.parametrize("status", [TaskStatus.FAILED, TaskStatus.SKIPPED])
def test_only_a_reset_of_its_stage_takes_back_a_failed_or_skipped_task(status: TaskStatus) -> None:
    assert exits(TASK_MOVES, status) == {"reset_stage"}


def test_a_committed_task_is_taken_back_by_a_rerun_or_a_reset_only() -> None:
    assert exits(TASK_MOVES, TaskStatus.COMMITTED) == {"rerun_task", "reset_stage"}


def test_an_ended_query_has_no_way_back() -> None:
    assert QUERY_MOVES["end_query"].sources == {QueryStatus.RUNNING}
    ended = set(QueryStatus) - {QueryStatus.RUNNING}
    assert all(m.sources == ended for m in QUERY_MOVES.values() if m.verb != "end_query")


@pytest.mark.parametrize("verb", ["commit_task", "requeue_task", "hand_back_task", "fail_task"])
def test_an_attempt_ends_only_while_it_runs(verb: str) -> None:
    assert TASK_MOVES[verb].sources == {TaskStatus.RUNNING}


# -- the ruling --------------------------------------------------------------------------------
@pytest.mark.parametrize("status", list(StageStatus))
def test_a_move_is_made_repeated_or_refused_by_where_the_item_is(status: StageStatus) -> None:
    move = STAGE_MOVES["complete_stage"]
    if status is StageStatus.ACTIVE:
        assert landed(move, status, "stage 0", current=None) is False
    elif status is StageStatus.COMPLETE:
        assert landed(move, status, "stage 0", current=None) is True
    else:
        with pytest.raises(IllegalTransition, match=f"it is {status}, the move starts from ACTIVE"):
            landed(move, status, "stage 0", current=None)


# -- the conditions are written from the tables ------------------------------------------------
def status_clause(condition: str) -> set[str]:
    clause = re.search(r"#status IN \(([^)]*)\)", condition)
    assert clause, condition
    return {name.strip().removeprefix(":") for name in clause.group(1).split(",")}


@pytest.mark.parametrize(
    ("name", "move"),
    [
        ("END_QUERY", QUERY_MOVES["end_query"]),
        ("MARK_SWEPT", QUERY_MOVES["mark_swept"]),
        ("CLOSE_QUERY", QUERY_MOVES["close_query"]),
        ("ACTIVATE_STAGE", STAGE_MOVES["activate_stage"]),
        ("COMPLETE_STAGE", STAGE_MOVES["complete_stage"]),
        ("SKIP_STAGE", STAGE_MOVES["skip_stage"]),
        ("RESET_STAGE", STAGE_MOVES["reset_stage"]),
        ("REOPEN_STAGE", STAGE_MOVES["reopen_stage"]),
        ("CLAIM_TASK", TASK_MOVES["claim_task"]),
        ("HEARTBEAT", TASK_MOVES["heartbeat"]),
        ("OBSERVE_BEAT", TASK_MOVES["observe_beat"]),
        ("COMMIT_TASK", TASK_MOVES["commit_task"]),
        ("REQUEUE_TASK", TASK_MOVES["requeue_task"]),
        ("REQUEUE_SILENT_TASK", TASK_MOVES["requeue_task"]),
        ("HAND_BACK_TASK", TASK_MOVES["hand_back_task"]),
        ("FAIL_TASK", TASK_MOVES["fail_task"]),
        ("RERUN_TASK", TASK_MOVES["rerun_task"]),
        ("REGISTER_WORKER", WORKER_MOVES["register_worker"]),
        ("DRAIN_WORKER", WORKER_MOVES["drain_worker"]),
        ("LEAVE_WORKER", WORKER_MOVES["leave_worker"]),
        ("LOSE_WORKER", WORKER_MOVES["lose_worker"]),
    ],
)
def test_a_condition_admits_exactly_the_states_its_move_starts_from(
    name: str, move: Move[Any]
) -> None:
    assert status_clause(getattr(conditions, name)) == set(move.sources)


def named_conditions() -> dict[str, str]:
    return {
        name: text
        for name, text in vars(conditions).items()
        if name.isupper() and not name.startswith("_") and isinstance(text, str) and "#" in text
    }


def test_every_condition_but_creation_asserts_that_its_item_exists() -> None:
    found = named_conditions()
    assert len(found) > 30
    resurrecting = [name for name, text in found.items() if "attribute_exists(#pk)" not in text]
    assert resurrecting == ["ABSENT", "LEASE_QUEUE", "CLAIM_TOKEN", "CREATE_TABLE"]
    assert "attribute_exists(#pk)" in conditions.offer_again(3)


@pytest.mark.parametrize(
    "name",
    ["HEARTBEAT", "OBSERVE_BEAT", "COMMIT_TASK", "REQUEUE_TASK", "HAND_BACK_TASK", "FAIL_TASK"],
)
def test_every_write_of_an_attempt_is_fenced_by_attempt_and_nonce(name: str) -> None:
    text = getattr(conditions, name)
    assert "#attempt = :attempt" in text
    assert "#nonce = :nonce" in text


# -- the store obeys them ----------------------------------------------------------------------
@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStateStore]:
    made = SqliteStateStore(tmp_path / "state.db")
    yield made
    made.close()


def task_in(store: SqliteStateStore, status: TaskStatus) -> TaskRecord:
    """The task of a running query, brought to ``status`` as attempt 1 (0 while PENDING)."""
    stage = StageRecord(query_id=Q, stage=S, tasks=1, admitted=1, status=StageStatus.ACTIVE)
    store.create_query(QueryRecord(query_id=Q, created_at=0.0), [stage])
    store.add_worker(WorkerRecord(query_id=Q, worker_id=W, status=WorkerStatus.ACTIVE))
    if status is TaskStatus.PENDING:
        return store.get_task(Q, S, 0)
    task = store.claim_task(Q, S, W, Nonce("n"), now=0.0)
    assert task is not None
    if status is TaskStatus.COMMITTED:
        return store.commit_task(task, Commit())
    if status is TaskStatus.FAILED:
        return store.fail_task(task, ERROR)
    if status is TaskStatus.SKIPPED:
        store.skip_stage(Q, S)
    return store.get_task(Q, S, 0)


TASK_VERBS: dict[str, Callable[[SqliteStateStore, TaskRecord], object]] = {
    "heartbeat": lambda s, t: s.heartbeat(t, phase="wait"),
    "observe_beat": lambda s, t: s.observe_beat(t, now=0.0),
    "commit_task": lambda s, t: s.commit_task(t, Commit()),
    "requeue_task": lambda s, t: s.requeue_task(t, ERROR, now=0.0),
    "hand_back_task": lambda s, t: s.hand_back_task(t, now=0.0),
    "fail_task": lambda s, t: s.fail_task(t, ERROR),
    "rerun_task": lambda s, t: s.rerun_task(t, ERROR, now=0.0),
}


@pytest.mark.parametrize("status", list(TaskStatus))
@pytest.mark.parametrize("verb", TASK_VERBS)
def test_a_task_moves_as_its_table_says_and_not_otherwise(
    store: SqliteStateStore, verb: str, status: TaskStatus
) -> None:
    task = task_in(store, status)
    assert task.status is status
    move = TASK_MOVES[verb]
    if status in move.sources:
        TASK_VERBS[verb](store, task)
        assert store.get_task(Q, S, 0).status is (move.target or status)
    elif status is move.target:
        TASK_VERBS[verb](store, task)
        assert store.get_task(Q, S, 0) == task
    else:
        with pytest.raises(StaleAttempt):
            TASK_VERBS[verb](store, task)
        assert store.get_task(Q, S, 0) == task


WORKER_VERBS: dict[str, Callable[[SqliteStateStore], object]] = {
    "register_worker": lambda s: s.register_worker(Q, W, now=0.0, life_until=1.0),
    "drain_worker": lambda s: s.drain_worker(Q, W),
    "leave_worker": lambda s: s.leave_worker(Q, W, now=0.0, usage={}),
    "lose_worker": lambda s: s.lose_worker(Q, W),
}


@pytest.mark.parametrize("status", list(WorkerStatus))
@pytest.mark.parametrize("verb", WORKER_VERBS)
def test_a_worker_moves_as_its_table_says_and_not_otherwise(
    store: SqliteStateStore, verb: str, status: WorkerStatus
) -> None:
    store.create_query(QueryRecord(query_id=Q, created_at=0.0), [])
    store.add_worker(WorkerRecord(query_id=Q, worker_id=W, status=status))
    move = WORKER_MOVES[verb]
    expected = move.target if status in move.sources else status
    refused = status not in move.sources and (
        verb == "register_worker" or status is not move.target
    )
    if refused and verb != "leave_worker":  # a late goodbye is kept as usage, without a move
        with pytest.raises(Refused):
            WORKER_VERBS[verb](store)
    else:
        WORKER_VERBS[verb](store)
    assert store.workers(Q)[0].status is expected


STAGE_VERBS: dict[str, Callable[[SqliteStateStore], object]] = {
    "activate_stage": lambda s: s.activate_stage(Q, S),
    "complete_stage": lambda s: s.complete_stage(Q, S),
    "skip_stage": lambda s: s.skip_stage(Q, S),
}


@pytest.mark.parametrize("status", list(StageStatus))
@pytest.mark.parametrize("verb", STAGE_VERBS)
def test_a_stage_moves_as_its_table_says_and_not_otherwise(
    store: SqliteStateStore, verb: str, status: StageStatus
) -> None:
    empty = StageRecord(query_id=Q, stage=S, tasks=0, status=status)  # nothing left to commit
    store.create_query(QueryRecord(query_id=Q, created_at=0.0), [empty])
    move = STAGE_MOVES[verb]
    if status in move.sources or status is move.target:
        STAGE_VERBS[verb](store)
        assert store.stages(Q)[0].status is move.target
    else:
        with pytest.raises(IllegalTransition):
            STAGE_VERBS[verb](store)
        assert store.stages(Q)[0] == empty


# -- the page ----------------------------------------------------------------------------------
def test_the_page_names_every_condition_and_no_other() -> None:
    page = PAGE.read_text()
    known = named_conditions()
    assert [name for name in known if f"`{name}`" not in page] == []
    assert [name for name in re.findall(r"`([A-Z]+_[A-Z_]+)`", page) if name not in known] == []


@pytest.mark.parametrize("moves", TABLES)
def test_the_page_has_every_move_with_where_it_starts_and_ends(
    moves: Mapping[str, Move[Any]],
) -> None:
    page = PAGE.read_text()
    for move in moves.values():
        rows = [line for line in page.splitlines() if line.startswith(f"| `{move.verb}` |")]
        drawn = [row for row in rows if statuses_in(row.split("|")[2]) == set(move.sources)]
        assert drawn, f"{move.verb}: no row starting from {sorted(move.sources)}"
        if move.target is not None:
            ends = [statuses_in(row.split("|")[3]) for row in drawn]
            assert {move.target} in ends, f"{move.verb}: no row ending in {move.target}"


def statuses_in(cell: str) -> set[str]:
    return set(re.findall(r"\b[A-Z]{4,}\b", cell))
