"""Files named inside a statement become tables that keep their aliases."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossdock.catalog import Catalog, TableMeta
from crossdock.errors import SqlError, TableError
from crossdock.planner.binder import Binder, BoundStatement


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "parts" / "g=1").mkdir(parents=True)
    pq.write_table(pa.table({"k": [1, 2], "v": ["a", "b"]}), tmp_path / "orders.parquet")
    pq.write_table(pa.table({"k": [3], "v": ["c"]}), tmp_path / "parts" / "g=1" / "x.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(table: TableMeta) -> str:
    files = ", ".join(f"'{file.path}'" for file in table.files)
    hive = str(bool(table.hive_types)).lower()
    return f"read_parquet([{files}], hive_partitioning = {hive})"


def run(bound: BoundStatement) -> tuple[list[str], list[Any]]:
    """What the statement gives over views of its tables, as a worker has them."""
    with duckdb.connect() as connection:
        for name, table in bound.tables.items():
            connection.execute(f'CREATE VIEW "{name}" AS FROM {read(table)}')
        got = connection.execute(bound.sql)
        names = [column[0] for column in got.description or ()]
        return names, got.fetchall()


@pytest.mark.parametrize(
    "sql",
    [
        "FROM 'orders.parquet'",
        'SELECT orders.k FROM "orders.parquet"',
        "SELECT t.v FROM 'orders.parquet' AS t WHERE t.k = 1",
        "SELECT t.b FROM 'orders.parquet' t(a, b)",
        "SELECT x.k, g FROM 'parts/g=1/x.parquet'",
        "SELECT * FROM 'parts/*/*.parquet'",
        "SELECT read_parquet.k FROM read_parquet('orders.parquet')",
        "SELECT parquet_scan.k FROM parquet_scan('orders.parquet')",
        "SELECT z.a FROM read_parquet(['orders.parquet', 'parts/g=1/x.parquet']) AS z(a)",
        "FROM read_parquet('parts/*/x.parquet', hive_partitioning = false)",
        "FROM read_parquet('parts/*/x.parquet', union_by_name := true)",
        "SELECT a.k, b.v FROM 'orders.parquet' a JOIN 'orders.parquet' b USING (k) ORDER BY 1",
        "WITH orders AS (FROM 'orders.parquet') FROM orders WHERE orders.k > 1",
        "SELECT (SELECT max(k) FROM 'orders.parquet'), count(*) FROM 'parts/g=1/x.parquet'",
        "SELECT count(*) FROM orders.parquet",
    ],
)
def test_rows_and_names_are_those_duckdb_reads_from_the_files(folder: Path, sql: str) -> None:
    bound = Binder(Catalog()).bind(sql)
    with duckdb.connect() as connection:
        wanted = connection.execute(sql)
        names = [column[0] for column in wanted.description or ()]
        assert run(bound) == (names, wanted.fetchall())
    assert [column.name for column in bound.columns] == names
    assert bound.plan is not None
    assert "read_parquet(" not in bound.sql
    assert "FROM '" not in bound.sql


def test_a_folder_and_a_parameter_name_files(folder: Path) -> None:
    binder = Binder(Catalog())
    assert run(binder.bind("SELECT k, g FROM 'parts/'"))[1] == [(3, 1)]
    bound = binder.bind("SELECT k + ? AS k FROM read_parquet(?)", [10, ["orders.parquet"]])
    assert run(bound) == (["k"], [(11,), (12,)])


def test_a_table_of_the_catalog_wins_over_a_file(folder: Path) -> None:
    catalog = Catalog()
    catalog.add("orders.parquet", pa.table({"other": [1]}))
    catalog.add("orders", pa.table({"mine": [1]}))
    binder = Binder(catalog)
    assert [c.name for c in binder.bind("FROM 'orders.parquet'").columns] == ["other"]
    both = binder.bind("SELECT orders.mine, o.k FROM orders, './orders.parquet' AS o")
    assert sorted(both.tables) == ["orders", "orders_2"]
    assert sorted(run(both)[1]) == [(1, 1), (1, 2)]


def test_one_file_named_twice_is_one_table_and_names_do_not_depend_on_order(folder: Path) -> None:
    sql = "SELECT 1 FROM 'orders.parquet' a, 'parts/g=1/x.parquet' b, 'orders.parquet' c"
    first, second = Binder(Catalog()), Binder(Catalog())
    second.bind("FROM 'parts/g=1/x.parquet'")
    assert list(first.bind(sql).tables) == list(second.bind(sql).tables) == ["orders", "x"]
    assert first.bind(sql).sql == second.bind(sql).sql


def test_a_new_file_is_seen_by_the_next_bind(folder: Path) -> None:
    binder = Binder(Catalog())
    assert binder.bind("FROM 'parts/'").tables["parts"].rows == 1
    pq.write_table(pa.table({"k": [4], "w": [1.5]}), folder / "parts" / "g=1" / "y.parquet")
    bound = binder.bind("FROM 'parts/'")
    assert bound.tables["parts"].rows == 2
    assert [c.name for c in bound.columns] == ["k", "v", "w", "g"]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("FROM read_parquet('orders.parquet', filename = true)", "the option filename is not"),
        ("FROM read_parquet('orders.parquet', union_by_name = 'maybe')", "must be true or false"),
        ("FROM read_parquet('a' || '.parquet')", "paths must be written as texts"),
        ("FROM read_parquet([])", "the list of paths is empty"),
        ("FROM read_parquet('a.parquet', 'b.parquet')", "one path or one list of paths"),
    ],
)
def test_arguments_that_are_not_supported_are_named(folder: Path, sql: str, said: str) -> None:
    with pytest.raises(SqlError, match=said):
        Binder(Catalog()).bind(sql)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("FROM 'order.parquet'", r"order\.parquet does not exist; did you mean .*orders\.parquet"),
        ("FROM 'parts/*.parquet'", r"no file matches parts/\*\.parquet"),
        ("FROM 's3://bucket/x.parquet'", "s3:// is not a local path"),
    ],
)
def test_files_that_are_not_there_are_named(folder: Path, sql: str, said: str) -> None:
    with pytest.raises(TableError, match=said):
        Binder(Catalog()).bind(sql)
