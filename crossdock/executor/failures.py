"""What can go wrong inside a fragment, sorted once into the kinds of ``error_kinds``."""

from __future__ import annotations

import re
from collections.abc import Sequence

import duckdb
import msgspec

from coordinator_state.records import ErrorRecord
from crossdock.error_kinds import retryable
from crossdock.errors import (
    FULL_DISK,
    CarrierError,
    CrossdockError,
    OutOfSpace,
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
_KINDS: tuple[tuple[type[BaseException], str, str], ...] = (
    # class, text it must contain (lower case), kind
    (duckdb.OutOfMemoryException, "max_temp_directory_size", "OutOfSpace"),
    (duckdb.OutOfMemoryException, "offload", "OutOfSpace"),
    (duckdb.OutOfMemoryException, "", "OutOfMemory"),
    (MemoryError, "", "OutOfMemory"),
    (duckdb.IOException, "no space left", "OutOfSpace"),
    (duckdb.IOException, "disk quota", "OutOfSpace"),
    (duckdb.IOException, "file too large", "OutOfSpace"),
    (duckdb.IOException, "no files found", "TableMissing"),
    (duckdb.IOException, "no such file", "TableMissing"),
    (duckdb.IOException, "", "InputError"),
    (duckdb.InvalidInputException, "no magic bytes", "InvalidParquet"),
    (duckdb.InvalidInputException, "parquet", "InvalidParquet"),
    (duckdb.PermissionException, "", "Forbidden"),
    (duckdb.HTTPException, "", "InputError"),
    (duckdb.InternalException, "", "EngineInternal"),
    (duckdb.FatalException, "", "EngineInternal"),
    (duckdb.ConversionException, "", "InvalidInput"),
    (duckdb.OutOfRangeException, "", "InvalidInput"),
    (duckdb.InvalidInputException, "", "InvalidInput"),
    (duckdb.NotSupportedError, "", "NotSupported"),
    (duckdb.ProgrammingError, "", "InvalidSql"),
    (duckdb.DataError, "", "InvalidInput"),
    (duckdb.DatabaseError, "", "InvalidInput"),
)


def classify(error: BaseException, inputs: Sequence[str] = ()) -> ErrorRecord:
    """The record of an error met while running a fragment over ``inputs`` (file names)."""
    text = str(error)
    if isinstance(error, SourceChanged):
        return _record(error.kind, text, scope="input", subject=error.path)
    if isinstance(error, PlatformError) and not isinstance(error, OutOfSpace):
        # Met while reading a table's files.
        subject = next((name for name in inputs if name in text), "")
        return _record(type(error).__name__, text, scope="input", subject=subject)
    if isinstance(error, CarrierError):
        return _record("CarrierError", text, scope="query")
    if isinstance(error, OutOfSpace) or (isinstance(error, OSError) and error.errno in FULL_DISK):
        return _record("OutOfSpace", text)
    if isinstance(error, OSError):
        return _record("InputError", text)
    if type(error) is duckdb.Error:
        # The Parquet reader's own exceptions have no class, and name no file.
        return _record("InvalidParquet", text)
    for kind_of_error, marker, kind in _KINDS:
        if isinstance(error, kind_of_error) and marker in text.lower():
            subject = next((name for name in inputs if name in text), "")
            return _record(kind, text, scope="input" if subject else "task", subject=subject)
    return _record("Internal", f"{type(error).__name__}: {text}")


def _record(kind: str, message: str, *, scope: str = "task", subject: str = "") -> ErrorRecord:
    return ErrorRecord(
        kind=kind, message=message, retryable=retryable(kind), scope=scope, subject=subject
    )


#: Places and names in a fragment's own text, which the user never saw.
_PLACES = re.compile(r"\s+LINE \d+: .*| when casting from source column c\d+", re.DOTALL)


def without_places(record: ErrorRecord) -> ErrorRecord:
    """``record`` without the engine's excerpt of a fragment's text."""
    return msgspec.structs.replace(record, message=_PLACES.sub("", record.message))
