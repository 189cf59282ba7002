"""How single values are written."""

from __future__ import annotations

import datetime
import decimal
import uuid

import pytest

from crossdock.results.values import (
    column_type,
    is_text,
    json_converter,
    plain_json,
    text_converter,
)


@pytest.mark.parametrize(
    ("type", "value", "expected"),
    [
        ("INTEGER", 7, 7),
        ("BIGINT", 2**53, 2**53),
        ("BIGINT", 2**53 + 1, "9007199254740993"),
        ("UBIGINT", 2**64 - 1, "18446744073709551615"),
        ("HUGEINT", "5", "5"),
        ("DECIMAL(4,2)", "0.10", "0.10"),
        ("DOUBLE", 0.5, 0.5),
        ("DOUBLE", float("nan"), "NaN"),
        ("DOUBLE", float("-inf"), "-Infinity"),
        ("FLOAT", "0.1", 0.1),
        ("FLOAT", "inf", "Infinity"),
        ("BLOB", b"\x00\xff", "00ff"),
        ("BOOLEAN", True, True),
        ("JSON", '{"a": 1}', '{"a": 1}'),
        ("HUGEINT[]", [1, None], ["1", None]),
        ("DECIMAL(4,2)[]", [decimal.Decimal("0.10")], ["0.10"]),
        ("DOUBLE[2]", (1.0, float("inf")), [1.0, "Infinity"]),
        ('STRUCT("a b" BIGINT, c VARCHAR[])', {"a b": 2**60, "c": ["x"]},
         {"a b": "1152921504606846976", "c": ["x"]}),
        ("MAP(INTEGER, VARCHAR)", {1: "a", 2: None}, [[1, "a"], [2, None]]),
        ("MAP(INTEGER[], INTEGER)", {"key": [[1]], "value": [2]}, [[[1], 2]]),
        ("TUPLE(INTEGER, HUGEINT)", (1, 2), [1, "2"]),
        ("UNION(k INTEGER, s VARCHAR)", "x", "x"),
    ],
)  # fmt: skip
def test_json_value(type: str, value: object, expected: object) -> None:
    assert json_converter(column_type(type))(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (datetime.date(2024, 2, 29), "2024-02-29"),
        (datetime.datetime(2024, 2, 29, 1), "2024-02-29T01:00:00"),
        (datetime.time(1, 2, 3), "01:02:03"),
        (datetime.timedelta(days=1), datetime.timedelta(days=1)),
        (decimal.Decimal("1E-7"), "0.0000001"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ([{"k": (1, b"\x01")}], [{"k": [1, "01"]}]),
    ],
)
def test_value_without_a_rule_of_its_own(value: object, expected: object) -> None:
    assert plain_json(value) == expected


@pytest.mark.parametrize(
    ("type", "value", "expected"),
    [
        ("BOOLEAN", False, "false"),
        ("DOUBLE", 1.0, "1.0"),
        ("BIGINT", 2**60, "1152921504606846976"),
        ("VARCHAR", "as it is", "as it is"),
        ("INTEGER[]", [1, None], "[1,null]"),
        ("STRUCT(a INTEGER)", {"a": 1}, '{"a":1}'),
        ("BLOB", b"\xab", "ab"),
        ("INTERVAL", "1 month", "1 month"),
    ],
)
def test_text_value(type: str, value: object, expected: str) -> None:
    assert text_converter(column_type(type))(value) == expected


def test_types_whose_python_value_loses_something_come_as_text() -> None:
    assert all(map(is_text, ("INTERVAL", "DECIMAL(9,2)", "TIMESTAMP WITH TIME ZONE", "FLOAT")))
    assert not any(map(is_text, ("BIGINT", "DOUBLE", "VARCHAR", "DATE[]", "no type (at all")))
