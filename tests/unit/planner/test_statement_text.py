"""What DuckDB's parser takes around a statement, the binder takes too."""

from __future__ import annotations

import pytest

from crossdock.catalog import Catalog
from crossdock.errors import SqlError
from crossdock.planner.binder import Binder
from crossdock.planner.tokens import Reader, without_empty_statements


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


def test_only_leading_semicolons_go_and_places_stay() -> None:
    assert without_empty_statements("/* ; */;SELECT ';';") == "/* ; */ SELECT ';';"
    assert without_empty_statements("SELECT ';'; ") == "SELECT ';'; "


def test_half_characters_are_refused_in_words() -> None:
    with pytest.raises(SqlError, match="not valid Unicode"):
        Binder(Catalog()).bind("SELECT '\udcff'")
    with pytest.raises(SqlError, match="not valid Unicode"):
        Reader("CREATE TABLE x AS SELECT '\udcff'")
