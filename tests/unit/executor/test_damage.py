"""Errors of the Parquet reader that name no file get one."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coordinator_state.records import ErrorRecord
from crossdock.executor.damage import with_damaged_file
from crossdock.executor.failures import classify, without_places
from crossdock.executor.inputs import OpenSlice, Reading
from crossdock.planner.plan import FileSlice


@pytest.fixture
def readings(tmp_path: Path) -> list[Reading]:
    """Of a whole file, and of one whose first pages have no header."""
    whole, torn = tmp_path / "whole.parquet", tmp_path / "torn.parquet"
    pq.write_table(pa.table({"a": ["x", "y"], "b": [1, 2]}), whole)
    data = whole.read_bytes()
    torn.write_bytes(data[:4] + b"\xff" * 40 + data[44:])
    return [reading(whole, "a", "b", "absent"), reading(torn, "a")]


def reading(path: Path, *columns: str) -> Reading:
    slice = FileSlice(path=f"s3://b/{path.name}", size=path.stat().st_size, version="")
    return Reading(OpenSlice(slice, path), columns)


def test_the_damaged_file_is_found_among_whole_ones(
    readings: list[Reading],
) -> None:
    torn = readings[1].opened.path
    with pytest.raises(duckdb.Error) as caught:
        duckdb.sql(f"SELECT hash(a) FROM '{torn}'").fetchall()
    record = classify(caught.value, [each.name for each in readings])
    assert (record.kind, record.subject, record.retryable) == ("InvalidParquet", "", False)
    named = with_damaged_file(record, readings)
    assert (named.subject, named.scope) == ("s3://b/torn.parquet", "input")
    assert named.message.startswith("s3://b/torn.parquet is damaged: ")
    assert named.message.isprintable()


@pytest.mark.parametrize(
    "record",
    [
        ErrorRecord(kind="InvalidInput", message="no ann"),
        ErrorRecord(kind="InvalidParquet", message="it says so", subject="known"),
    ],
)
def test_other_errors_are_left_alone(record: ErrorRecord, readings: list[Reading]) -> None:
    assert with_damaged_file(record, readings) == record


def test_text_of_fragments_does_not_reach_the_user() -> None:
    with pytest.raises(duckdb.Error) as caught:
        duckdb.sql("SELECT CAST(c0 AS INTEGER) FROM (VALUES ('ann')) AS t(c0)").fetchall()
    assert "LINE 1" in str(caught.value)
    message = without_places(classify(caught.value)).message
    assert message == "Conversion Error: Could not convert string 'ann' to INT32"
