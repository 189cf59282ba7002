"""Values of the wrong Python type are named, before anything is made."""

from __future__ import annotations

from pathlib import Path

import pytest

import crossdock
from crossdock.client.history import LocalHistory
from crossdock.errors import CrossdockError


@pytest.mark.parametrize("statement", [None, 5, b"SELECT 1", ["SELECT 1"]])
def test_statement_that_is_no_text_is_refused(tmp_path: Path, statement: object) -> None:
    with (
        crossdock.connect(home=tmp_path) as connection,
        pytest.raises(crossdock.InterfaceError, match=f"not {type(statement).__name__}"),
    ):
        connection.execute(statement)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"tables": 5}, "tables = 5"),
        ({"tables": {"a": 5}}, "table a: .* not 5"),
        ({"tables": {"a": [5]}}, r"table a: .* not \[5\]"),
        ({"tables": {5: "x.parquet"}}, "not 5"),
        ({"home": 5}, "home = 5"),
        ({"home": b"folder"}, "home = b'folder'"),
    ],
)
def test_argument_of_a_wrong_type_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, object], named: str
) -> None:
    monkeypatch.setenv("CROSSDOCK_HOME", str(tmp_path / "home"))
    with pytest.raises(CrossdockError, match=named):
        crossdock.connect(**given)  # type: ignore[arg-type]
    assert not (tmp_path / "home").exists()


def test_history_shows_the_statement_as_it_was_written(tmp_path: Path, tpch_tiny: Path) -> None:
    sql = f"SELECT count(*) AS n\nFROM '{tpch_tiny}/region.parquet' WHERE r_regionkey < ?"
    with crossdock.connect(home=tmp_path, single_task_bytes=0) as connection:
        assert connection.execute(sql, [3]).fetchall() == [(3,)]
        (entry,) = LocalHistory(connection.platform).list(10)
        assert entry.sql == sql
