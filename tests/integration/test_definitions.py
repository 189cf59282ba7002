"""Views, macros and questions about the catalog: DuckDB's rows, names, types and refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import crossdock
from crossdock.client.connection import Connection
from tests.api_local import local_api
from tests.oracle import Answer, assert_same, of_cursor

TABLE = pa.table({"a": [1, 2, 3, 4], "b": ["x", "y", "x", None]})

#: Run in order, on DuckDB too.
STORY = """
create view v as select a, b from t where a > 1
from v order by a
create or replace view v(q) as select a, b from t -- why
select q, b from v where q < 4 order by q
select v.q, x.z from v, v as x(z, w) where v.q = x.z order by 1
with t as (select 99 as a, 'cte' as b) select v.q, t.a from v, t order by 1
create view w as with v2 as (select * from v) select q, count(*) as n from v2 group by all
with v2 as (select 1 as q) select * from w join v2 using (q)
from main.w order by all
create macro f(x, y := 10) as x + y, (x, y, z) as x * y * z
select f(1), f(1, 2), f(1, 2, 3), f(1, y := 5), f(x := 7)
select f(a) + 1, f(x := a) from t order by a
select count(*) from t group by f(a) % 2 order by 1
create macro tf(k, n := 2) as table select * from t where a >= k order by a limit n
from tf(2)
select z.a, t.b from tf(1, n := 1) z join t using (a)
create macro lam(l, k) as list_transform(l, lambda x: x + k)
create macro shadowed(x) as list_transform([1, 2], lambda x: x * 10)
select lam([1, 2], a), shadowed(5) from t order by a
create macro g(a) as f(a) * 2
select g(a) as a from t where g(a) > 24 order by a
create macro agg(x) as sum(x) / count(*)
select b, agg(a) from t group by b order by b nulls last
create macro below(k) as (select max(a) from t where a < k)
select a, below(a) from t order by a
create macro typed(k INTEGER) as typeof(k)
select typed(3)
create or replace macro g(a) as a
select g(3), main.g(4)
drop macro g
create view moment as select now() as n, random() as r
select count(distinct n) from moment, range(3) where r between 0 and 1
create temp view tv as select 5 as five
from tv
create view "odd "" name" as select 1 as "a b"
from "odd "" name"
create view if not exists w as select 2 as two
describe w
summarize v
describe select a, f(a) as "f of a" from t
show t
from (describe t) where column_name = 'b'
select column_name, max from (summarize t)
show tables
drop view "odd "" name"
drop view if exists nothing_here
drop macro table tf
drop view tv
show tables
create view pv as pivot t on b in ('x', 'y') using sum(a)
from pv
""".strip().splitlines()


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    home = tmp_path_factory.mktemp("home")
    with crossdock.connect(home=home, tables={"t": TABLE}, timezone="UTC") as opened:
        yield opened


def test_a_catalog_is_built_asked_and_taken_apart_as_in_duckdb(connection: Connection) -> None:
    with duckdb.connect() as oracle:
        oracle.register("given", TABLE)
        oracle.execute("CREATE TABLE t AS FROM given")
        oracle.unregister("given")
        for sql in STORY:
            rows = oracle.execute(sql).fetchall()
            columns = tuple((each[0], str(each[1])) for each in oracle.description)
            with connection.execute(sql) as cursor:
                found = of_cursor(cursor)
            assert_same(found, Answer(columns, tuple(rows)), ordered=True)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("create view t as select 1", 'Table with name "t" already exists!'),
        ("create or replace view t as select 1", 'Existing object "t" is of type Table'),
        ("create view x as select nope from t", r'"nope" not found(.|\n)*LINE 1: +select nope'),
        ("create view x(a, b, c) as select a from t", "More VIEW aliases than columns"),
        ("create view x as from x", "Table with name x does not exist"),
        ("create view x as pivot t on b using sum(a)", "cannot be used in views"),
        ("create view other.x as select 1", "there is no schema other"),
        ("create view x as select 1; drop view x", "one statement at a time"),
        ("create view x as", "syntax error"),
        ("create or replace view if not exists x as select 1", "(syntax error|both OR REPLACE)"),
        ("create macro x(a) as a + nope", 'Referenced column "nope" was not found'),
        ("create macro x(a INT) as a, (a VARCHAR) as a", "differ in types only"),
        ("drop view nothing_here", "View with name nothing_here does not exist!"),
        ("drop macro nothing_here", "Macro Function with name nothing_here does not exist!"),
        ("drop view t", 'Existing object "t" is of type Table, trying to drop type View'),
        ("drop table nothing_here", "Table with name nothing_here does not exist!"),
        ("select h(1, 2) from t", r"Macro h\(\) does not support(.|\n)*h\(a\)(.|\n)*LINE 1"),
        ("from ht()", r"Macro ht\(\) does not support the supplied arguments"),
        ("from nowhere(1)", "Table Function with name nowhere does not exist"),
        ("from loop1", "defined by themselves"),
        ("from orphan", "Table with name lost does not exist!(.|\n)*\\^"),
        ("show variables", "SHOW VARIABLES is not available"),
        ("show tables from elsewhere", "there is no schema elsewhere"),
    ],
)
def test_a_refusal_has_duckdbs_reason(tmp_path: Path, sql: str, said: str) -> None:
    with crossdock.connect(home=tmp_path, tables={"t": TABLE, "lost": TABLE}) as connection:
        for made in (
            "create macro h(a) as a",
            "create macro ht(a) as table select a",
            "create view loop1 as select 1",
            "create view loop2 as from loop1",
            "create or replace view loop1 as from loop2",
            "create view orphan as from lost",
        ):
            connection.execute(made)
        connection.tables.remove("lost")
        with pytest.raises(crossdock.Error) as caught:
            connection.execute(sql)
        assert re.search(said, str(caught.value)), str(caught.value)


def test_what_is_not_temporary_outlives_the_connection(tmp_path: Path) -> None:
    with crossdock.connect(home=tmp_path) as first:
        first.execute("create view kept as select 1 as one")
        first.execute("create macro kept(x) as x + 1")
        first.execute("create temp view gone as select 2")
    with crossdock.connect(home=tmp_path) as second:
        assert second.execute("select one, kept(one) from kept").fetchall() == [(1, 2)]
        assert second.execute("show tables").fetchall() == [("kept",)]
        with pytest.raises(crossdock.SqlError, match="gone does not exist"):
            second.execute("from gone")


def test_a_macro_over_a_table_a_view_and_a_macro_is_taken_at_once(tmp_path: Path) -> None:
    with crossdock.connect(home=tmp_path, tables={"t": TABLE}) as connection:
        connection.execute("create macro one(x) as (select count(*) from t where a < x)")
        connection.execute("create view v as select a from t")
        connection.execute("create macro two(x) as one(x) + (select max(a) from v)")
        assert connection.execute("select one(3), two(3)").fetchall() == [(2, 6)]
        with pytest.raises(crossdock.SqlError, match=r"Macro two\(\) does not support"):
            connection.execute("select two()")


def test_planning_a_definition_changes_nothing(connection: Connection) -> None:
    with pytest.raises(crossdock.SqlError, match="only changes the catalog"):
        connection.explain("create view planned as select 1")
    assert "planned" not in [name for (name,) in connection.execute("show tables").fetchall()]


def test_a_view_is_read_by_workers(tmp_path: Path) -> None:
    with crossdock.connect(
        home=tmp_path, tables={"t": TABLE}, workers=1, worker_memory="512MB", single_task_bytes=0
    ) as connection:
        connection.execute("create view v as select b, sum(a) as s from t group by b")
        connection.execute("create macro twice(x) as x * 2")
        with connection.execute("select b, twice(s) from v order by b nulls last") as cursor:
            assert not cursor.plan.one_task
            assert cursor.fetchall() == [("x", 8), ("y", 4), (None, 8)]


def test_the_api_keeps_definitions_for_all_its_callers(tmp_path: Path) -> None:
    with local_api(tmp_path, {"t": TABLE}) as api:
        body = {"sql": "create view v as select sum(a) as s from t", "client_token": "one"}
        first = api.ok("submit", body=body)
        assert api.ok("submit", body=body)["query_id"] == first["query_id"]
        again = api.call("submit", body={"sql": body["sql"]})
        assert again.status == 400
        assert b"already exists" in again.body
        assert api.rows(api.run("from v")) == [["10"]]
        assert api.rows(api.run("show tables")) == [["t"], ["v"]]
        assert (
            b"leave TEMP out"
            in api.call("submit", body={"sql": "create temp view x as from t"}).body
        )
        api.run("drop view v")
        assert api.rows(api.run("show tables")) == [["t"]]
