"""What each kind of error means for a task."""

from __future__ import annotations

import pytest

from coordinator_state import errors as state
from coordinator_state.ids import QueryId, StageId
from coordinator_state.records import ErrorRecord, TaskRecord
from crossdock import errors
from crossdock.error_kinds import Fate
from crossdock.executor import FragmentFailed
from crossdock.scheduler.subjects import named_producer
from crossdock.worker.heartbeat import TimeUp
from crossdock.worker.starvation import HandBack
from crossdock.worker.verdict import judge

TASK = TaskRecord(query_id=QueryId("q"), stage=StageId(2), index=7)


def fragment(kind: str, *, retryable: bool) -> FragmentFailed:
    return FragmentFailed(ErrorRecord(kind=kind, message="m", retryable=retryable))


@pytest.mark.parametrize(
    ("error", "fate", "kind", "leave"),
    [
        (state.StaleAttempt("newer"), Fate.DROP, "StaleAttempt", False),
        (state.QueryEnded("over"), Fate.DROP, "QueryEnded", False),
        (state.NotFound("purged"), Fate.DROP, "NotFound", False),
        (errors.QueueNotFound("dropped"), Fate.DROP, "QueueNotFound", False),
        (HandBack("input"), Fate.HAND_BACK, "InputStarved", False),
        (TimeUp("late start", full=False), Fate.HAND_BACK, "TimeLimit", True),
        (TimeUp("whole life", full=True), Fate.RETRY, "TimeLimit", True),
        (fragment("InvalidInput", retryable=False), Fate.FAIL, "InvalidInput", False),
        (fragment("OutOfMemory", retryable=True), Fate.RETRY, "OutOfMemory", True),
        (fragment("OutOfSpace", retryable=True), Fate.RETRY, "OutOfSpace", True),
        (fragment("InputError", retryable=True), Fate.RETRY, "InputError", False),
        (errors.ExchangeLost("gone"), Fate.RETRY, "ExchangeLost", False),  # names no producer
        (errors.OutOfSpace("full"), Fate.RETRY, "OutOfSpace", True),
        (errors.PlatformUnavailable("503"), Fate.RETRY, "PlatformUnavailable", False),
        (errors.PlatformDenied("403"), Fate.FAIL, "PlatformDenied", False),
        (errors.TableError("changed"), Fate.FAIL, "TableError", False),
        (state.StoreUnavailable("busy"), Fate.RETRY, "Unavailable", False),
        (MemoryError(), Fate.RETRY, "OutOfMemory", True),
        (ZeroDivisionError("bug"), Fate.RETRY, "Internal", True),
    ],
)
def test_every_error_has_one_fate(error: Exception, fate: Fate, kind: str, leave: bool) -> None:
    verdict = judge(error, TASK)
    assert (verdict.fate, verdict.error.kind, verdict.leave) == (fate, kind, leave)
    assert verdict.error.message


@pytest.mark.parametrize("kind", [errors.ExchangeLost, errors.ExchangeCorrupt])
def test_lost_input_costs_no_failure_and_names_the_producer_attempt(
    kind: type[errors.ExchangeError],
) -> None:
    verdict = judge(kind("gone", stage=1, index=3, attempt=2), TASK)
    assert verdict.fate is Fate.REQUEUE
    assert named_producer(verdict.error) == (1, 3, 2)


@pytest.mark.parametrize(
    ("error", "offer"), [(HandBack("x"), False), (TimeUp("x", full=False), True)]
)
def test_starved_task_is_not_offered_before_its_input_is_served(
    error: Exception, offer: bool
) -> None:
    assert judge(error, TASK).offer is offer


def test_only_what_may_have_torn_the_process_ends_it() -> None:
    assert judge(fragment("OutOfMemory", retryable=True), TASK).unfit
    assert judge(errors.OutOfSpace("full"), TASK).unfit
    assert not judge(TimeUp("late start", full=False), TASK).unfit
    assert not judge(fragment("InvalidInput", retryable=False), TASK).unfit
