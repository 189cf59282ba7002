"""Which file is damaged, when the engine only says how."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import msgspec

from coordinator_state.records import ErrorRecord
from crossdock.executor.types import quote


def with_damaged_file(
    record: ErrorRecord, names: Sequence[str], files: Sequence[tuple[Path, Sequence[str]]]
) -> ErrorRecord:
    """``record`` with the damaged file named, if it is about one and does not name it.

    Reads ``files`` again, one by one, up to the first that cannot be read.

    Args:
        record: of an error inside a fragment or statement.
        names: of the files, as the user knows them.
        files: where each is read from, with the columns wanted of it.
    """
    if record.kind != "InvalidParquet" or record.subject:
        return record
    for name, (path, columns) in zip(names, files, strict=False):
        if not _readable(path, columns):
            reason = "".join(c for c in record.message if c.isprintable()).rstrip(": ")
            message = f"{name} is damaged: {reason}; write it again"
            return msgspec.structs.replace(record, message=message, scope="input", subject=name)
    return record


def _readable(path: Path, columns: Sequence[str]) -> bool:
    """Whether every value of ``columns`` can be decoded; true for a column that is not there."""
    with duckdb.connect() as reader:
        for column in columns:
            try:
                reader.execute(
                    f"SELECT bit_xor(hash({quote(column)})) FROM read_parquet(?)", [str(path)]
                )
            except duckdb.BinderException:
                continue
            except duckdb.Error:
                return False
    return True
