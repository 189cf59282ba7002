"""Every kind of error that a task or a query can end with, and what becomes of a task that met it.

The one table: whether an attempt's error is tried again, whether the process that met it is used
again, and what a reader of the error should do. ``docs/errors.md`` is compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Fate(StrEnum):
    """What becomes of the task whose attempt met an error."""

    DROP = "drop"  # the attempt is void; somebody else owns the task, or the query has ended
    HAND_BACK = "hand back"  # another attempt, no failure; counted apart, and bounded
    REQUEUE = "requeue"  # another attempt, no failure burned
    RETRY = "retry"  # another attempt, one failure burned; ``max_attempts`` of them fail the query
    FAIL = "fail"  # no retry can mend it: the query fails at once
    END = "end"  # not about one attempt: the query ends


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """``fresh``: the process is not used again, for memory may be torn or its disk full."""

    fate: Fate
    about: str
    fresh: bool = False


_DROP, _RETRY, _FAIL, _END = Fate.DROP, Fate.RETRY, Fate.FAIL, Fate.END

ERROR_KINDS: Mapping[str, ErrorKind] = MappingProxyType(
    {
        # the attempt is void
        "StaleAttempt": ErrorKind(_DROP, "another attempt or claimant has the task"),
        "IllegalTransition": ErrorKind(_DROP, "the item has moved on"),
        "Refused": ErrorKind(_DROP, "the item has moved on"),
        "QueryEnded": ErrorKind(_DROP, "the query has ended"),
        "NotFound": ErrorKind(_DROP, "the query was closed and purged"),
        "TableMoved": ErrorKind(_DROP, "another query changed the table first"),
        "QueueNotFound": ErrorKind(_DROP, "a queue is dropped only when its query has ended"),
        # it makes way
        "InputStarved": ErrorKind(Fate.HAND_BACK, "it waits, and a task upstream has no worker"),
        "TimeLimit": ErrorKind(
            Fate.HAND_BACK, "the worker's time ended; a retry if the attempt had a whole life of it"
        ),
        # its input is lost
        "ExchangeLost": ErrorKind(
            Fate.REQUEUE, "a producer's object is missing or damaged: the producer runs again"
        ),
        "ExchangeCorrupt": ErrorKind(_RETRY, "the attempt's own output could not be written"),
        # another attempt may do better
        "OutOfMemory": ErrorKind(_RETRY, "raise worker memory, or partitions", fresh=True),
        "OutOfSpace": ErrorKind(_RETRY, "make room on the disk, or give more of it", fresh=True),
        "EngineInternal": ErrorKind(_RETRY, "a defect of the engine below", fresh=True),
        "Internal": ErrorKind(_RETRY, "a defect; the workers' log has more", fresh=True),
        "InputError": ErrorKind(_RETRY, "a file or service did not answer as it should"),
        "PlatformError": ErrorKind(_RETRY, "a service answered something unexpected"),
        "PlatformUnavailable": ErrorKind(_RETRY, "throttled or timed out, beyond what is repeated"),
        "ObjectNotFound": ErrorKind(_RETRY, "an object of the query is not there"),
        "ObjectExists": ErrorKind(_RETRY, "something else lies under the attempt's own key"),
        "ObjectChanged": ErrorKind(_RETRY, "an object was written again while it was read"),
        "Unavailable": ErrorKind(_RETRY, "the state store did not answer"),
        "StateError": ErrorKind(_RETRY, "the state store refused a request"),
        "AlreadyExists": ErrorKind(_RETRY, "an item of that name is there already"),
        "WorkerLost": ErrorKind(_RETRY, "the worker ended or fell silent outside a fragment"),
        # no attempt will
        "InvalidInput": ErrorKind(_FAIL, "a value cannot be converted or computed: mend it"),
        "InvalidSql": ErrorKind(_FAIL, "the engine refuses the statement"),
        "InvalidParquet": ErrorKind(_FAIL, "a file is damaged or no Parquet: write it again"),
        "NotSupported": ErrorKind(_FAIL, "the engine does not offer it"),
        "CarrierError": ErrorKind(_FAIL, "no exchange carries the type: cast the column"),
        "Forbidden": ErrorKind(_FAIL, "the statement reaches for what it may not"),
        "TableMissing": ErrorKind(_FAIL, "a file was deleted while the query ran"),
        "TableChanged": ErrorKind(_FAIL, "a file was written again: run the query again"),
        "TableError": ErrorKind(_FAIL, "a table cannot be read"),
        "SqlError": ErrorKind(_FAIL, "the statement is refused"),
        "SettingError": ErrorKind(_FAIL, "a setting is wrong"),
        "StoreDamaged": ErrorKind(_FAIL, "the state file is damaged: remove it"),
        "PlatformDenied": ErrorKind(_FAIL, "a permission is missing: give it"),
        "TaskFailed": ErrorKind(_FAIL, "no reason was recorded"),
        # of the query
        "Timeout": ErrorKind(_END, "the deadline passed: raise timeout_seconds"),
        "Cancelled": ErrorKind(_END, "asked for"),
        "Orphaned": ErrorKind(_END, "the client that ran it died"),
        "WorkersNotStarting": ErrorKind(_END, "launches in a row never registered"),
        "WorkersDying": ErrorKind(_END, "workers in a row died: look at memory"),
        "NoCapacity": ErrorKind(_END, "no worker could be started for two minutes"),
        "WriteRefused": ErrorKind(_END, "what the statement writes to is not as it was"),
        "CannotLaunch": ErrorKind(_END, "workers may not be started, or are not there"),
    }
)


def retryable(kind: str) -> bool:
    """Whether another attempt may do better; an unknown kind is a defect, and may."""
    known = ERROR_KINDS.get(kind)
    return known is None or known.fate not in (Fate.FAIL, Fate.END)


def needs_fresh_process(kind: str) -> bool:
    """Whether the process that met it should run no other task."""
    known = ERROR_KINDS.get(kind)
    return known is not None and known.fresh
