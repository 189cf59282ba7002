"""Every engine type goes through a Parquet file and comes back: same value, same type."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from crossdock.errors import CarrierError
from crossdock.executor.carriers import carrier_type, check_columns, decode, encode
from crossdock.executor.types import parse_type
from crossdock.planner.plan import CarriedColumn

VALUES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "HUGEINT",
        (
            "170141183460469231731687303715884105727::HUGEINT",
            "-170141183460469231731687303715884105727::HUGEINT-1",
            "-1::HUGEINT",
            "0::HUGEINT",
            "18446744073709551616::HUGEINT",
            "-18446744073709551617::HUGEINT",
        ),
    ),
    ("UHUGEINT", ("340282366920938463463374607431768211455::UHUGEINT", "0::UHUGEINT")),
    (
        "INTERVAL",
        (
            "INTERVAL '1 month'",
            "INTERVAL '30 days'",
            "INTERVAL '-14 months 3 days -25:00:00.000001'",
            "to_microseconds(-9223372036854775808)",
            "to_microseconds(9223372036854775807)",
            "to_months(-2147483648)",
            "to_months(2147483647)+to_days(-2147483648)",
            "to_days(2147483647)+to_microseconds(-9223372036854775807)",
        ),
    ),
    (
        "TIME WITH TIME ZONE",
        (
            "'24:00:00+15:59:59'::TIMETZ",
            "'00:00:00-15:59:59'::TIMETZ",
            "'12:34:56.789012+01'::TIMETZ",
        ),
    ),
    ("BIT", ("'0'::BIT", "'101010101010101'::BIT", "'1'::BIT")),
    ("BIGNUM", ("'-12345678901234567890123456789012345678901234567890'::BIGNUM", "0::BIGNUM")),
    (
        "ENUM('a', 'it''s', 'ü,x')",
        ("'a'::ENUM('a','it''s','ü,x')", "'it''s'::ENUM('a','it''s','ü,x')"),
    ),
    (
        "TIMESTAMP_S",
        (
            "'290000-01-01'::TIMESTAMP_S",
            "'infinity'::TIMESTAMP_S",
            "'-infinity'::TIMESTAMP_S",
            "'1969-12-31 23:59:59'::TIMESTAMP_S",
        ),
    ),
    (
        "TIMESTAMP_MS",
        (
            "'290000-01-01'::TIMESTAMP_MS",
            "'infinity'::TIMESTAMP_MS",
            "'1969-12-31 23:59:59.999'::TIMESTAMP_MS",
        ),
    ),
    (
        "TIMESTAMP_NS",
        (
            "'2020-01-01 00:00:00.123456789'::TIMESTAMP_NS",
            "'infinity'::TIMESTAMP_NS",
            "'1677-09-22'::TIMESTAMP_NS",
        ),
    ),
    (
        "TIMESTAMP WITH TIME ZONE",
        (
            "'infinity'::TIMESTAMPTZ",
            "'2020-01-01 00:00:00.123456+05'::TIMESTAMPTZ",
            "'0044-03-15 (BC) 00:00:00+00'::TIMESTAMPTZ",
        ),
    ),
    (
        "TIMESTAMP",
        (
            "'infinity'::TIMESTAMP",
            "'294247-01-10 04:00:54.775806'::TIMESTAMP",
            "'290308-12-22 (BC) 00:00:00'::TIMESTAMP",
        ),
    ),
    ("TIME_NS", ("'12:00:00.123456789'::TIME_NS",)),
    ("TIMESTAMPTZ_NS", ("'2020-01-01 00:00:00.123456789+00'::TIMESTAMPTZ_NS",)),
    ("TIME", ("'24:00:00'::TIME", "'00:00:00'::TIME", "'23:59:59.999999'::TIME")),
    (
        "DATE",
        (
            "'infinity'::DATE",
            "'-infinity'::DATE",
            "'5877642-06-25 (BC)'::DATE",
            "'5881580-07-10'::DATE",
        ),
    ),
    ("FLOAT", ("'nan'::FLOAT", "'-0.0'::FLOAT", "'inf'::FLOAT", "1.17549435e-38::FLOAT")),
    (
        "DOUBLE",
        (
            "'nan'::DOUBLE",
            "'-0.0'::DOUBLE",
            "'-inf'::DOUBLE",
            "5e-324::DOUBLE",
            "1.7976931348623157e308::DOUBLE",
        ),
    ),
    ("DECIMAL(4,1)", ("999.9::DECIMAL(4,1)",)),
    ("DECIMAL(38,10)", ("-9999999999999999999999999999.9999999999::DECIMAL(38,10)",)),
    (
        "UUID",
        (
            "'00000000-0000-0000-0000-000000000001'::UUID",
            "'ffffffff-ffff-ffff-ffff-ffffffffffff'::UUID",
        ),
    ),
    ("BLOB", ("'\\x00\\xff'::BLOB", "''::BLOB")),
    ("VARCHAR", ("''", "'a'||chr(0)||'b'", "'ünï😀'")),
    ("UBIGINT", ("18446744073709551615::UBIGINT",)),
    ("BIGINT", ("(-9223372036854775808)::BIGINT",)),
    ("UTINYINT", ("255::UTINYINT",)),
    ("TINYINT", ("(-128)::TINYINT",)),
    ("BOOLEAN", ("true", "false")),
    ("JSON", ("'{\"a\": [1, null]}'::JSON", "'null'::JSON")),
    ("GEOMETRY", ("'POINT(1 2)'::GEOMETRY",)),
    ('"NULL"', ("NULL",)),
    ("VARIANT", ("1::VARIANT", "{'a':[1,2]}::VARIANT", "'x'::VARIANT")),
    ("INTEGER[3]", ("[1,NULL,3]::INTEGER[3]",)),
    ("HUGEINT[2]", ("[170141183460469231731687303715884105727,NULL]::HUGEINT[2]",)),
    (
        "HUGEINT[]",
        ("[170141183460469231731687303715884105727,NULL,-1]::HUGEINT[]", "[]::HUGEINT[]"),
    ),
    ("INTEGER[2][]", ("[[1,2],NULL]::INTEGER[2][]",)),
    ("INTEGER[][2]", ("[[1,2],NULL]::INTEGER[][2]",)),
    (
        'STRUCT(a HUGEINT, "b c" INTERVAL)',
        (
            "{'a':5,'b c':interval '1 month'}::STRUCT(a HUGEINT,\"b c\" INTERVAL)",
            "{'a':NULL,'b c':NULL}::STRUCT(a HUGEINT,\"b c\" INTERVAL)",
        ),
    ),
    ("STRUCT(a INTEGER)", ("{'a':NULL}::STRUCT(a INTEGER)",)),
    ("TUPLE(INTEGER, HUGEINT)", ("(1,2::HUGEINT)", "(NULL::INTEGER,NULL::HUGEINT)")),
    (
        "UNION(n INTEGER, s VARCHAR, h HUGEINT)",
        (
            "union_value(n:=1)::UNION(n INTEGER, s VARCHAR, h HUGEINT)",
            "union_value(s:='q')::UNION(n INTEGER, s VARCHAR, h HUGEINT)",
            "union_value(h:=NULL::HUGEINT)::UNION(n INTEGER, s VARCHAR, h HUGEINT)",
        ),
    ),
    (
        "UNION(n INTEGER, s VARCHAR)[]",
        (
            "[union_value(n:=1)::UNION(n INTEGER, s VARCHAR),NULL,union_value(s:='1')::UNION(n INTEGER, s VARCHAR)]",  # noqa: E501
        ),
    ),
    (
        "MAP(HUGEINT, INTERVAL)",
        (
            "MAP{170141183460469231731687303715884105727::HUGEINT: interval '3 days'}",
            "MAP{}::MAP(HUGEINT,INTERVAL)",
        ),
    ),
    ("MAP(VARCHAR, INTEGER[])", ("MAP{'a':[1,NULL]}", "MAP{}::MAP(VARCHAR,INTEGER[])")),
    (
        "MAP(UUID, UNION(a BIT, b INTERVAL)[])",
        (
            "MAP{'00000000-0000-0000-0000-000000000001'::UUID:[union_value(a:='101'::BIT)::UNION(a BIT,b INTERVAL)]}",  # noqa: E501
        ),
    ),
    (
        "STRUCT(x STRUCT(y ENUM('p', 'q'), z TIMESTAMP_S[])[])",
        (
            "{'x':[{'y':'q','z':['2020-01-01'::TIMESTAMP_S]},NULL]}::STRUCT(x STRUCT(y ENUM('p','q'), z TIMESTAMP_S[])[])",  # noqa: E501
        ),
    ),
)


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@pytest.mark.parametrize(("type", "values"), VALUES, ids=[type for type, _ in VALUES])
def test_values_and_type_survive(connection, tmp_path: Path, type: str, values) -> None:
    rows = ", ".join(f"({i}, {value})" for i, value in enumerate((*values, "NULL")))
    connection.execute(f"CREATE OR REPLACE TABLE before (i INTEGER, c0 {type})")
    connection.execute(f"INSERT INTO before VALUES {rows}")
    file = tmp_path / "section.parquet"
    connection.execute(f"COPY (SELECT i, {encode('c0', type)} AS c0 FROM before) TO '{file}'")
    connection.execute(
        f"CREATE OR REPLACE TABLE after AS SELECT i, {decode('c0', type)} AS c0 FROM '{file}'"
    )
    text = "SELECT i, typeof(c0), c0::VARCHAR, c0 IS NULL FROM {} ORDER BY i"
    expected = connection.execute(text.format("before")).fetchall()
    assert connection.execute(text.format("after")).fetchall() == expected
    different = (
        "SELECT count(*) FROM before b JOIN after a USING (i) WHERE a.c0 IS DISTINCT FROM b.c0"
    )
    assert connection.execute(different).fetchall() == [(0,)]


@pytest.mark.parametrize("type", [type for type, _ in VALUES if type != "GEOMETRY"])
def test_a_section_has_the_type_that_empty_inputs_are_given(connection, tmp_path, type) -> None:
    file = tmp_path / "section.parquet"
    connection.execute(f"CREATE OR REPLACE TABLE before (c0 {type})")
    connection.execute(f"COPY (SELECT {encode('c0', type)} AS c0 FROM before) TO '{file}'")
    (described,) = connection.execute(f"DESCRIBE SELECT * FROM '{file}'").fetchall()
    assert parse_type(described[1]) == parse_type(carrier_type(type))


def test_interval_parts_do_not_merge(connection) -> None:
    """A month is not thirty days, though they compare as equal."""
    back = decode(f"({encode('i', 'INTERVAL')})", "INTERVAL")
    rows = connection.execute(
        f"SELECT ({back})::VARCHAR FROM (VALUES (INTERVAL 1 MONTH), (INTERVAL 30 DAY)) t(i)"
    ).fetchall()
    assert rows == [("1 month",), ("30 days",)]


def test_union_keeps_the_tag_of_a_null_member(connection) -> None:
    type = "UNION(a INTEGER, b INTEGER)"
    back = decode(f"({encode('u', type)})", type)
    row = connection.execute(
        f"SELECT union_tag({back})::VARCHAR FROM "
        f"(SELECT CAST(union_value(b := NULL::INTEGER) AS {type}) AS u)"
    ).fetchone()
    assert row == ("b",)


def test_plain_columns_are_left_alone() -> None:
    for type in (
        "BIGINT",
        "VARCHAR",
        "DECIMAL(12,2)",
        "STRUCT(a DATE, b INTEGER[])",
        "MAP(DATE, UUID)",
    ):
        assert encode("c0", type) == "c0"


@pytest.mark.parametrize("type", ["TYPE", "HUGEINT[", "STRUCT(a VARIANT)", "VARIANT[]"])
def test_a_type_without_carrier_is_named_with_its_column(type: str) -> None:
    columns = (CarriedColumn(type="INTEGER"), CarriedColumn(type=type))
    with pytest.raises(CarrierError, match="column price.*" + type.split("[")[0].split("(")[0]):
        check_columns(columns, ("id", "price"))


@pytest.mark.parametrize(
    "text",
    [
        'STRUCT("a b" INTEGER, """q" VARCHAR)[3][]',
        "ENUM('a', 'it''s')",
        "MAP(VARCHAR, TIMESTAMP WITH TIME ZONE)",
        "UNION(n INTEGER, s DECIMAL(18,3))",
        "TUPLE(INTEGER, TUPLE(DATE))",
        '"NULL"[]',
    ],
)
def test_type_texts_are_read_as_the_engine_reads_them(connection, text: str) -> None:
    (printed,) = connection.execute(f"SELECT typeof(NULL::{parse_type(text)})").fetchone()
    assert printed == connection.execute(f"SELECT typeof(NULL::{text})").fetchone()[0]
    assert parse_type(printed) == parse_type(text)
