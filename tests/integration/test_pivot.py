"""PIVOT without a list of values: DuckDB's columns, names and rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import crossdock
from crossdock.client.connection import Connection
from tests.oracle import Answer, assert_same, of_cursor

TABLES = {
    "t": pa.table(
        {
            "a": [(i * 7) % 11 for i in range(20)],
            "b": [None if i == 3 else (i * 3) % 4 + 8 for i in range(20)],
            "s": [f"it's {i % 3}" for i in range(20)],
            "x": [i * 0.5 for i in range(20)],
        }
    ),
    "u": pa.table({"b": [8, 9], "z": ["p", "é"]}),
}
QUERIES = """
pivot t on b using sum(x) group by a order by a
pivot t on b using sum(x) as s, count(*) as c group by a order by a
pivot t on s, b using count(*) group by a order by a
pivot t on b, s in ('it''s 1') using max(x) group by a order by a
pivot t on s in ('it''s 1'), b using max(x) group by a order by a
pivot t on b || '_' || a using count(*) group by s order by s
pivot t on (b, a) using count(*) group by s order by s
pivot t on b + 1 in (9) using count(*) group by s order by s
pivot t on b::varchar using count(*) group by s order by s
pivot t on b is null using count(*) group by s order by s
pivot t on case when b > 9 then 'hi' else 'lo' end using count(*) group by s order by s
pivot t join u using (b) on z using sum(x) group by a order by a
pivot t join u on t.b = u.b on z using sum(x) group by a order by a
pivot t cross join (select z from u) on z using count(*) group by a order by a
pivot (select * from t where a > 3) on s using sum(x) group by a order by a
pivot_wider t on b using sum(x) group by a order by a
select * from (pivot t on b using sum(x) group by a) where a > 3 order by a
with p as (pivot t on b using sum(x) group by a) select * from p join u on p.a = u.b order by a
with c as (from t where a > 2), d as (select 1) pivot c on b using sum(x) group by a order by a
with c as (from t), p as (pivot c on b using sum(x) group by a), q as (from p) from q order by a
(pivot t on b group by a) union all by name (pivot t on s group by a) order by all
pivot (pivot t on b using sum(x) group by s, a) on a using max("8") group by s order by s
select 'pivot t on b' as text, count(*) as n from (pivot t on s using sum(x) group by a)
/* pivot x on y */ pivot t on b using sum(x) group by a order by a limit 3 -- pivot
""".strip().splitlines()


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with crossdock.connect(home=tmp_path_factory.mktemp("home"), tables=TABLES) as opened:
        yield opened


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        for name, table in TABLES.items():
            opened.register(name, table)
        yield opened


@pytest.mark.parametrize("sql", QUERIES)
def test_columns_are_the_values_found(
    sql: str, connection: Connection, oracle: duckdb.DuckDBPyConnection
) -> None:
    rows = oracle.execute(sql).fetchall()
    columns = tuple((each[0], str(each[1])) for each in oracle.description)
    with connection.execute(sql) as cursor:
        assert_same(of_cursor(cursor), Answer(columns, tuple(rows)), ordered=True)


def test_a_column_without_values_is_refused(connection: Connection) -> None:
    with pytest.raises(crossdock.SqlError, match="PIVOT ON b: there are no values"):
        connection.execute("pivot (from t where b is null) on b using sum(x)")


def test_a_mistake_in_a_pivot_is_duckdbs_to_tell(connection: Connection) -> None:
    with pytest.raises(crossdock.SqlError, match='Referenced column "nope" not found'):
        connection.execute("pivot t on nope using sum(x)")
    with pytest.raises(crossdock.SqlError, match="syntax error"):
        connection.execute("pivot t on")


def test_a_pivot_runs_on_workers(tmp_path: Path) -> None:
    with crossdock.connect(
        home=tmp_path, tables=TABLES, workers=1, worker_memory="512MB", single_task_bytes=0
    ) as distributed:
        plan = distributed.explain("pivot t on b using count(*) group by a")
        assert [column.name for column in plan.columns] == ["a", "10", "11", "8", "9"]
        assert not plan.one_task
