"""Which file is damaged, when the engine only says how."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import msgspec

from coordinator_state.records import ErrorRecord
from crossdock.executor.inputs import Reading
from crossdock.executor.types import quote


def with_damaged_file(record: ErrorRecord, readings: Sequence[Reading]) -> ErrorRecord:
    """``record`` with the damaged file named, if it is about one and does not name it.

    Reads each again, one by one, up to the first that cannot be read.

    Args:
        record: of an error inside a fragment or statement.
        readings: what was read of each file.
    """
    if record.kind != "InvalidParquet" or record.subject:
        return record
    for reading in readings:
        if not _readable(reading):
            name = reading.name
            reason = "".join(c for c in record.message if c.isprintable()).rstrip(": ")
            message = f"{name} is damaged: {reason}; write it again"
            return msgspec.structs.replace(record, message=message, scope="input", subject=name)
    return record


def _readable(reading: Reading) -> bool:
    """Whether every value that was read can be decoded; true for a column that is not there."""
    with duckdb.connect() as reader:
        for column in reading.columns:
            try:
                reader.execute(
                    f"SELECT bit_xor(hash({quote(column)})) FROM "
                    f"read_parquet(?, file_row_number = true) WHERE {reading.rows}",
                    [str(reading.opened.path)],
                )
            except duckdb.BinderException:
                continue
            except duckdb.Error:
                return False
    return True
