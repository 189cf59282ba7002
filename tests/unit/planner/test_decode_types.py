from __future__ import annotations

import duckdb
import pytest

from crossdock.errors import Unsupported
from crossdock.planner.decode.types import type_text
from crossdock.planner.keywords import GRAMMAR_WORDS, KEYWORDS
from tests.unit.planner.plan_json import decoded, planner

TYPES = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "UHUGEINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(4,1)",
    "DECIMAL(38,0)",
    "VARCHAR",
    "BLOB",
    "BIT",
    "BIGNUM",
    "UUID",
    "DATE",
    "TIME",
    "TIME_NS",
    "TIME WITH TIME ZONE",
    "TIMESTAMP",
    "TIMESTAMP_S",
    "TIMESTAMP_MS",
    "TIMESTAMP_NS",
    "TIMESTAMP WITH TIME ZONE",
    "INTERVAL",
    "JSON",
    "VARIANT",
    "GEOMETRY",
    "INTEGER[]",
    "DECIMAL(9,2)[][]",
    "VARCHAR[3]",
    "INTEGER[2][]",
    "ENUM('a', 'b c', 'it''s', '')",
    "MAP(INTEGER, VARCHAR[])",
    "MAP(STRUCT(a INTEGER), MAP(VARCHAR, DATE))",
    'STRUCT(a INTEGER, "b c" VARCHAR, "x""y" DATE, "select" INTEGER, Upper BIGINT, "é" INTEGER)',
    'UNION(num INTEGER, "a b" STRUCT(z JSON))',
    "TUPLE(INTEGER, STRUCT(a VARCHAR))",
]


@pytest.mark.parametrize("text", TYPES)
def test_type_text_is_not_the_engine_s_own(text: str) -> None:
    (row,) = planner().execute(f"SELECT typeof(NULL::{text})").fetchall()
    assert decoded(f"SELECT NULL::{text}").types == (row[0],)
    assert row[0] == text


def test_null_has_no_type_of_its_own() -> None:
    (row,) = planner().execute("SELECT typeof(NULL)").fetchall()
    assert decoded("SELECT NULL").types == (row[0],)


def test_some_keyword_is_quoted_otherwise_than_the_engine_does() -> None:
    fields = ", ".join(f'"{word}" INTEGER' for word in sorted(KEYWORDS | {"plain"}))
    (row,) = planner().execute(f"SELECT typeof(NULL::STRUCT({fields}))").fetchall()
    assert decoded(f"SELECT NULL::STRUCT({fields})").types == (row[0],)


def test_keywords_differ_from_those_of_the_pinned_engine() -> None:
    rows = duckdb.connect().execute(
        "SELECT keyword_name, keyword_category <> 'unreserved' FROM duckdb_keywords()"
    )
    words = rows.fetchall()
    assert {word for word, _ in words} == KEYWORDS
    assert {word for word, grammar in words if grammar} == GRAMMAR_WORDS


def test_collation_stays_in_a_type_and_would_apply_twice() -> None:
    assert decoded("SELECT s COLLATE NOCASE FROM t").types == ("VARCHAR",)


@pytest.mark.parametrize(
    ("node", "named"),
    [
        ({"id": "QUATERNION"}, "QUATERNION"),
        ({"id": "INTEGER", "type_info": {"type": "GENERIC_TYPE_INFO", "alias": "age"}}, "age"),
        ({"id": "VARCHAR", "type_info": {"type": "GENERIC_TYPE_INFO", "alias": "INET"}}, "INET"),
        ({"id": "INTEGER", "type_info": {"type": "INTEGER_LITERAL_TYPE_INFO"}}, "INTEGER_LITERAL"),
        ({"id": "DECIMAL", "type_info": {"type": "X", "width": 4, "base": 16}}, "base = 16"),
        ({"id": "ANY"}, "ANY"),
        ({"id": "LIST", "type_info": {"child_type": {"id": "LAMBDA"}}}, "LAMBDA"),
        ({"id": "STRUCT", "type_info": {"child_types": [{"second": {"id": "DATE"}}]}}, "unnamed"),
    ],
)
def test_unknown_type_is_guessed(node: dict[str, object], named: str) -> None:
    with pytest.raises(Unsupported, match=named):
        type_text(node)
