"""When a running query cannot go on, and why, in words."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator_state.records import (
    ErrorRecord,
    QueryStatus,
    TaskRecord,
    TaskStatus,
    WorkerStatus,
)
from crossdock.scheduler.instructions import EndQuery
from crossdock.scheduler.snapshot import Snapshot
from crossdock.scheduler.subjects import named_producer


def reason_to_end(s: Snapshot, now: float) -> EndQuery | None:
    """The first reason found; a task's own error goes before a missed deadline."""
    for error in _reasons(s, now):
        return EndQuery(QueryStatus.FAILED, error)
    return None


def _reasons(s: Snapshot, now: float) -> Iterator[ErrorRecord]:
    yield from _failed_tasks(s)
    yield from _passed_deadline(s, now)
    yield from _reruns_used_up(s)
    yield from _workers_not_starting(s)
    yield from _workers_dying(s)
    yield from _no_capacity(s, now)


def _failed_tasks(s: Snapshot) -> Iterator[ErrorRecord]:
    for task in s.with_status(TaskStatus.FAILED):
        error = task.error or ErrorRecord(kind="TaskFailed", message="no reason was recorded")
        yield _of_task(error, task, f"{error.message} ({_name(task)})")
    allowed = s.query.max_attempts
    for task in (*s.with_status(TaskStatus.PENDING), *s.with_status(TaskStatus.RUNNING)):
        if task.failures >= allowed:
            error = task.error or ErrorRecord(kind="TaskFailed", message="no reason was recorded")
            yield _of_task(
                error,
                task,
                f"{_name(task)} failed {task.failures} times, as often as max_attempts allows; "
                f"the last time: {error.message}",
            )


def _of_task(error: ErrorRecord, task: TaskRecord, message: str) -> ErrorRecord:
    return ErrorRecord(
        kind=error.kind,
        message=message,
        scope=error.scope,
        subject=error.subject or f"{task.stage}/{task.index}",
    )


def _name(task: TaskRecord) -> str:
    return f"stage {task.stage}, task {task.index}"


def _passed_deadline(s: Snapshot, now: float) -> Iterator[ErrorRecord]:
    deadline = s.query.deadline_at
    if deadline is not None and now > deadline:
        allowed = deadline - s.query.created_at
        yield ErrorRecord(
            kind="Timeout",
            message=f"the query did not end within its timeout of {allowed:g} s; "
            "raise timeout_seconds, or workers, or narrow the query",
            scope="query",
            subject="timeout_seconds",
        )


def _reruns_used_up(s: Snapshot) -> Iterator[ErrorRecord]:
    for reporter in (*s.with_status(TaskStatus.PENDING), *s.with_status(TaskStatus.RUNNING)):
        named = named_producer(reporter.error)
        if named is not None and named[2] >= s.limits.max_reruns:
            yield ErrorRecord(
                kind="ExchangeLost",
                message=f"the exchange object of stage {named[0]}, task {named[1]} was lost again "
                f"after {named[2]} attempts; something deletes or damages objects",
                scope="query",
                subject=f"{named[0]}/{named[1]}",
            )


def _workers_not_starting(s: Snapshot) -> Iterator[ErrorRecord]:
    lost = sum(w.status is WorkerStatus.LOST for w in s.unstarted)
    if lost >= s.limits.launch_losses:
        yield ErrorRecord(
            kind="WorkersNotStarting",
            message=f"{lost} workers in a row were launched and never registered; "
            "see the workers' logs for what stops them",
            scope="query",
        )


def _workers_dying(s: Snapshot) -> Iterator[ErrorRecord]:
    streak = 0
    for worker in sorted(s.workers, key=lambda w: w.launched_at, reverse=True):
        if worker.status is not WorkerStatus.LOST:
            break
        streak += 1
    if streak >= s.limits.worker_losses:
        yield ErrorRecord(
            kind="WorkersDying",
            message=f"the last {streak} workers all died; see the workers' logs, and check memory",
            scope="query",
        )


def _no_capacity(s: Snapshot, now: float) -> Iterator[ErrorRecord]:
    refused = [w for w in s.unstarted if w.status is WorkerStatus.LEFT]
    if not refused or any(s.live()) or any(s.with_status(TaskStatus.RUNNING)):
        return
    waited = now - min(w.launched_at for w in refused)
    if waited > s.limits.capacity_seconds:
        yield ErrorRecord(
            kind="NoCapacity",
            message=f"no worker could be started for {waited:.0f} s: the platform has no capacity "
            "left (on AWS: the account's or function's concurrency limit)",
            scope="query",
        )
