"""What an attempt's error means for its task: the one place that maps exceptions to records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import msgspec

from coordinator_state.errors import NotFound, Refused, StateError, StoreUnavailable
from coordinator_state.records import ErrorRecord, TaskRecord
from crossdock import errors
from crossdock.executor.failures import FragmentFailed, classify
from crossdock.scheduler.subjects import EXCHANGE_LOST, producer_subject
from crossdock.worker.heartbeat import TimeUp
from crossdock.worker.starvation import HandBack


class Fate(Enum):
    """What becomes of the task."""

    DROP = "drop"  # the attempt is void; somebody else owns the task, or the query has ended
    HAND_BACK = "hand back"  # no failure
    REQUEUE = "requeue"  # another attempt, no failure burned
    RETRY = "retry"  # another attempt, one failure burned
    FAIL = "fail"  # no retry can mend it


@dataclass(frozen=True, slots=True)
class Verdict:
    fate: Fate
    error: ErrorRecord
    leave: bool = False  # this run is to claim no other task
    unfit: bool = False  # nor is any other run of this process
    offer: bool = True  # of a handback: at once; else the coordinator offers it when it can run


#: After these a fresh process is safer: memory may be torn or the disk full of what was left.
_UNFIT = frozenset({"OutOfMemory", "OutOfSpace", "EngineInternal", "Internal"})


def judge(error: Exception, task: TaskRecord) -> Verdict:
    """The verdict on an exception raised by an attempt of ``task``."""
    if isinstance(error, Refused | NotFound | errors.QueueNotFound):
        # A queue is dropped only once its query has ended.
        return Verdict(Fate.DROP, _record(type(error).__name__, error, task))
    if isinstance(error, HandBack):
        record = _record("InputStarved", error, task, retryable=True)
        return Verdict(Fate.HAND_BACK, record, offer=False)
    if isinstance(error, TimeUp):
        fate = Fate.RETRY if error.full else Fate.HAND_BACK
        return Verdict(fate, _record("TimeLimit", error, task, retryable=True), leave=True)
    if isinstance(error, errors.ExchangeError):
        return _exchange(error, task)
    if isinstance(error, FragmentFailed):
        return _by_record(error.record)
    return _elsewhere(error, task)


def _exchange(error: errors.ExchangeError, task: TaskRecord) -> Verdict:
    """Lost or corrupt: the producer runs again. Unnamed: only this task may, at its own cost."""
    if error.stage < 0:
        return Verdict(Fate.RETRY, _record(type(error).__name__, error, task, retryable=True))
    record = ErrorRecord(
        kind=EXCHANGE_LOST,
        message=str(error),
        retryable=True,
        scope="input",
        subject=producer_subject(error.stage, error.index, error.attempt),
    )
    return Verdict(Fate.REQUEUE, record)


def _by_record(record: ErrorRecord) -> Verdict:
    fate = Fate.RETRY if record.retryable else Fate.FAIL
    unfit = record.kind in _UNFIT
    return Verdict(fate, record, leave=unfit, unfit=unfit)


def _elsewhere(error: Exception, task: TaskRecord) -> Verdict:
    """Errors met outside the fragment: the platform's, the store's, and bugs."""
    if isinstance(error, errors.OutOfSpace):
        return _by_record(_record("OutOfSpace", error, task, retryable=True))
    if isinstance(error, errors.PlatformDenied | errors.InputError):
        return Verdict(Fate.FAIL, _record(type(error).__name__, error, task, scope="input"))
    if isinstance(error, errors.PlatformError | StateError):
        kind = "Unavailable" if isinstance(error, StoreUnavailable) else type(error).__name__
        return Verdict(Fate.RETRY, _record(kind, error, task, retryable=True))
    # Whatever else it is: another process may succeed, and max_attempts bounds it.
    record = classify(error)
    if not record.message:
        record = msgspec.structs.replace(record, message=type(error).__name__)
    return _by_record(record)


def _record(
    kind: str, error: Exception, task: TaskRecord, *, retryable: bool = False, scope: str = "task"
) -> ErrorRecord:
    return ErrorRecord(
        kind=kind,
        message=str(error) or type(error).__name__,
        retryable=retryable,
        scope=scope,
        subject=f"{task.stage}/{task.index}",
    )
