"""What to do about an engine that ran out of memory, in the user's terms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from coordinator_state.records import ErrorRecord

_MIB = 1024 * 1024
#: Footers looked at: the advice must not take longer than the query.
_MOST_FILES = 50


def with_memory_advice(
    record: ErrorRecord, files: Sequence[tuple[Path, Sequence[str]]], memory_bytes: int
) -> ErrorRecord:
    """``record`` with the setting to raise and the largest row group, if it is about memory.

    Args:
        record: of an error inside a fragment or statement.
        files: each Parquet file that was read, with the columns wanted of it.
        memory_bytes: all that the engine's process may use.
    """
    if record.kind != "OutOfMemory":
        return record
    # The engine's own advice names settings that only we can set.
    reason = record.message.split("\n")[0].rstrip(". ")
    advice = f"{reason}; raise worker_memory (now {memory_bytes // _MIB} MiB)"
    largest = max(_row_groups(files[:_MOST_FILES]), default=None)
    if largest is not None and largest[0] >= _MIB:
        size, rows, path = largest
        advice += (
            f", or write {path} with smaller row groups: its largest has {rows} rows, "
            f"{size // _MIB} MiB in the columns read"
        )
    return msgspec.structs.replace(record, message=advice)


def _row_groups(
    files: Iterable[tuple[Path, Sequence[str]]],
) -> Iterable[tuple[int, int, str]]:
    """Decoded bytes of the columns wanted, rows, file; of every row group."""
    for path, columns in files:
        try:
            metadata = pq.read_metadata(path)
        except (OSError, pa.ArrowException):  # then the error to be reported is not about it
            continue
        wanted = set(columns)
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            chunks = map(group.column, range(group.num_columns))
            size = sum(
                chunk.total_uncompressed_size
                for chunk in chunks
                if chunk.path_in_schema in wanted or chunk.path_in_schema.split(".")[0] in wanted
            )
            yield size, group.num_rows, str(path)
