"""Plans over shadow tables: present, typed, join orders sensible, deterministic."""

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossdock.catalog import Catalog
from crossdock.errors import SqlError
from crossdock.planner.binder import Binder
from crossdock.planner.shadow import LARGEST_SHADOW, shadow_rows
from crossdock.planner.syntax import Syntax, without_places
from tests.datasets import benchmark_queries


def catalog_of(folder: Path) -> Catalog:
    catalog = Catalog()
    for path in sorted(folder.glob("*.parquet")):
        catalog.add(path.stem, path)
    return catalog


@pytest.fixture(scope="module")
def tpch(tpch_tiny: Path) -> Binder:
    return Binder(catalog_of(tpch_tiny))


def nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for child in plan.get("children", ()):
        yield from nodes(child)


def scans(plan: Mapping[str, Any]) -> list[str]:
    return [n["function_data"]["table"] for n in nodes(plan) if n["type"] == "LOGICAL_GET"]


@pytest.mark.parametrize(("number", "sql"), benchmark_queries("tpch"))
def test_tpch_has_plans_without_cross_products(tpch: Binder, number: str, sql: str) -> None:
    bound = tpch.bind(sql)
    assert bound.plan is not None
    kinds = {node["type"] for node in nodes(bound.plan)}
    # Q11 and Q22 join a one-row subquery
    assert number in ("11", "22") or "LOGICAL_CROSS_PRODUCT" not in kinds
    assert "LOGICAL_EMPTY_RESULT" not in kinds
    assert set(scans(bound.plan)) == set(bound.tables)


@pytest.mark.parametrize("number", ["3", "5", "7", "8", "9", "10", "21"])
def test_the_largest_table_is_streamed_past_the_smaller_ones(tpch: Binder, number: str) -> None:
    """Lineitem is never on the build (right) side of a join with a smaller left side."""
    plan = tpch.bind(dict(benchmark_queries("tpch"))[number]).plan
    assert plan is not None
    joins = [node for node in nodes(plan) if node["type"] == "LOGICAL_COMPARISON_JOIN"]
    for join in joins:
        left, right = (scans(child) for child in join["children"])
        assert right != ["lineitem"], f"lineitem is built for {left}"


@pytest.mark.parametrize(("number", "sql"), benchmark_queries("tpcds"))
def test_tpcds_columns_are_those_of_the_data(
    tpcds_binder: Binder, tpcds_engine: duckdb.DuckDBPyConnection, number: str, sql: str
) -> None:
    bound = tpcds_binder.bind(sql)
    assert bound.plan is not None, bound.reason
    wanted = tpcds_engine.execute(f"DESCRIBE {sql}").fetchall()
    assert [(c.name, c.type) for c in bound.columns] == [(name, kind) for name, kind, *_ in wanted]
    assert set(scans(bound.plan)) == set(bound.tables)


@pytest.fixture(scope="module")
def tpcds_binder(tpcds_tiny: Path) -> Binder:
    return Binder(catalog_of(tpcds_tiny))


@pytest.fixture(scope="module")
def tpcds_engine(tpcds_tiny: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for path in tpcds_tiny.glob("*.parquet"):
            connection.execute(f"CREATE VIEW {path.stem} AS FROM '{path}'")
        yield connection


@pytest.mark.parametrize("benchmark", ["tpch", "tpcds"])
def test_a_statement_written_back_from_its_tree_is_the_same_statement(benchmark: str) -> None:
    with duckdb.connect() as connection:
        syntax = Syntax(connection)
        for number, sql in benchmark_queries(benchmark):
            (tree,) = syntax.parse(sql)
            (again,) = syntax.parse(syntax.text(tree))
            assert without_places(again) == without_places(tree), number


def test_a_plan_does_not_depend_on_what_was_bound_before(tpch_tiny: Path) -> None:
    queries = dict(benchmark_queries("tpch"))
    fresh = Binder(catalog_of(tpch_tiny)).bind(queries["5"])
    used = Binder(catalog_of(tpch_tiny))
    for number in ("1", "11", "22"):
        used.bind(queries[number])
    assert used.bind(queries["5"]).plan == fresh.plan


def test_a_table_of_an_earlier_statement_is_not_found_later(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1]}), tmp_path / "orders.parquet")
    binder = Binder(Catalog())
    binder.bind(f"FROM '{tmp_path}/orders.parquet'")
    for sql in ("FROM orders", "WITH orders AS (FROM orders) FROM orders"):
        with pytest.raises(SqlError):
            binder.bind(sql)


