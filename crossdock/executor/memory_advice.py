"""What to do about an engine that ran out of memory or disk, in the user's terms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import duckdb
import msgspec

from coordinator_state.records import ErrorRecord
from crossdock.executor.inputs import Reading
from crossdock.remedies import LOCAL, Remedies

_MIB = 1024 * 1024
#: Footers looked at: the advice must not take longer than the query.
_MOST_FILES = 50


def with_advice(
    record: ErrorRecord,
    readings: Sequence[Reading],
    memory_bytes: int,
    remedies: Remedies = LOCAL,
) -> ErrorRecord:
    """``record`` with what to do, if it is about memory or disk.

    About memory it tells the largest row group too.

    Args:
        record: of an error inside a fragment or statement.
        readings: what was read of each Parquet file.
        memory_bytes: all that the engine's process may use.
        remedies: the settings to raise.
    """
    # The engine's own advice names settings that only we can set.
    reason = record.message.split("\n")[0].rstrip(". ")
    if record.kind == "OutOfSpace":
        return msgspec.structs.replace(record, message=f"{reason}; {remedies.space}")
    if record.kind != "OutOfMemory":
        return record
    advice = f"{reason}; raise {remedies.memory} (now {memory_bytes // _MIB} MiB)"
    largest = max(_row_groups(readings[:_MOST_FILES]), default=None)
    if largest is not None and largest[0] >= _MIB:
        size, rows, path = largest
        advice += (
            f", or write {path} with smaller row groups: its largest has {rows} rows, "
            f"{size // _MIB} MiB in the columns read"
        )
    return msgspec.structs.replace(record, message=advice)


#: Of every row group the decoded bytes of the columns wanted, nested ones whole. DuckDB reads the
#: footer, because workers have no other reader.
_ROW_GROUPS = """
SELECT sum(total_uncompressed_size)::BIGINT, any_value(row_group_num_rows)::BIGINT
FROM parquet_metadata(?)
WHERE list_contains(?, path_in_schema) OR list_contains(?, split_part(path_in_schema, ', ', 1))
GROUP BY row_group_id
"""


def _row_groups(readings: Iterable[Reading]) -> Iterable[tuple[int, int, str]]:
    """Decoded bytes of the columns wanted, rows, file; of every row group."""
    with duckdb.connect() as reader:
        for reading in readings:
            path, wanted = str(reading.opened.path), list(reading.columns)
            try:
                found = reader.execute(_ROW_GROUPS, [path, wanted, wanted]).fetchall()
            except duckdb.Error:  # then the error to be reported is not about it
                continue
            yield from ((size, rows, reading.name) for size, rows in found)
