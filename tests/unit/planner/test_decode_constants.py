from __future__ import annotations

import duckdb
import pytest

from crossdock.errors import Unsupported
from crossdock.planner.decode import parse_plan_text
from crossdock.planner.decode.constants import decode_constant
from crossdock.planner.nodes import Constant, Project
from tests.unit.planner.plan_json import decoded, document

#: The values themselves are compared with the engine's in the round trip; here their text.
TEXTS = [
    ("1", "CAST(1 AS INTEGER)"),
    ("(-1)::TINYINT", "CAST('-1' AS TINYINT)"),
    ("'-170141183460469231731687303715884105728'::HUGEINT", None),
    ("1.50", "CAST('1.50' AS DECIMAL(3,2))"),
    ("'-0.05'::DECIMAL(3, 2)", "CAST('-0.05' AS DECIMAL(3,2))"),
    ("7::DECIMAL(4, 0)", "CAST('7' AS DECIMAL(4,0))"),
    ("0.1::DOUBLE", "CAST('0.1' AS DOUBLE)"),
    ("'-0.0'::DOUBLE", "CAST('-0.0' AS DOUBLE)"),
    ("'NaN'::FLOAT", "CAST('nan' AS FLOAT)"),
    ("'-Infinity'::DOUBLE", "CAST('-inf' AS DOUBLE)"),
    ("'it''s'", "'it''s'"),
    ("NULL::DATE", "CAST(NULL AS DATE)"),
    ("DATE '0044-03-15 (BC)'", "CAST('0044-03-15 (BC)' AS DATE)"),
    ("DATE '12024-02-29'", "CAST('12024-02-29' AS DATE)"),
    ("DATE 'infinity'", "CAST('infinity' AS DATE)"),
    ("TIME '24:00:00'", "CAST('24:00:00' AS TIME)"),
    ("'12:13:14.5-15:59:59'::TIMETZ", "CAST('12:13:14.500000-15:59:59' AS TIME WITH TIME ZONE)"),
    (
        "'2024-01-01 05:00:00+05'::TIMESTAMPTZ",
        "CAST('2024-01-01 00:00:00+00' AS TIMESTAMP WITH TIME ZONE)",
    ),
    (
        "'1969-12-31 23:59:59.999999999'::TIMESTAMP_NS",
        "CAST('1969-12-31 23:59:59.999999999' AS TIMESTAMP_NS)",
    ),
    (
        "INTERVAL '1 month -2 days 1 second'",
        "CAST('1 months -2 days 1000000 microseconds' AS INTERVAL)",
    ),
    ("'\\xAA\\x00'::BLOB", "CAST('\\xAA\\x00' AS BLOB)"),
    (
        "UUID 'ffffffff-ffff-ffff-ffff-ffffffffffff'",
        "CAST('ffffffff-ffff-ffff-ffff-ffffffffffff' AS UUID)",
    ),
    ("'b'::ENUM('a', 'b')", "CAST('b' AS ENUM('a', 'b'))"),
    ("['a', NULL]", "CAST(['a', CAST(NULL AS VARCHAR)] AS VARCHAR[])"),
    ("{'A b': 'x'}", "struct_pack(\"A b\" := 'x')"),
    ("[true]::BOOLEAN[1]", "CAST([true] AS BOOLEAN[1])"),
]


def constant(sql: str) -> Constant:
    relation = decoded(f"SELECT {sql}")
    assert isinstance(relation, Project)
    (only,) = relation.expressions
    assert isinstance(only, Constant), only
    return only


@pytest.mark.parametrize(("sql", "text"), TEXTS)
def test_text_of_a_constant_is_not_its_value_and_type(sql: str, text: str | None) -> None:
    written = constant(sql)
    if text is not None:
        assert written.sql == text
    engine = duckdb.connect()
    engine.execute("SET TimeZone = 'UTC'")
    both = f"(SELECT {sql} AS x, {written.sql} AS y)"
    query = f"SELECT x IS NOT DISTINCT FROM y, typeof(x), typeof(y) FROM {both}"
    (row,) = engine.execute(query).fetchall()
    assert row == (True, written.type, written.type)


@pytest.mark.parametrize("sql", ["chr(0)", "'a' || chr(0) || chr(0) || 'it''s'"])
def test_zero_character_cuts_a_string(sql: str) -> None:
    (row,) = duckdb.connect().execute(f"SELECT {sql} = {constant(sql).sql}").fetchall()
    assert row == (True,)


@pytest.mark.parametrize("sql", ["'101'::BIT", "12345678901234567890123::BIGNUM"])
def test_constant_the_engine_leaves_out_is_taken_for_empty(sql: str) -> None:
    with pytest.raises(Unsupported, match="does not serialise"):
        document(f"SELECT {sql}")


def test_constant_inside_a_list_that_has_no_text_form_is_written() -> None:
    with pytest.raises(Unsupported, match="VARIANT"):
        decoded("SELECT [1::VARIANT]")


def test_nan_in_a_plan_is_a_parse_error() -> None:
    plan = parse_plan_text('{"value":NAN,"x":[{"value":-NAN},{"value":Infinity}]}')
    assert plan["value"] != plan["value"]
    assert plan["x"][1]["value"] == float("inf")


def test_string_that_looks_like_a_bare_nan_is_rewritten() -> None:
    text = '"value":NAN'
    assert constant(f"'{text}'").sql == f"'{text}'"


@pytest.mark.parametrize("text", ["", "{", "[]", "nonsense"])
def test_text_that_is_no_plan_is_an_unnamed_error(text: str) -> None:
    with pytest.raises(Unsupported):
        parse_plan_text(text)


@pytest.mark.parametrize(
    "node",
    [
        {"type": {"id": "INTEGER"}, "is_null": False},
        {"type": {"id": "BIT"}, "is_null": False, "value": ""},
        {"type": {"id": "INTEGER"}, "is_null": False, "value": 1, "unit": "cm"},
        {"is_null": False, "value": 1},
        {"type": {"id": "INTERVAL"}, "is_null": False, "value": {"micros": -(2**63)}},
    ],
)
def test_constant_of_unknown_form_is_guessed(node: dict[str, object]) -> None:
    with pytest.raises(Unsupported):
        decode_constant(node)
