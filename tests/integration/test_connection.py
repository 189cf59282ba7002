"""The Python interface: PEP 249, exact values and types, and what a connection leaves behind."""

from __future__ import annotations

import datetime
import gc
import os
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crossdock
from crossdock.client.connection import Connection
from tests.oracle import ask, assert_same, of_cursor

EVERY_TYPE = """
SELECT i, i::HUGEINT * 17014118346046923173168730371588410 AS huge, (-i)::INT128 AS neg,
  i::UHUGEINT AS uhuge, (i / 7)::DECIMAL(18, 3) AS dec, i::DOUBLE / 3 AS dbl, i::FLOAT AS flt,
  'text ' || i AS txt, ('\\x0' || (i % 10))::BLOB AS blob, i % 2 = 0 AS flag, NULL AS nothing,
  DATE '2024-02-28' + i::INT AS day, TIME '10:00:00' + to_seconds(i) AS tim,
  TIMESTAMP '2024-01-01' + to_microseconds(i) AS ts, TIMESTAMPTZ '2024-01-01 00:00:00+02' AS tz,
  make_timestamp_ns(i * 1001) AS ns, to_months(i::INT) + to_days(-3) AS span,
  '00000000-0000-0000-0000-00000000000a'::UUID AS id, (i % 3)::VARCHAR::ENUM('0', '1', '2') AS e,
  [i, NULL] AS list,
  [i, i + 1]::BIGINT[2] AS arr, {'a b': i, 'h': i::HUGEINT} AS struct,
  MAP {i: 'v'} AS map, union_value(num := i) AS u,
  repeat('01', (1 + i % 3)::INT)::BIT AS bits, i AS twice, -i AS twice
FROM numbers
"""


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of 0 .. 2999."""
    folder = tmp_path_factory.mktemp("numbers")
    for part in range(3):
        values = pa.array(range(part * 1000, part * 1000 + 1000), pa.int64())
        pq.write_table(pa.table({"i": values}), folder / f"{part}.parquet")
    return folder


@pytest.fixture(scope="module", params=["one task", "s3qs", "batch"])
def connection(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, numbers: Path
) -> Iterator[Connection]:
    distributed = request.param != "one task"
    settings = {"single_task_bytes": 0, "exchange": request.param} if distributed else {}
    with crossdock.connect(
        home=tmp_path_factory.mktemp("home"),
        tables={"numbers": numbers},
        workers=2,
        worker_memory="512MB",
        timezone="UTC",
        **settings,
    ) as opened:
        yield opened


def files(numbers: Path) -> dict[str, list[Path]]:
    return {"numbers": sorted(numbers.glob("*.parquet"))}


# -- values and types ------------------------------------------------------------------------------


def test_every_type_comes_back_as_duckdb_gives_it(connection: Connection, numbers: Path) -> None:
    sql = f"{EVERY_TYPE} ORDER BY i LIMIT 100"
    expected = ask(sql, files(numbers))
    cursor = connection.execute(sql)
    assert cursor.plan.one_task == (connection.settings.single_task_bytes != 0)
    assert_same(of_cursor(cursor), expected, ordered=True)
    assert connection.execute(sql).arrow().schema == expected.schema
    assert cursor.rowcount == 100


def test_arrow_holds_duckdbs_rows(connection: Connection, numbers: Path) -> None:
    sql = "SELECT i % 10 AS g, sum(i) AS s, avg(i) AS a FROM numbers GROUP BY g ORDER BY g"
    table = connection.execute(sql).arrow()
    view = f"CREATE VIEW numbers AS FROM '{numbers}/*.parquet'"
    duck = duckdb.connect()
    duck.execute(view)
    assert table.equals(duck.sql(sql).to_arrow_table())


def test_no_rows_keep_columns_and_types(connection: Connection, numbers: Path) -> None:
    sql = f"SELECT * FROM ({EVERY_TYPE}) AS t(i) WHERE i < 0"
    expected = ask(sql, files(numbers))
    assert_same(of_cursor(connection.execute(sql)), expected, ordered=True)
    table = connection.execute(sql).arrow()
    assert (table.num_rows, table.schema) == (0, expected.schema)


def test_order_survives_fetching_in_any_portions(connection: Connection) -> None:
    sql = "SELECT i FROM numbers ORDER BY i DESC"
    expected = [(i,) for i in range(2999, -1, -1)]
    for size in (1, 7, 1000, 3000, 5000):
        cursor = connection.execute(sql)
        rows = []
        while portion := cursor.fetchmany(size):
            rows += portion
        assert rows == expected
    assert list(connection.execute(sql)) == expected
    mixed = connection.execute(sql)
    rows = [mixed.fetchone(), next(mixed), *mixed.fetchmany(3), *mixed.fetchall()]
    assert rows == expected
    assert mixed.fetchone() is None
    assert mixed.fetchall() == []
    batches = connection.execute(sql).arrow_batches()
    assert batches.read_all().column("i").to_pylist() == [row[0] for row in expected]


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT i FROM numbers WHERE i = ?", [7]),
        ("SELECT i FROM numbers WHERE i = $1 OR i = $1 + 0", (7,)),
        ("SELECT i FROM numbers WHERE i = $wanted", {"wanted": 7}),
        ("SELECT ?::VARCHAR AS t, i FROM numbers WHERE i < ? ORDER BY i LIMIT 2", ["it's ?", 5]),
        ("SELECT ? AS d, ? AS n, ? AS b FROM numbers LIMIT 1", [Decimal("1.50"), None, b"\x00'"]),
    ],
)
def test_parameters_mean_what_they_mean_to_duckdb(
    connection: Connection, numbers: Path, sql: str, parameters: object
) -> None:
    expected = ask(sql, files(numbers), parameters)
    found = of_cursor(connection.execute(sql, parameters))
    assert found.rows == expected.rows
    assert [column[1] for column in found.columns] == [column[1] for column in expected.columns]


# -- PEP 249 ---------------------------------------------------------------------------------------


def test_description_compares_with_type_objects(connection: Connection) -> None:
    cursor = connection.execute("SELECT i, 'x' AS t, DATE '2024-01-01' AS d FROM numbers LIMIT 1")
    names = [column[0] for column in cursor.description]
    codes = [column[1] for column in cursor.description]
    assert names == ["i", "t", "d"]
    assert codes == [crossdock.NUMBER, crossdock.STRING, crossdock.DATETIME]
    assert codes[0] != crossdock.STRING
    assert all(len(column) == 7 for column in cursor.description)


def test_executemany_keeps_the_last_result(connection: Connection) -> None:
    cursor = connection.cursor()
    cursor.executemany("SELECT i FROM numbers WHERE i = ?", [[1], [2]])
    assert cursor.fetchall() == [(2,)]


def test_misuse_is_an_interface_error(connection: Connection) -> None:
    cursor = connection.cursor()
    assert (cursor.description, cursor.rowcount, cursor.plan) == (None, -1, None)
    with pytest.raises(crossdock.InterfaceError, match="no query was executed"):
        cursor.fetchall()
    cursor.execute("SELECT 1 AS one")
    next(cursor)
    with pytest.raises(crossdock.InterfaceError, match="read already"):
        cursor.arrow()
    with pytest.raises(crossdock.ProgrammingError, match="negative"):
        cursor.fetchmany(-1)
    cursor.close()
    cursor.close()
    with pytest.raises(crossdock.InterfaceError, match="closed"):
        cursor.execute("SELECT 1")
    with pytest.raises(crossdock.NotSupportedError):
        connection.rollback()
    connection.commit()


@pytest.mark.parametrize(
    ("sql", "error", "words"),
    [
        ("SELECT j FROM numbers", crossdock.SqlError, '"j" not found'),
        ("SELECT i FROM number", crossdock.ProgrammingError, "numbers"),
        ("SELECT 1 +", crossdock.SqlError, "syntax error"),
        ("CREATE SCHEMA x", crossdock.SqlError, "CREATE statements are not taken"),
        ("SELECT error('boom ' || i) FROM numbers", crossdock.QueryFailed, "boom"),
    ],
)
def test_errors_are_of_the_right_kind_and_leave_the_connection_usable(
    connection: Connection, sql: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        connection.execute(sql).fetchall()
    assert connection.execute("SELECT count(*) FROM numbers").fetchall() == [(3000,)]


def test_receipt_adds_up(connection: Connection) -> None:
    cursor = connection.execute("SELECT i % 3 AS g, count(*) AS n FROM numbers GROUP BY g")
    assert len(cursor.fetchall()) == 3
    receipt = cursor.receipt
    assert receipt.query_id == cursor.query_id
    assert (receipt.status, receipt.result_rows) == ("SUCCEEDED", 3)
    assert [s.tasks for s in receipt.stages] == [s.tasks for s in cursor.plan.stages]
    assert receipt.stages[-1].rows_out == 3
    assert receipt.cost.total > 0
    assert receipt.query_id in receipt.to_text()
    assert f'"query_id":"{receipt.query_id}"' in receipt.to_json()


def test_two_cursors_of_one_connection_keep_apart(connection: Connection) -> None:
    first = connection.execute("SELECT i FROM numbers ORDER BY i")
    second = connection.execute("SELECT -i FROM numbers ORDER BY i")
    assert (first.fetchone(), second.fetchone()) == ((0,), (0,))
    assert (first.fetchone(), second.fetchone()) == ((1,), (-1,))


def test_cancel_from_another_thread_ends_the_query(connection: Connection) -> None:
    sql = (
        "SELECT count(*) FROM numbers a, numbers b, numbers c, numbers d"
        " WHERE hash(a.i, b.i) = hash(c.i, d.i + 1)"
    )
    cursor = connection.cursor()
    timer = threading.Timer(0.7, cursor.cancel)
    timer.start()
    began = time.monotonic()
    with pytest.raises(crossdock.QueryCancelled):
        cursor.execute(sql).fetchall()
    timer.join()
    assert time.monotonic() - began < 20
    assert connection.execute("SELECT count(*) FROM numbers").fetchall() == [(3000,)]


def test_dropped_cursor_gives_its_result_back(connection: Connection) -> None:
    results = connection.home / "objects" / "result"

    def left() -> list[Path]:
        # Folders may go while they are looked into, which os.walk does not mind.
        return [Path(folder) / name for folder, _, names in os.walk(results) for name in names]

    for _ in range(3):
        connection.execute("SELECT i FROM numbers").fetchone()
    reader = connection.execute("SELECT i FROM numbers").arrow_batches()
    gc.collect()
    assert reader.read_all().num_rows == 3000
    del reader
    gc.collect()
    deadline = time.monotonic() + 10
    while left() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left() == []


# -- tables and settings ---------------------------------------------------------------------------


def test_arrow_table_is_a_table_until_the_connection_ends(tmp_path: Path) -> None:
    fruit = pa.table({"name": ["fig", "plum"], "kilos": pa.array([2, 5], pa.int32())})
    with crossdock.connect(home=tmp_path / "home", tables={"fruit": fruit}) as con:
        assert con.execute("SELECT * FROM fruit").arrow().equals(fruit)
    with (
        crossdock.connect(home=tmp_path / "home") as con,
        pytest.raises(crossdock.ProgrammingError, match="fruit"),
    ):
        con.execute("SELECT * FROM fruit")


def test_files_can_be_named_in_the_sql(tmp_path: Path, numbers: Path) -> None:
    with crossdock.connect(home=tmp_path) as con:
        for source in (f"'{numbers}/*.parquet'", f"read_parquet('{numbers}/1.parquet')"):
            assert con.execute(f"SELECT max(i) >= 1999 FROM {source}").fetchall() == [(True,)]


def test_new_and_changed_files_are_seen_by_the_next_query(tmp_path: Path) -> None:
    folder = tmp_path / "growing"
    folder.mkdir()
    pq.write_table(pa.table({"i": [1]}), folder / "a.parquet")
    with crossdock.connect(home=tmp_path / "home", tables={"t": folder}) as con:
        assert con.execute("SELECT sum(i) FROM t").fetchall() == [(1,)]
        pq.write_table(pa.table({"i": [10]}), folder / "b.parquet")
        assert con.execute("SELECT sum(i) FROM t").fetchall() == [(11,)]


@pytest.mark.parametrize("settings", [{}, {"single_task_bytes": 0}], ids=["one task", "s3qs"])
@pytest.mark.parametrize(("zone", "matches"), [("UTC", 1), ("America/New_York", 0)])
def test_sessions_time_zone_counts_not_the_workers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    zone: str,
    matches: int,
    settings: dict[str, object],
) -> None:
    noon = datetime.datetime(2024, 7, 1, 12)
    local = pa.table({"t": pa.array([noon], pa.timestamp("us"))})
    absolute = pa.table({"t": pa.array([noon], pa.timestamp("us", tz="UTC"))})
    monkeypatch.setenv("TZ", "America/New_York")
    with crossdock.connect(
        home=tmp_path,
        tables={"ta": local, "tb": absolute},
        timezone=zone,
        workers=2,
        worker_memory="512MB",
        **settings,
    ) as con:
        sql = "SELECT count(*) FROM ta JOIN tb ON ta.t = tb.t"
        assert con.execute(sql).fetchall() == [(matches,)]


def test_folder_without_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(crossdock.TableError, match="none"):
        crossdock.connect(home=tmp_path / "home", tables={"t": tmp_path / "none"})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"workers": 0}, "workers = 0: must be a whole number from 1 to 1024"),
        ({"workers": True}, "workers = True"),
        ({"worker_memory": "1 parsec"}, "worker_memory = '1 parsec': must be a size"),
        ({"worker_memory": 1000}, "at least 67,108,864"),
        ({"lease_seconds": "soon"}, "lease_seconds = 'soon': must be a time"),
        ({"exchange": "smoke"}, "exchange = 'smoke': must be one of auto, s3qs, batch"),
        ({"partition": 3}, "unknown setting 'partition': did you mean 'partitions'?"),
        ({"colour": "red"}, "unknown setting 'colour': known: workers"),
    ],
)
def test_bad_settings_say_what_is_allowed(
    tmp_path: Path, settings: dict[str, object], words: str
) -> None:
    with pytest.raises(crossdock.SettingError) as caught:
        crossdock.connect(home=tmp_path, **settings)
    assert words in str(caught.value)


def test_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(crossdock.SettingError, match="home"):
        crossdock.connect(home=tmp_path / "home")


# -- endings ---------------------------------------------------------------------------------------


def test_close_ends_workers_and_leaves_no_rows_behind(tmp_path: Path, numbers: Path) -> None:
    home = tmp_path / "home"
    before = set(psutil.Process().children(recursive=True))
    con = crossdock.connect(
        home=home,
        tables={"numbers": numbers},
        workers=2,
        single_task_bytes=0,
        worker_memory="512MB",
    )
    assert len(con.execute("SELECT i % 5 AS g, sum(i) FROM numbers GROUP BY g").fetchall()) == 5
    con.execute("SELECT i FROM numbers")  # left unread
    with pytest.raises(crossdock.QueryFailed):
        con.execute("SELECT error('no') FROM numbers").fetchall()
    assert set(psutil.Process().children(recursive=True)) > before
    con.close()
    con.close()
    assert set(psutil.Process().children(recursive=True)) <= before
    kinds = {p.relative_to(home / "objects").parts[0] for p in (home / "objects").rglob("*.*")}
    assert kinds <= {"receipt"}
    assert list((home / "scratch").rglob("*")) == []
    with pytest.raises(crossdock.InterfaceError, match="closed"):
        con.execute("SELECT 1")
    with crossdock.connect(home=home) as again:
        assert again.platform.store.open_queries() in ((), [])
