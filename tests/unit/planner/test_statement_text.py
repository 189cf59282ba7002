"""What DuckDB's parser takes around a statement, the binder takes too."""

from __future__ import annotations

import duckdb
import pytest

from crossdock.catalog import Catalog
from crossdock.errors import SqlError
from crossdock.planner.binder import Binder
from crossdock.planner.definitions import Drop, read_change
from crossdock.planner.tokens import Reader, without_empty_statements
from crossdock.tables import Kind
from crossdock.writes.header import Insert, read_header


@pytest.mark.parametrize(
    "sql",
    [
        ";SELECT 1 AS x",
        ";;SELECT 1 AS x;;",
        "/* ; */ ;; -- \u00fc ;\n ; SELECT 1 AS x -- ;",
        "SELECT 1 AS x; -- end",
    ],
)
def test_empty_statements_around_a_query_mean_nothing(sql: str) -> None:
    bound = Binder(Catalog()).bind(sql)
    assert [(column.name, column.type) for column in bound.columns] == [("x", "INTEGER")]


def test_empty_statements_before_one_that_changes_or_writes() -> None:
    assert read_change("; DROP VIEW v") == Drop(kind=Kind.VIEW, name="v", tolerant=False)
    with duckdb.connect() as connection:
        header = read_header(connection, "-- why\n;INSERT INTO t SELECT 2")
    assert isinstance(header, Insert)
    assert header.name == "t"
    assert header.query.strip() == "SELECT 2"


def test_only_leading_semicolons_go_and_places_stay() -> None:
    assert without_empty_statements("/* ; */;SELECT ';';") == "/* ; */ SELECT ';';"
    assert without_empty_statements("SELECT ';'; ") == "SELECT ';'; "


def test_half_characters_are_refused_in_words() -> None:
    with pytest.raises(SqlError, match="not valid Unicode"):
        Binder(Catalog()).bind("SELECT '\udcff'")
    with pytest.raises(SqlError, match="not valid Unicode"):
        Reader("CREATE TABLE x AS SELECT '\udcff'")
