"""What is refused, and in which words: the item, its place in the user's text, what to do."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossdock.catalog import Catalog
from crossdock.errors import SettingError, SqlError, TableError
from crossdock.planner.binder import Binder


@pytest.fixture(scope="module")
def binder() -> Binder:
    catalog = Catalog()
    catalog.add("u", pa.table({"user_name": ["x"], "n": [1]}))
    catalog.add("a", pa.table({"id": [1]}))
    catalog.add("b", pa.table({"id": [1]}))
    return Binder(catalog)


def refusal(binder: Binder, sql: str, parameters: object = None) -> str:
    with pytest.raises(SqlError) as caught:
        binder.bind(sql, parameters)  # type: ignore[arg-type]
    return str(caught.value)


def marked(message: str) -> str:
    """What the caret line points at."""
    *_, line, carets = message.split("\n")
    assert line.startswith("LINE ")
    return line[carets.index("^") : carets.rindex("^") + 1]


@pytest.mark.parametrize(
    ("sql", "said", "place"),
    [
        ("SELECT usr_nme FROM u", 'Candidate bindings: "user_name"', "usr_nme"),
        ("SELECT id FROM a JOIN b ON a.id = b.id", "Ambiguous .* 'a.id' or 'b.id'", "id"),
        ("SELECT 1 FROM usr", 'Table with name usr does not exist!\nDid you mean "u"\\?', "usr"),
        ("SELECT medain(1)", 'Did you mean "median"\\?', "medain(1)"),
        ("SELECT 1 FORM u", "syntax error", "u"),
        ("SELECT 'é€😀', u.nme FROM u", 'does not have a column named "nme"', "u.nme"),
        ("SELECT\n  1,\n\tnope(n)\nFROM u", "Scalar Function with name nope", "nope(n)"),
        ("SELECT sum(n), user_name FROM u", "must appear in the GROUP BY", "user_name"),
        ("SELECT 1 WHERE sum(1) > 0", "WHERE clause cannot contain aggregates", "sum(1)"),
        (f"SELECT {'1, ' * 200}nme FROM u", "not found", "nme"),
    ],
)
def test_a_mistake_is_named_with_its_place(binder: Binder, sql: str, said: str, place: str) -> None:
    message = refusal(binder, sql)
    assert re.search(said, message), message
    assert marked(message) == place


def test_the_place_is_in_the_users_text_although_parameters_were_inlined(binder: Binder) -> None:
    message = refusal(binder, "SELECT ?,\n  now(), nme\nFROM u", ["a long text indeed"])
    assert "LINE 2:   now(), nme" in message
    assert marked(message) == "nme"


def test_the_place_is_in_the_users_text_although_a_file_was_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"amount": [1]}), tmp_path / "x.parquet")
    sql = f"SELECT amuont FROM '{tmp_path}/x.parquet'"
    message = refusal(Binder(Catalog()), sql)
    assert 'Candidate bindings: "amount"' in message
    assert marked(message) == "amuont"


def test_an_unknown_table_lists_what_is_known(binder: Binder) -> None:
    assert "Known tables: a, b, u" in refusal(binder, "FROM something_else")
    assert "No tables are known" in refusal(Binder(Catalog()), "FROM x")


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("", "the statement is empty"),
        (" ; -- nothing", "the statement is empty"),
        ("SELECT 1; SELECT 2", "there are 2 here"),
        ("SELECT 1; DROP TABLE u", "there are 2 here"),
        ("CREATE TABLE x AS SELECT 1", "CREATE statements are not taken: name tables with"),
        ("CREATE VIEW x AS SELECT 1", "only changes the catalog"),
        ("-- why\nDROP TABLE u", "only changes the catalog"),
        ("INSERT INTO u VALUES (1)", "INSERT statements are not taken: INSERT INTO a table"),
        ("WITH x AS (SELECT 1) DELETE FROM u", "DELETE statements"),
        ("UPDATE u SET n = 1", "UPDATE statements"),
        ("COPY u TO 'x.csv'", "COPY statements"),
        ("ATTACH 'x.db'", "ATTACH statements"),
        ("INSTALL httpfs", "INSTALL statements are not taken: extensions cannot"),
        ("LOAD httpfs", "LOAD statements are not taken: extensions cannot"),
        ("SET threads = 1", "SET statements are not taken: settings are given to"),
        ("PRAGMA version", "PRAGMA statements"),
        ("EXPLAIN SELECT 1", "EXPLAIN statements"),
        ("BEGIN", "BEGIN statements"),
        ("PIVOT u ON n USING sum(n)", "PIVOT without a list of values asks for them first"),
        ("SELECT * FROM u, read_text('x')", "read_text\\(\\) is not available: read_parquet"),
        ("FROM read_csv('x.csv', rejects_table := 'r')", "option rejects_table is not supported"),
        ("FROM read_csv('x.csv', delim := 1 || ',')", "delim must be written as a constant"),
        ("FROM no_such_function(1)", "Table Function with name no_such_function does not exist"),
        ("FROM glob('*')", "glob\\(\\) is not available"),
        ("FROM 'x.xlsx'", "cannot read x.xlsx: only Parquet, CSV and JSON"),
        ("FROM query('SELECT 1')", "the table function query\\(\\) is not available"),
        ("FROM duckdb_settings()", "duckdb_settings\\(\\) is not available"),
        ("FROM duckdb_tables", "the system view duckdb_tables is not available"),
        ("FROM information_schema.tables", "information_schema.tables is not available"),
        ("SELECT 'a\0b'", "NUL character"),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "nested too deeply"),
    ],
)
def test_what_is_not_a_query_over_tables_is_refused(binder: Binder, sql: str, said: str) -> None:
    assert re.search(said, refusal(binder, sql))


def test_names_in_the_callers_scope_are_no_tables(binder: Binder) -> None:
    secret = pa.table({"x": [1]})
    assert secret.num_rows == 1
    assert "Table with name secret does not exist" in refusal(binder, "FROM secret")


def test_files_cannot_be_read_around_the_catalog(binder: Binder, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    for sql in (f"FROM read_blob('{tmp_path}/secret')", f"FROM '{tmp_path}/secret.db'"):
        assert re.search("is not available|only Parquet, CSV and JSON", refusal(binder, sql))


def test_only_tables_a_statement_names_are_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1]}), tmp_path / "gone.parquet")
    catalog = Catalog()
    catalog.add("gone", tmp_path / "gone.parquet")
    catalog.add("here", pa.table({"k": [1]}))
    (tmp_path / "gone.parquet").unlink()
    binder = Binder(catalog)
    assert set(binder.bind("FROM here").tables) == {"here"}
    assert set(binder.bind("WITH gone AS (SELECT 1 AS k) FROM gone").tables) == set()
    with pytest.raises(TableError, match=r"gone\.parquet does not exist"):
        binder.bind("WITH gone AS (FROM gone) FROM gone")


def test_an_unknown_time_zone_is_refused() -> None:
    with pytest.raises(SettingError, match="Mars/Olympus"):
        Binder(Catalog(), timezone="Mars/Olympus")
