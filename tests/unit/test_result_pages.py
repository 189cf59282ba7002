"""A page of a result fetches the row groups it lies in, once, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from crossdock.errors import ObjectNotFound
from crossdock.executor import remote
from crossdock.planner.plan import ResultColumn
from crossdock.platform.local.objects import FolderObjects
from crossdock.results import fetched
from crossdock.results.reader import Answer, Page, ResultReader

ROWS, GROUP = 40_000, 4_096
KEY = "result/00/q/0/0-1"


class Counting:
    """Objects, and the bytes read of them."""

    def __init__(self, objects: FolderObjects) -> None:
        self._objects = objects
        self.read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    def get(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes:
        data = self._objects.get(key, offset=offset, length=length)
        self.read += len(data)
        return data

    def fetch(self, key: str, target: Path) -> None:
        self._objects.fetch(key, target)
        self.read += target.stat().st_size


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counting:
    monkeypatch.setattr(remote, "WHOLE_BYTES", 0)
    monkeypatch.setattr("crossdock.remote_files._TAIL_BYTES", 16 * 1024)
    written = tmp_path / "part.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT range AS c0, md5(range::VARCHAR) AS c1 FROM range(?)) TO "
            f"'{written}' (FORMAT parquet, ROW_GROUP_SIZE {GROUP}, COMPRESSION zstd)",
            [ROWS],
        )
    local = FolderObjects(tmp_path / "objects")
    local.put_files(KEY, [written])
    return Counting(local)


@pytest.fixture
def reader(objects: Counting, tmp_path: Path) -> ResultReader:
    return ResultReader(objects, tmp_path / "scratch", memory=300_000_000)


ANSWER = Answer(
    keys=[KEY],
    columns=[ResultColumn(name="n", type="BIGINT"), ResultColumn(name="text", type="VARCHAR")],
)


def numbers(page: Page) -> list[int]:
    return [msgspec.json.decode(line)[0] for line in page.lines]


def page(reader: ResultReader, row: int, limit: int = 100) -> Page:
    return reader.page(ANSWER, (0, row), limit=limit, max_bytes=10_000_000)


@pytest.mark.parametrize("row", [0, GROUP - 50, 17_000, ROWS - 100])
def test_a_page_reads_its_row_groups_only(
    reader: ResultReader, objects: Counting, row: int
) -> None:
    size = objects.head(KEY).size
    assert numbers(page(reader, row)) == list(range(row, row + 100))
    assert 0 < objects.read < size / 3


def test_following_pages_of_a_row_group_read_nothing_more(
    reader: ResultReader, objects: Counting
) -> None:
    page(reader, 0)
    before = objects.read
    assert numbers(page(reader, 2_000)) == list(range(2_000, 2_100))
    assert objects.read == before


def test_pages_of_any_size_together_are_the_result(reader: ResultReader) -> None:
    for limit in (7_000, 10_000):
        found: list[int] = []
        place = (0, 0)
        while True:
            got = reader.page(ANSWER, place, limit=limit, max_bytes=10_000_000)
            found += numbers(got)
            if got.next is None:
                break
            place = got.next
        assert found == list(range(ROWS))


def test_a_file_of_everything_serves_pages_too(
    reader: ResultReader, objects: Counting, tmp_path: Path
) -> None:
    reader.export(ANSWER, 0, "csv", tmp_path / "out.csv")
    before = objects.read
    assert numbers(page(reader, 30_000)) == list(range(30_000, 30_100))
    assert objects.read == before


def test_what_is_kept_on_disk_is_bounded(
    reader: ResultReader, objects: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetched, "CACHE_BYTES", 400_000)
    for row in range(0, ROWS, GROUP):
        assert numbers(page(reader, row)) == list(range(row, min(row + 100, ROWS)))
    kept = sum(path.stat().st_blocks * 512 for path in (tmp_path / "scratch").rglob("*.parquet"))
    assert 0 < kept < objects.head(KEY).size / 2


def test_a_result_that_was_removed_is_missed(reader: ResultReader, objects: Counting) -> None:
    objects.delete([KEY])
    with pytest.raises(ObjectNotFound):
        page(reader, 0)