def test_shadows_of_named_files_do_not_pile_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crossdock.planner.shadow.KEPT_SHADOWS", 3)
    binder = Binder(Catalog())
    for number in range(6):
        pq.write_table(pa.table({"k": [1]}), tmp_path / f"t{number}.parquet")
        binder.bind(f"FROM '{tmp_path}/t{number}.parquet'")
    query = "SELECT table_name FROM duckdb_tables() ORDER BY ALL"
    assert binder._connection.execute(query).fetchall() == [("t3",), ("t4",), ("t5",)]


def test_row_counts_are_in_proportion_bounded_and_never_lost() -> None:
    rows = {"big": 6_000_000_000, "tenth": 600_000_000, "small": 25, "one": 1, "none": 0}
    made = shadow_rows(rows)
    assert LARGEST_SHADOW / 4 <= made["big"] <= LARGEST_SHADOW
    assert made["big"] // 10 - 1 <= made["tenth"] <= made["big"] // 10 + 1
    assert (made["small"], made["one"], made["none"]) == (25, 1, 0)


def test_every_type_has_a_shadow(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            f"""COPY (SELECT 1::UTINYINT a, -1::TINYINT b, 300::SMALLINT c, 2::UBIGINT d,
            99999999999999999999.5::DECIMAL(30, 1) e, -0.5::DECIMAL(4, 3) f, DATE '0001-01-01' g,
            DATE '9999-12-31' h, TIMESTAMP '2020-01-01' i, TIMESTAMPTZ '2020-01-01' j,
            'x'::BLOB k, [1] l, {{'p "q': 1}} m, MAP {{'k': 1}} n, TIME '01:00' o, uuid() p,
            true q, 1.5 r, '{{}}'::JSON s, TIMESTAMP_NS '2020-01-01' t, 'x' "we""ird"
            FROM range(3000)) TO '{tmp_path}/x.parquet' (FORMAT parquet)"""
        )
        wanted = connection.execute(f"DESCRIBE FROM '{tmp_path}/x.parquet'").fetchall()
    bound = Binder(Catalog()).bind(f"FROM '{tmp_path}/x.parquet'")
    assert [(c.name, c.type) for c in bound.columns] == [(name, kind) for name, kind, *_ in wanted]
    assert bound.plan is not None


def test_a_table_without_rows_binds(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": pa.array([], pa.int32())}), tmp_path / "x.parquet")
    bound = Binder(Catalog()).bind(f"SELECT sum(k), count(*) FROM '{tmp_path}/x.parquet'")
    assert bound.plan is not None
    assert [c.type for c in bound.columns] == ["HUGEINT", "BIGINT"]


def test_names_of_tables_and_columns_may_need_quotes() -> None:
    catalog = Catalog()
    catalog.add('select "x"', pa.table({"a b": [1], "FROM": [2], "é": [3]}))
    bound = Binder(catalog).bind('SELECT * FROM "SELECT ""X"""')
    assert [c.name for c in bound.columns] == ["a b", "FROM", "é"]
    assert list(bound.tables) == ['select "x"']


def test_duplicate_and_unnamed_columns_keep_duckdbs_names() -> None:
    bound = Binder(Catalog()).bind("SELECT 1 AS a, 2 AS a, 1 + 1, 'x'::ENUM('x', 'y') AS e")
    assert [(c.name, c.type) for c in bound.columns] == [
        ("a", "INTEGER"),
        ("a", "INTEGER"),
        ("(1 + 1)", "INTEGER"),
        ("e", "ENUM('x', 'y')"),
    ]


def test_nan_and_infinity_survive_in_plans() -> None:
    plan = Binder(Catalog()).bind("SELECT 'nan'::DOUBLE, ['inf'::DOUBLE, '-inf'::FLOAT]").plan
    assert plan is not None
    assert "nan" in str(plan)
    assert "-inf" in str(plan)


def test_what_duckdb_cannot_serialise_has_a_reason_and_no_plan() -> None:
    bound = Binder(Catalog()).bind("SELECT * FROM repeat(1, 3)")
    if bound.plan is None:
        assert bound.reason
    else:
        assert bound.reason == ""


def test_threads_may_share_a_binder(tpch: Binder) -> None:
    queries = benchmark_queries("tpch")[:6]
    alone = {number: tpch.bind(sql).plan for number, sql in queries}
    together: dict[str, Any] = {}

    def bind(number: str, sql: str) -> None:
        together[number] = tpch.bind(sql).plan

    threads = [threading.Thread(target=bind, args=query) for query in queries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_a_constant_without_a_text_form_costs_no_plan() -> None:
    catalog = Catalog()
    catalog.add("u", pa.table({"n": [1]}))
    binder = Binder(catalog)
    assert binder.bind("SELECT n, '0101'::BIT AS b FROM u").plan is not None
    rewritten = binder.bind("SELECT n FROM u WHERE 1 = 1").plan
    assert "FILTER" not in str(rewritten)  # the rule is on again
