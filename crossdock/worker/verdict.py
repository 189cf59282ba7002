"""What an attempt's error means for its task: the one place that maps exceptions to records."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from coordinator_state.errors import StateError, StoreUnavailable
from coordinator_state.records import ErrorRecord, TaskRecord
from crossdock import errors
from crossdock.error_kinds import ERROR_KINDS, Fate, needs_fresh_process, retryable
from crossdock.executor.failures import FragmentFailed, classify
from crossdock.scheduler.subjects import EXCHANGE_LOST, producer_subject
from crossdock.worker.heartbeat import TimeUp
from crossdock.worker.starvation import HandBack


@dataclass(frozen=True, slots=True)
class Verdict:
    fate: Fate
    error: ErrorRecord
    leave: bool = False  # this run is to claim no other task
    unfit: bool = False  # nor is any other run of this process
    offer: bool = True  # of a handback: at once; else the coordinator offers it when it can run


def judge(error: Exception, task: TaskRecord) -> Verdict:
    """The verdict on an exception raised by an attempt of ``task``."""
    record = _record_of(error, task)
    fate = _fate(error, record)
    fresh = needs_fresh_process(record.kind)
    return Verdict(
        fate,
        record,
        leave=fresh or isinstance(error, TimeUp),
        unfit=fresh,
        offer=not isinstance(error, HandBack),
    )


def _fate(error: Exception, record: ErrorRecord) -> Fate:
    """What the table says of the kind, but for two kinds that have two fates."""
    if isinstance(error, TimeUp) and error.full:
        return Fate.RETRY  # another worker's life is no longer
    if isinstance(error, errors.ExchangeError) and error.stage < 0:
        return Fate.RETRY  # it names no producer to run again
    known = ERROR_KINDS.get(record.kind)
    return known.fate if known else Fate.RETRY


def _record_of(error: Exception, task: TaskRecord) -> ErrorRecord:
    match error:
        case FragmentFailed():
            return error.record
        case errors.ExchangeError(stage=stage, index=index, attempt=attempt) if stage >= 0:
            subject = producer_subject(stage, index, attempt)
            return _record(EXCHANGE_LOST, error, subject, scope="input")
        case HandBack() | TimeUp() | StoreUnavailable():
            kind = {HandBack: "InputStarved", TimeUp: "TimeLimit"}.get(type(error), "Unavailable")
        case errors.OutOfSpace():
            kind = "OutOfSpace"
        case StateError() | errors.PlatformError() | errors.InputError() | errors.ExchangeError():
            kind = type(error).__name__
        case _:
            # Whatever else it is: another process may succeed, and max_attempts bounds it.
            found = classify(error)
            return msgspec.structs.replace(found, message=found.message or type(error).__name__)
    scope = "input" if isinstance(error, errors.PlatformDenied | errors.InputError) else "task"
    return _record(kind, error, f"{task.stage}/{task.index}", scope=scope)


def _record(kind: str, error: Exception, subject: str, *, scope: str) -> ErrorRecord:
    return ErrorRecord(
        kind=kind,
        message=str(error) or type(error).__name__,
        retryable=retryable(kind),
        scope=scope,
        subject=subject,
    )
