"""Statements that write, on the AWS adapters: tables and files on S3, through the desk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from coordinator_state.ids import QueryId
from coordinator_state.records import QueryRecord, QueryStatus
from crossdock.api.desk import EngineDesk
from crossdock.api.messages import DropTable, PageRead, ReadPage, Refusal, Submit, Submitted
from crossdock.api.planning import House
from crossdock.aws.desk import make_desk, settings
from tests.deployment import Stand, standing

pytestmark = pytest.mark.emulator

SHUFFLED = {"single_task_bytes": 0, "partitions": 3}


@pytest.fixture(scope="module")
def stand(emulator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    with standing(emulator, tmp_path_factory.mktemp("scratch"), pool=5) as made:
        yield made


@pytest.fixture(scope="module")
def desk(stand: Stand) -> EngineDesk:
    house = House(settings=settings({}, workers=3, memory=1024**3))
    return make_desk(stand.front, house)


@pytest.fixture(scope="module")
def source(stand: Stand, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A prefix of three files."""
    folder = tmp_path_factory.mktemp("source")
    for number in range(3):
        path = folder / f"n-{number}.parquet"
        duckdb.sql(
            "COPY (SELECT i AS k, i % 7 AS g, i * 3 AS v FROM range(300) t(i) "
            f"WHERE i % 3 = {number}) TO '{path}'"
        )
        stand.clients.s3.put_object(
            Bucket=f"{stand.name}-data", Key=f"in/{path.name}", Body=path.read_bytes()
        )
    return f"s3://{stand.name}-data/in/"


class Asking:
    """A caller of the desk."""

    def __init__(self, stand: Stand, desk: EngineDesk) -> None:
        self._stand = stand
        self._desk = desk

    def end(self, sql: str, *, token: str = "") -> QueryRecord:
        """Submit and wait for the second end."""
        answer = self._desk.perform(
            Submit(sql=sql, owner="alice", client_token=token, settings=dict(SHUFFLED))
        )
        assert isinstance(answer, Submitted), answer
        query_id = QueryId(answer.query_id)
        self._stand.wait(query_id)
        return self._stand.wait(query_id, closed=True)

    def rows(self, sql: str) -> list[Any]:
        record = self.end(sql)
        assert record.status is QueryStatus.SUCCEEDED, record.error
        found: list[Any] = []
        place: tuple[int, int] | None = (0, 0)
        while place is not None:
            page = self._desk.perform(
                ReadPage(
                    query_id=record.query_id,
                    part=place[0],
                    row=place[1],
                    limit=1000,
                    max_bytes=1_000_000,
                )
            )
            assert isinstance(page, PageRead)
            found += msgspec.json.decode(page.rows)
            place = page.next
        return found

    def refusal(self, sql: str) -> str:
        answer = self._desk.perform(Submit(sql=sql, owner="alice", settings=dict(SHUFFLED)))
        assert isinstance(answer, Refusal)
        return answer.message

    def drop(self, name: str) -> None:
        self._desk.perform(DropTable(name=name))


@pytest.fixture
def ask(stand: Stand, desk: EngineDesk) -> Asking:
    return Asking(stand, desk)


def unfinished(stand: Stand) -> list[str]:
    found = stand.clients.s3.list_multipart_uploads(Bucket=f"{stand.name}-data")
    return [upload["Key"] for upload in found.get("Uploads", [])]


def below(stand: Stand, prefix: str, folder: Path) -> list[Path]:
    """The objects below a prefix, fetched under their own names."""
    listed = stand.clients.s3.list_objects_v2(Bucket=f"{stand.name}-data", Prefix=f"{prefix}/")
    found = []
    for item in listed.get("Contents", []):
        path = folder / item["Key"]
        path.parent.mkdir(parents=True, exist_ok=True)
        stand.clients.s3.download_file(f"{stand.name}-data", item["Key"], str(path))
        found.append(path)
    return found


