"""TPC-H through a deployment, compared with DuckDB over the same files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import duckdb

import crossdock

TABLES = ("lineitem", "orders", "customer", "nation", "region", "supplier", "part", "partsupp")
#: Cut up whatever can be, and send rows through queues: no broadcasts.
FORCED = {"single_task_bytes": 0, "broadcast_bytes": 0}


def compare(
    connection: crossdock.Connection, reference: duckdb.DuckDBPyConnection, sql: str
) -> None:
    """Rows and types of one query, which must have had a shuffle."""
    expected = reference.execute(sql)
    with connection.execute(sql) as cursor:
        rows = cursor.fetchall()
        names = [column[0] for column in cursor.description or ()]
        assert names == [column[0] for column in expected.description]
        assert same(rows, expected.fetchall())
        assert cursor.receipt is not None
        assert cursor.receipt.status == "SUCCEEDED"
        assert len(cursor.receipt.stages) > 1


def same(found: Sequence[tuple[Any, ...]], expected: Sequence[tuple[Any, ...]]) -> bool:
    """Equal rows in any order; sums of floats may differ in their last digits."""

    def key(row: tuple[Any, ...]) -> list[str]:
        return [f"{v:.6g}" if isinstance(v, float) else repr(v) for v in row]

    def equal(a: Any, b: Any) -> bool:
        if isinstance(a, float) and isinstance(b, float):
            return math.isclose(a, b, rel_tol=1e-9)
        return bool(a == b)

    pairs = zip(sorted(found, key=key), sorted(expected, key=key), strict=True)
    return all(all(map(equal, mine, theirs)) for mine, theirs in pairs)
