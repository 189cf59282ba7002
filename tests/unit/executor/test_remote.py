"""Sparse copies of remote files: enough of each to be read, and no more."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossdock.executor import remote
from crossdock.executor.failures import SourceChanged
from crossdock.executor.remote import RemoteSources, between
from crossdock.executor.sources import Wanted
from crossdock.planner.plan import FileSlice
from crossdock.remote_files import Range
from tests.remote_folder import FolderFiles

URL = "s3://bucket/table.parquet"
ROWS, GROUP = 40_000, 5_000


@pytest.fixture(autouse=True)
def small_files_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "WHOLE_BYTES", 0)


@pytest.fixture
def files(tmp_path: Path) -> FolderFiles:
    root = tmp_path / "store"
    (root / "bucket").mkdir(parents=True)
    return FolderFiles(root)


def table() -> pa.Table:
    return pa.table(
        {
            "k": pa.array(range(ROWS), pa.int64()),
            "text": pa.array([f"value {n * 7919 % ROWS}" for n in range(ROWS)]),
            "s": pa.array([{"a": n, "b": [str(n), "x"]} for n in range(ROWS)]),
            "dotted.name": pa.array([n % 13 for n in range(ROWS)]),
            "unread": pa.array([f"{n * 104729 % 1_000_003:>40}" for n in range(ROWS)]),
        }
    )


def write_arrow(path: Path) -> None:
    pq.write_table(
        table(),
        path,
        row_group_size=GROUP,
        write_page_index=True,
        bloom_filter_options={
            "k": {"ndv": GROUP, "fpp": 0.01},
            "text": {"ndv": GROUP, "fpp": 0.01},
        },
    )


def write_duckdb(path: Path) -> None:
    source = table()  # found by its name
    with duckdb.connect() as connection:
        connection.register("source", source)
        connection.execute(
            f"COPY source TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE {GROUP}, COMPRESSION zstd)"
        )


WRITERS = {"arrow with indexes and bloom filters": write_arrow, "duckdb": write_duckdb}


@pytest.fixture(params=list(WRITERS))
def path(request: pytest.FixtureRequest, files: FolderFiles) -> Path:
    written = files.root / "bucket" / "table.parquet"
    WRITERS[request.param](written)
    return written


def slice_of(files: FolderFiles, first: int = 0, last: int = -1) -> FileSlice:
    found = files.look(URL)
    return FileSlice(path=URL, size=found.size, version=found.version, first=first, last=last)


def ask(sql: str, path: Path) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        return connection.execute(sql.replace("FILE", f"read_parquet('{path}')")).fetchall()


@pytest.mark.parametrize(
    ("columns", "sql"),
    [
        (("k",), "SELECT sum(k), count(*) FROM FILE"),
        (("k", "text"), "SELECT k, text FROM FILE WHERE text = 'value 77'"),
        (("k",), "SELECT k FROM FILE WHERE k = 12345"),
        (("s",), "SELECT sum(s.a), max(s.b[1]) FROM FILE"),
        (("S", "dotted.name"), 'SELECT "dotted.name", sum(s.a) FROM FILE GROUP BY 1 ORDER BY 1'),
        ((), "SELECT count(*) FROM FILE"),
    ],
)
def test_a_sparse_copy_answers_as_the_whole_file(
    files: FolderFiles, path: Path, tmp_path: Path, columns: tuple[str, ...], sql: str
) -> None:
    copy = RemoteSources(files).open(slice_of(files), columns, tmp_path)
    assert ask(sql, copy) == ask(sql, path)
    assert files.read_bytes < path.stat().st_size


def test_of_a_row_range_only_its_row_groups_are_fetched(
    files: FolderFiles, path: Path, tmp_path: Path
) -> None:
    sources = RemoteSources(files)
    wanted = slice_of(files, first=GROUP + 10, last=2 * GROUP + 9)
    copy = sources.open(wanted, ("k",), tmp_path)
    sql = (
        "SELECT count(*), min(k), max(k) FROM read_parquet('FILE', file_row_number = true) "
        f"WHERE file_row_number BETWEEN {wanted.first} AND {wanted.last}"
    ).replace("FILE", str(copy))
    with duckdb.connect() as connection:
        assert connection.execute(sql).fetchall() == [(GROUP, GROUP + 10, 2 * GROUP + 9)]
    read = []
    for slice in (slice_of(files), wanted, slice_of(files, ROWS, ROWS)):
        before = files.read_bytes
        sources.open(slice, ("k",), tmp_path)
        read.append(files.read_bytes - before)
    whole, part, beside = read
    # Two or three of eight row groups, beside what is no column chunk.
    assert (whole - beside) / 5 < part - beside < (whole - beside) / 2


def test_a_footer_is_read_once_for_all_slices_of_a_file(
    files: FolderFiles, path: Path, tmp_path: Path
) -> None:
    sources = RemoteSources(files)
    sources.open(slice_of(files, 0, GROUP - 1), ("k",), tmp_path)
    at_the_end = [each for each in files.ranges if each.end == path.stat().st_size]
    sources.open(slice_of(files, GROUP, 2 * GROUP - 1), ("k",), tmp_path)
    again = [each for each in files.ranges if each.end == path.stat().st_size]
    assert (len(at_the_end), len(again)) == (1, 1)


def test_a_small_file_is_one_request(
    files: FolderFiles, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "WHOLE_BYTES", path.stat().st_size)
    copy = RemoteSources(files).open(slice_of(files), ("k",), tmp_path)
    assert copy.read_bytes() == path.read_bytes()
    assert len(files.ranges) == 1


@pytest.mark.parametrize("change", ["same size", "larger", "deleted", "between footer and data"])
def test_a_file_that_changed_since_planning_is_one_clear_error(
    files: FolderFiles, path: Path, tmp_path: Path, change: str
) -> None:
    sources = RemoteSources(files)
    planned = slice_of(files)
    data = path.read_bytes()
    kind = "TableChanged"
    if change == "same size":
        path.write_bytes(data[:-1] + b"X")
    elif change == "larger":
        path.write_bytes(data + data)
    elif change == "deleted":
        path.unlink()
        kind = "TableMissing"
    else:
        sources.open(planned, ("k",), tmp_path)  # keeps the footer
        path.write_bytes(data)
    with pytest.raises(SourceChanged, match=r"s3://bucket/table\.parquet") as caught:
        sources.open(planned, ("text",), tmp_path)
    assert caught.value.kind == kind


def test_many_files_are_opened_at_once_and_in_order(
    files: FolderFiles, path: Path, tmp_path: Path
) -> None:
    firsts = range(0, ROWS, GROUP)
    wanted = [Wanted(slice_of(files, first, first + GROUP - 1), ("k",)) for first in firsts]
    copies = RemoteSources(files).open_all(wanted, tmp_path)
    found = [
        ask(f"SELECT min(k) FROM FILE WHERE k BETWEEN {first} AND {first + GROUP - 1}", copy)
        for first, copy in zip(firsts, copies, strict=True)
    ]
    assert found == [[(first,)] for first in firsts]
    assert len(set(copies)) == len(copies)


def test_local_files_are_read_where_they_are(
    files: FolderFiles, path: Path, tmp_path: Path
) -> None:
    status = path.stat()
    slice = FileSlice(path=str(path), size=status.st_size, version=str(status.st_mtime_ns))
    assert RemoteSources(files).open(slice, ("k",), tmp_path) == path
    assert files.ranges == []


def test_what_lies_between_holes() -> None:
    holes = [Range(40, 60), Range(4, 10), Range(50, 70), Range(70, 71)]
    assert between(holes, 100) == [Range(0, 4), Range(10, 40), Range(71, 100)]
    assert between([], 5) == [Range(0, 5)]
    assert between([Range(0, 5)], 5) == []
