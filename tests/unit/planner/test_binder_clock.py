"""The clock is read once a bind; what differs from run to run is marked."""

import datetime as dt
import re

import duckdb
import pyarrow as pa
import pytest

from crossdock.catalog import Catalog
from crossdock.planner.binder import Binder
from crossdock.planner.pinning import CLOCK, VOLATILE

ZONE = "America/St_Johns"
T = pa.table({"ts": [dt.datetime(2020, 1, 1)], "current_date": [7]})


@pytest.fixture(scope="module")
def binder() -> Binder:
    catalog = Catalog()
    catalog.add("t", T)
    catalog.add("u", pa.table({"ts": [dt.datetime(2020, 1, 1)]}))
    return Binder(catalog, timezone=ZONE)


def evaluate(sql: str) -> tuple[object, ...]:
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = '{ZONE}'")
        connection.register("arrow", T)
        connection.execute("CREATE TABLE t AS FROM arrow; CREATE TABLE u AS SELECT ts FROM t")
        return tuple(connection.execute(sql).fetchall()[0])


@pytest.mark.parametrize("name", sorted(CLOCK))
def test_a_clock_function_is_a_constant_of_its_type(binder: Binder, name: str) -> None:
    keyword = name in (
        "current_date",
        "current_time",
        "current_timestamp",
        "localtime",
        "localtimestamp",
    )
    expression = name if keyword else f"{name}()"
    bound = binder.bind(f"SELECT {expression} FROM u")
    assert [(c.name.split(".")[-1], c.type) for c in bound.columns] == [(expression, CLOCK[name])]
    body = bound.sql.replace(f'"{expression}"', "").replace(f"AS {expression}", "")
    assert not re.search(rf"\b{name}\b", body)
    assert not bound.volatile
    assert evaluate(bound.sql) == evaluate(bound.sql)


def test_every_reading_of_one_bind_is_of_one_instant_in_the_sessions_zone(binder: Binder) -> None:
    bound = binder.bind(
        """SELECT now() = get_current_timestamp(), now()::DATE = today(), today() = current_date,
           now()::TIMESTAMP = localtimestamp, localtimestamp::TIME = localtime,
           ago(INTERVAL 1 DAY) = now() - INTERVAL 1 DAY, age(ts) = age(today()::TIMESTAMP, ts),
           age(ts::TIMESTAMPTZ) = age(today()::TIMESTAMPTZ, ts::TIMESTAMPTZ) FROM u"""
    )
    assert evaluate(bound.sql) == (True,) * 8
    assert dict(bound.session)["TimeZone"] == ZONE


def test_later_binds_read_later_clocks(binder: Binder) -> None:
    assert binder.bind("SELECT now()").sql != binder.bind("SELECT now()").sql


def test_a_column_of_a_keywords_name_stays_a_column(binder: Binder) -> None:
    for sql in (
        "SELECT current_date FROM t",
        'SELECT "current_date" FROM t',
        "SELECT t.current_date FROM t",
    ):
        assert binder.bind(sql).sql == sql
        assert evaluate(sql) == (7,)


def test_a_keyword_that_might_be_a_column_makes_the_statement_volatile(binder: Binder) -> None:
    assert binder.bind("SELECT current_date FROM t").volatile
    assert not binder.bind('SELECT t."current_date" FROM t').volatile


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT random()",
        "SELECT uuid(), ts FROM t",
        "SELECT * FROM t WHERE gen_random_uuid() IS NOT NULL",
        "SELECT * FROM t USING SAMPLE 5 ROWS",
        "SELECT * FROM t TABLESAMPLE 10%",
        "WITH r AS (SELECT random() AS x) FROM r",
    ],
)
def test_chance_makes_a_statement_volatile(binder: Binder, sql: str) -> None:
    assert binder.bind(sql).volatile


def test_the_engines_volatile_functions_are_all_known() -> None:
    query = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE'"
    with duckdb.connect() as connection:
        engine = {name for (name,) in connection.execute(query).fetchall()}
    assert engine <= VOLATILE


def test_the_engines_clock_functions_are_all_known() -> None:
    query = """SELECT DISTINCT function_name, return_type FROM duckdb_functions()
               WHERE stability = 'CONSISTENT_WITHIN_QUERY' AND len(parameter_types) = 0
               AND (return_type LIKE 'TIME%' OR return_type = 'DATE')"""
    with duckdb.connect() as connection:
        engine = dict(connection.execute(query).fetchall())
    assert engine.items() <= CLOCK.items()