def leftovers(stand: Stand) -> list[str]:
    objects = stand.front.medium.objects
    return [o.key for p in ("exchange/", "plan/", "staged/") for o in objects.list(p)]


def test_a_table_is_made_added_to_and_dropped(stand: Stand, ask: Asking, source: str) -> None:
    read = f"read_parquet('{source}*.parquet')"
    assert ask.rows(f"CREATE TABLE a AS SELECT g, sum(v) AS s FROM {read} GROUP BY g") == [[7]]
    assert ask.rows("INSERT INTO a VALUES (7, 1.6), ('8', 2)") == [[2]]
    expected = duckdb.sql(
        "SELECT i % 7 AS g, sum(i * 3)::VARCHAR FROM range(300) t(i) GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    assert ask.rows("SELECT * FROM a ORDER BY g") == [*map(list, expected), [7, "2"], [8, "2"]]
    assert "already exists" in ask.refusal("CREATE TABLE a AS SELECT 1 AS x")
    assert ask.rows("CREATE OR REPLACE TABLE a AS SELECT 1 AS x") == [[1]]
    assert ask.rows("FROM a") == [[1]]
    ask.drop("a")
    assert "does not exist" in ask.refusal("FROM a")
    assert leftovers(stand) == []


def test_a_token_means_one_insert(ask: Asking) -> None:
    ask.end("CREATE TABLE once (x INTEGER)")
    first = ask.end("INSERT INTO once VALUES (1)", token="t-1")
    again = ask.end("INSERT INTO once VALUES (1)", token="t-1")
    assert again.query_id == first.query_id
    assert ask.rows("FROM once") == [[1]]
    ask.drop("once")


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_files_are_written_below_a_prefix(
    stand: Stand, ask: Asking, source: str, tmp_path: Path, form: str
) -> None:
    read = f"read_parquet('{source}*.parquet')"
    copy = f"COPY (FROM {read}) TO 's3://{stand.name}-data/out-{form}'"
    assert ask.rows(f"{copy} (FORMAT {form}, PARTITION_BY (g))") == [[300]]
    files = below(stand, f"out-{form}", tmp_path)
    assert {path.parent.name for path in files} == {f"g={number}" for number in range(7)}
    found = duckdb.sql(
        f"SELECT sum(k), sum(g), sum(v), count(*) FROM read_{form}({[str(f) for f in files]}, "
        "hive_partitioning = true)"
    ).fetchall()
    expected = duckdb.sql("SELECT sum(i), sum(i % 7), sum(i * 3), count(*) FROM range(300) t(i)")
    assert found == expected.fetchall()
    assert "not empty" in ask.refusal(f"{copy} (FORMAT {form})")
    assert ask.rows(f"{copy} (FORMAT {form}, OVERWRITE true)") == [[300]]
    assert {path.parent.name for path in below(stand, f"out-{form}", tmp_path)} == {f"out-{form}"}
    assert unfinished(stand) == []
    assert leftovers(stand) == []


def test_a_copy_that_fails_leaves_neither_objects_nor_uploads(
    stand: Stand, ask: Asking, source: str, tmp_path: Path
) -> None:
    failing = (
        f"SELECT CASE WHEN k = 299 THEN error('too far') ELSE k END AS k "
        f"FROM read_parquet('{source}*.parquet')"
    )
    record = ask.end(f"COPY ({failing}) TO 's3://{stand.name}-data/failed' (FORMAT parquet)")
    assert record.status is QueryStatus.FAILED
    assert record.error is not None
    assert "too far" in record.error.message
    assert below(stand, "failed", tmp_path) == []
    assert unfinished(stand) == []
    assert leftovers(stand) == []


def test_targets_of_this_machine_are_refused(ask: Asking, source: str) -> None:
    message = ask.refusal(f"COPY (FROM '{source}*.parquet') TO '/tmp/out' (FORMAT parquet)")
    assert "name s3://bucket/prefix" in message
