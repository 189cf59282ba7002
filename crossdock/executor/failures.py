"""What can go wrong inside a fragment, sorted once: final, retryable, or about the input."""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence

import duckdb
import msgspec

from coordinator_state.records import ErrorRecord
from crossdock.errors import (
    CarrierError,
    CrossdockError,
    OutOfSpace,
    PlatformDenied,
    PlatformError,
    TableError,
)


class FragmentFailed(CrossdockError):
    """A fragment did not run to its end; ``record`` says why, for the task's item."""

    def __init__(self, record: ErrorRecord) -> None:
        super().__init__(f"{record.kind}: {record.message}")
        self.record = record


class FragmentInterrupted(CrossdockError):
    """The fragment was stopped from outside; nothing is wrong with it."""


class SourceChanged(TableError):
    """An input file is not the one the query was planned on; ``path`` names it."""

    def __init__(self, message: str, *, path: str, kind: str) -> None:
        super().__init__(message)
        self.path = path
        self.kind = kind


#: First match wins. Text decides only where DuckDB has one class for several causes.
_KINDS: tuple[tuple[type[BaseException], str, str, bool], ...] = (
    # class, text it must contain (lower case), kind, retryable
    (duckdb.OutOfMemoryException, "max_temp_directory_size", "OutOfSpace", True),
    (duckdb.OutOfMemoryException, "offload", "OutOfSpace", True),
    (duckdb.OutOfMemoryException, "", "OutOfMemory", True),
    (MemoryError, "", "OutOfMemory", True),
    (duckdb.IOException, "no space left", "OutOfSpace", True),
    (duckdb.IOException, "disk quota", "OutOfSpace", True),
    (duckdb.IOException, "no files found", "TableMissing", False),
    (duckdb.IOException, "no such file", "TableMissing", False),
    (duckdb.IOException, "", "InputError", True),
    (duckdb.InvalidInputException, "no magic bytes", "InvalidParquet", False),
    (duckdb.InvalidInputException, "parquet", "InvalidParquet", False),
    (duckdb.PermissionException, "", "Forbidden", False),
    (duckdb.HTTPException, "", "InputError", True),
    (duckdb.InternalException, "", "EngineInternal", True),
    (duckdb.FatalException, "", "EngineInternal", True),
    (duckdb.ConversionException, "", "InvalidInput", False),
    (duckdb.OutOfRangeException, "", "InvalidInput", False),
    (duckdb.InvalidInputException, "", "InvalidInput", False),
    (duckdb.NotSupportedError, "", "NotSupported", False),
    (duckdb.ProgrammingError, "", "InvalidSql", False),
    (duckdb.DataError, "", "InvalidInput", False),
    (duckdb.DatabaseError, "", "InvalidInput", False),
)


def classify(error: BaseException, inputs: Sequence[str] = ()) -> ErrorRecord:
    """The record of an error met while running a fragment over ``inputs`` (file names)."""
    text = str(error)
    if isinstance(error, SourceChanged):
        return ErrorRecord(kind=error.kind, message=text, scope="input", subject=error.path)
    if isinstance(error, PlatformError) and not isinstance(error, OutOfSpace):
        # Met while reading a table's files; a denial is the same for every attempt.
        return ErrorRecord(
            kind=type(error).__name__,
            message=text,
            retryable=not isinstance(error, PlatformDenied),
            scope="input",
            subject=next((name for name in inputs if name in text), ""),
        )
    if isinstance(error, CarrierError):
        return ErrorRecord(kind="CarrierError", message=text, scope="query")
    if isinstance(error, OutOfSpace) or (
        isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    ):
        return ErrorRecord(kind="OutOfSpace", message=text, retryable=True)
    if isinstance(error, OSError):
        return ErrorRecord(kind="InputError", message=text, retryable=True)
    if type(error) is duckdb.Error:
        # The Parquet reader's own exceptions have no class, and name no file.
        return ErrorRecord(kind="InvalidParquet", message=text, scope="task")
    for kind_of_error, marker, kind, retryable in _KINDS:
        if isinstance(error, kind_of_error) and marker in text.lower():
            subject = next((name for name in inputs if name in text), "")
            scope = "input" if subject else "task"
            return ErrorRecord(
                kind=kind, message=text, retryable=retryable, scope=scope, subject=subject
            )
    return ErrorRecord(kind="Internal", message=f"{type(error).__name__}: {text}", retryable=True)


#: Places and names in a fragment's own text, which the user never saw.
_PLACES = re.compile(r"\s+LINE \d+: .*| when casting from source column c\d+", re.DOTALL)


def without_places(record: ErrorRecord) -> ErrorRecord:
    """``record`` without the engine's excerpt of a fragment's text."""
    return msgspec.structs.replace(record, message=_PLACES.sub("", record.message))
