"""``cursor.arrow()`` has DuckDB's schema and values, of every type, however they got there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import crossdock
from crossdock.client.connection import Connection

ZONE = "America/New_York"
_MOMENT = "(TIMESTAMP '2024-03-10 06:59:58' + to_seconds(id))"
#: Values by ``id``; all can be compared, so that each is a maximum of a group too.
VALUES = (
    *("id::DECIMAL(4,1)", "id::DECIMAL(18,3)", "id::DECIMAL(38,5)", "id::HUGEINT", "id::UHUGEINT"),
    *("(id - 9007199254740993)::HUGEINT", "id::BIGNUM", "(id % 7)::TINYINT", "id::UBIGINT"),
    *("id::FLOAT", "id::DOUBLE / 3", "'x' || id", "('x' || id)::BLOB", "(id % 2)::VARCHAR::BIT"),
    *("DATE '2024-01-01' + id::INTEGER", "TIME '10:00:00.5' + to_seconds(id)"),
    *("('10:00:00+0' || (id % 3))::TIMETZ", "'12:00:00.123456789'::TIME_NS", _MOMENT),
    *(f"{_MOMENT}::TIMESTAMP_S", f"{_MOMENT}::TIMESTAMP_MS", f"{_MOMENT}::TIMESTAMPTZ"),
    *("make_timestamp_ns(id * 1000000001)", "to_months(id::INTEGER) + to_seconds(id)"),
    *("('00000000-0000-0000-0000-0000000000' || (id + 10))::UUID", "id = 3", "NULL::HUGEINT"),
    *("(CASE id % 2 WHEN 0 THEN 'a' ELSE 'b' END)::ENUM('a', 'b', 'c')", "id::VARCHAR::JSON"),
    *("[id, NULL]", "[id::HUGEINT]", "[1.5::DECIMAL(38,10)]", "[id, id]::INTEGER[2]", "[]"),
    *("{'a': id, 'b': 'x'}", "{'h': id::HUGEINT, 'i': to_days(id::INTEGER)}", "row(id, 'x')"),
    *("MAP {'k' || id: id::DECIMAL(9,2)}", "union_value(n := id)", "[{'e': 'a'::ENUM('a', 'b')}]"),
    *("{'t': TIMETZ '10:00:00+02', 'b': '01'::BIT}", "id::VARIANT", "'POINT(1 1)'::GEOMETRY"),
    "sum(id) OVER (PARTITION BY g)",
)
_LISTED = ", ".join(f"{value} AS v{i}" for i, value in enumerate(VALUES))
_LARGEST = ", ".join(f"max(v{i}) AS m{i}" for i in range(len(VALUES)))
QUERIES = {
    "rows": f"SELECT id, {_LISTED} FROM t ORDER BY id",
    "groups": f"SELECT g, {_LARGEST} FROM (SELECT g, {_LISTED} FROM t) GROUP BY g ORDER BY g",
    "joined": f"SELECT s.* FROM (SELECT id, {_LISTED} FROM t) AS s JOIN t USING (id) ORDER BY s.id",
    "sums": "SELECT sum(9007199254740993 * (id % 2)) AS s, count(*) AS n, avg(id) AS a FROM t",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("t")
    for part in range(3):
        duckdb.sql(
            f"COPY (SELECT i AS id, i % 3 AS g FROM range({part * 7}, {part * 7 + 7}) r(i)) "
            f"TO '{target}/{part}.parquet'"
        )
    return target


@pytest.fixture(scope="module", params=["one task", "stages"])
def connection(
    request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connection]:
    forced = {"single_task_bytes": 0, "broadcast_bytes": 0, "partitions": 2}
    with crossdock.connect(
        home=tmp_path_factory.mktemp("home"),
        tables={"t": str(folder)},
        workers=1,
        worker_memory="512MB",
        timezone=ZONE,
        **(forced if request.param == "stages" else {}),
    ) as opened:
        yield opened


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, pa.Table]:
    with duckdb.connect() as oracle:
        oracle.execute(f"SET TimeZone = '{ZONE}'")
        oracle.execute(f"CREATE VIEW t AS FROM '{folder}/*.parquet'")
        return {name: oracle.sql(sql).to_arrow_table() for name, sql in QUERIES.items()}


@pytest.mark.parametrize("name", QUERIES)
def test_arrow_has_duckdbs_schema_and_values(
    name: str, connection: Connection, expected: dict[str, pa.Table]
) -> None:
    with connection.execute(QUERIES[name]) as cursor:
        found = cursor.arrow()
    assert found.schema == expected[name].schema
    for column in expected[name].column_names:
        if not pa.types.is_floating(found.schema.field(column).type):
            assert found[column].equals(expected[name][column]), column
        else:
            assert found[column].to_pylist() == pytest.approx(expected[name][column].to_pylist())
