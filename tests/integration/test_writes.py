"""CREATE TABLE, INSERT and COPY: DuckDB runs the same statements, and reads what was written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import crossdock
from crossdock.client.connection import Connection
from crossdock.errors import QueryFailed, SqlError
from tests.home_contents import leftovers
from tests.oracle import Answer, assert_same, of_cursor

ODD = (
    "SELECT i AS id, CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'a/b c' "
    "WHEN 3 THEN 'x=%1?é' ELSE 'plain' END AS part, i % 3 = 0 AS flag, "
    "DATE '2024-02-27' + (i % 4)::INTEGER AS day, i / 7.0 AS x FROM range(60) r(i)"
)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Small tables of several files each."""
    folder = tmp_path_factory.mktemp("sources")
    made: dict[str, list[Path]] = {}
    for name, sql in {
        "odd": ODD,
        "n": "SELECT i k, i % 7 AS g, (i * 7919) % 1000 AS v, 'w' || i AS w FROM range(300) t(i)",
    }.items():
        made[name] = []
        for number in range(3):
            path = folder / f"{name}-{number}.parquet"
            duckdb.sql(
                f"COPY (FROM ({sql}) WHERE i % 3 = {number}) TO '{path}'".replace("i %", "#1 %")
            )
            made[name].append(path)
    return made


class Both:
    """Crossdock and DuckDB, given the same statements."""

    def __init__(self, connection: Connection, sources: dict[str, list[Path]]) -> None:
        self.connection = connection
        self.duckdb = duckdb.connect(config={"python_enable_replacements": False})
        self.duckdb.execute("SET TimeZone = 'UTC'")
        for name, paths in sources.items():
            self.duckdb.execute(
                f"CREATE VIEW {name} AS FROM read_parquet({[str(path) for path in paths]})"
            )

    def run(self, *statements: str) -> None:
        """Their answers are equal, and so are their refusals."""
        for sql in statements:
            assert_same(self.ours(sql), self.theirs(sql), ordered="ORDER BY" in sql)

    def declare(self, sql: str) -> None:
        """CREATE TABLE without a query: DuckDB answers no row, and we that there are none."""
        assert self.ours(sql).rows == ((0,),)
        self.duckdb.execute(sql)

    def ours(self, sql: str) -> Answer:
        with self.connection.execute(sql) as cursor:
            return of_cursor(cursor)

    def theirs(self, sql: str) -> Answer:
        rows = self.duckdb.execute(sql).fetchall()
        columns = tuple((each[0], str(each[1])) for each in self.duckdb.description)
        return Answer(columns, tuple(rows))

    def refused(self, sql: str) -> str:
        """Both refuse it; our words."""
        with pytest.raises(duckdb.Error):
            self.duckdb.execute(sql)
        with pytest.raises((SqlError, QueryFailed)) as refusal:
            self.connection.execute(sql)
        return str(refusal.value)


@pytest.fixture(scope="module")
def connection(
    tmp_path_factory: pytest.TempPathFactory, sources: dict[str, list[Path]]
) -> Iterator[Connection]:
    home = tmp_path_factory.mktemp("home")
    with crossdock.connect(
        home=home,
        tables={name: [str(path) for path in paths] for name, paths in sources.items()},
        workers=2,
        worker_memory="512MB",
        single_task_bytes=0,
        broadcast_bytes=0,
        partitions=3,
        timezone="UTC",
    ) as opened:
        yield opened
    assert leftovers(home, kept=("receipt", "data")) == []


@pytest.fixture
def both(connection: Connection, sources: dict[str, list[Path]]) -> Iterator[Both]:
    pair = Both(connection, sources)
    yield pair
    for name in connection.tables.names():
        if connection.tables.is_written(name):
            connection.execute(f'DROP TABLE "{name}"').close()
    pair.duckdb.close()


# -- CREATE TABLE ----------------------------------------------------------------------------------


def test_a_table_has_the_rows_and_types_of_its_query(both: Both) -> None:
    both.run(
        "CREATE TABLE a AS SELECT g, count(*) AS n, sum(v) AS s, avg(v) AS m FROM n GROUP BY g",
        "SELECT * FROM a ORDER BY g",
        "SELECT sum(s), max(m) FROM a WHERE n > 1",
        "SELECT n.k, a.s FROM n JOIN a ON n.g = a.g WHERE a.s > 20000 ORDER BY k",
    )


def test_the_last_stage_writes_in_as_many_tasks_as_it_has(connection: Connection) -> None:
    plan = connection.explain("CREATE TABLE a AS SELECT g, count(*) AS n FROM n GROUP BY g")
    assert plan.stages[-1].tasks == 3
    assert connection.explain("CREATE TABLE a AS FROM n").stages[-1].tasks > 1
    assert connection.explain("CREATE TABLE a AS FROM n ORDER BY k").stages[-1].tasks == 1


def test_every_type_is_kept_exactly(both: Both) -> None:
    """But for those that no section can carry, which are refused by name."""
    both.run("CREATE TABLE every AS SELECT * EXCLUDE (empty_struct) FROM test_all_types()")
    both.run("SELECT * FROM every", 'SELECT hugeint, "interval", bit FROM every WHERE NOT bool')
    mine = both.connection.execute("FROM every").arrow()
    theirs = both.duckdb.sql("FROM every").to_arrow_table()
    assert mine.schema == theirs.schema


def test_rows_are_found_by_types_that_parquet_orders_otherwise(both: Both) -> None:
    """An enum has the order of its values, a bit string or a wide number none that a file knows."""
    both.run(
        "CREATE TABLE a AS SELECT k, (CASE WHEN g < 3 THEN 'z' ELSE 'b' END)::ENUM('z', 'b') AS e, "
        "v::HUGEINT * 1000000000000000000000 AS h, v::BIT AS b, "
        "TIMESTAMP_S '2024-01-01 00:00:00' + INTERVAL (k) DAY AS t FROM n",
        "SELECT count(*) FROM a WHERE e > 'z'",
        "SELECT count(*) FROM a WHERE e < 'b'",
        "SELECT count(*) FROM a WHERE h > 500000000000000000000000",
        "SELECT count(*) FROM a WHERE b > 500::BIT",
        "SELECT count(*) FROM a WHERE t > TIMESTAMP_S '2024-06-01 00:00:00'",
        "SELECT e, count(*), max(h) FROM a GROUP BY e ORDER BY e",
    )


def test_names_are_those_duckdb_gives(both: Both) -> None:
    both.run(
        'CREATE TABLE "odd name" AS SELECT 1 AS a, 2 AS a, 3 AS "A b", 4 AS "x""y", NULL AS n',
        'SELECT * FROM "odd name"',
        "CREATE TABLE renamed(p, q) AS SELECT k, v, w FROM n WHERE k < 3",
        "SELECT * FROM renamed ORDER BY p",
        "DESCRIBE renamed",
    )


def test_an_existing_table_is_replaced_left_or_refused(both: Both) -> None:
    both.run(
        "CREATE TABLE a AS SELECT 1 AS x",
        "CREATE TABLE IF NOT EXISTS a AS SELECT 2 AS y",
        "FROM a",
        "CREATE OR REPLACE TABLE A AS SELECT 3 AS z",
        "FROM a",
    )
    assert "already exists" in both.refused("CREATE TABLE a AS SELECT 4 AS x")
    both.run("FROM a")


def test_a_table_without_rows_has_its_columns(both: Both) -> None:
    both.declare("CREATE TABLE c (x INTEGER, y VARCHAR[], z DECIMAL(9, 2))")
    both.run(
        "CREATE TABLE a AS SELECT * FROM n WHERE v > 5000",
        "FROM a",
        "SELECT count(*), sum(v) FROM a",
        "CREATE TABLE b AS SELECT k FROM n WITH NO DATA",
        "FROM b",
        "FROM c",
        "SELECT n.k FROM n LEFT JOIN b USING (k) WHERE n.k < 2 ORDER BY k",
    )


def test_a_table_made_of_itself(both: Both) -> None:
    both.run(
        "CREATE TABLE a AS SELECT k FROM n WHERE k < 10",
        "CREATE OR REPLACE TABLE a AS SELECT k + 1 AS k FROM a",
        "INSERT INTO a SELECT k * 100 FROM a",
        "SELECT * FROM a ORDER BY k",
    )


def test_what_cannot_be_made_is_refused_before_anything_runs(both: Both) -> None:
    before = both.connection.platform.queries()
    refusals = {
        "CREATE TABLE a AS SELECT nope FROM n": "nope",
        "CREATE TABLE other.a AS SELECT 1 AS x": "other",
        "CREATE TABLE a (x INTEGER PRIMARY KEY)": "constraints",
        "CREATE TABLE a AS SELECT empty_struct FROM test_all_types()": "empty_struct",
    }
    for sql, word in refusals.items():
        with pytest.raises(SqlError, match=word):
            both.connection.execute(sql)
    with pytest.raises(SqlError, match="yours"):
        both.connection.execute("CREATE OR REPLACE TABLE n AS SELECT 1 AS x")
    assert both.connection.platform.queries() == before


def test_parameters_stand_in_the_query(both: Both) -> None:
    connection = both.connection
    connection.execute("CREATE TABLE a AS SELECT k FROM n WHERE k < $most", {"most": 5}).close()
    connection.execute("INSERT INTO a VALUES (?), (?)", ["17", 18.4]).close()
    assert connection.execute("FROM a ORDER BY k").fetchall() == [
        (each,) for each in (*range(5), 17, 18)
    ]


# -- INSERT ----------------------------------------------------------------------------------------

TARGET = "CREATE TABLE a (i INTEGER, s VARCHAR, d DECIMAL(5, 2), t TIMESTAMP)"


@pytest.mark.parametrize(
    "insert",
    [
        "INSERT INTO a SELECT k, w, v, NULL FROM n",
        "INSERT INTO a (s, i) SELECT v, k FROM n",
        "INSERT INTO a (d) SELECT v / 3 FROM n",
        "INSERT INTO a BY NAME SELECT 'x' AS s, k AS i FROM n WHERE k < 3",
        "INSERT INTO a VALUES (1, 2, 3.145, '2024-01-02'), (NULL, 'b', '4', DATE '2024-05-06')",
        "INSERT INTO a (s, i) VALUES ('only', 1), (2, '3'), (DEFAULT, 4)",
        "INSERT INTO a DEFAULT VALUES",
        "WITH w AS (SELECT k FROM n WHERE k < 4) INSERT INTO a (i) SELECT k FROM w",
        "INSERT INTO main.a (i) (SELECT k FROM n ORDER BY v LIMIT 3)",
        "INSERT INTO a (i) FROM range(5)",
        "INSERT INTO a (t, i) SELECT TIMESTAMPTZ '2024-01-01 12:00:00+02', '12'",
    ],
)
def test_rows_are_inserted_as_duckdb_coerces_them(both: Both, insert: str) -> None:
    both.declare(TARGET)
    both.run(insert, "SELECT * FROM a ORDER BY ALL", insert, "SELECT count(*) FROM a")


@pytest.mark.parametrize(
    "insert",
    [
        "INSERT INTO a SELECT 1",
        "INSERT INTO a (i, s) SELECT k FROM n",
        "INSERT INTO a (nope) SELECT 1",
        "INSERT INTO a (nope) VALUES (1)",
        "INSERT INTO a (i, i) SELECT 1, 2",
        "INSERT INTO a VALUES (1, 'x')",
        "INSERT INTO a VALUES (1, 'x', 2, NULL, 5)",
        "INSERT INTO a BY NAME SELECT 1 AS nope",
        "INSERT INTO nope SELECT 1",
        "INSERT INTO a (i) VALUES ('zz')",
        "INSERT INTO a (i) SELECT [1, 2]",
    ],
)
def test_what_does_not_fit_is_refused_before_anything_runs(both: Both, insert: str) -> None:
    both.declare(TARGET)
    before = both.connection.platform.queries()
    assert both.refused(insert)
    assert both.connection.platform.queries() == before
    both.run("FROM a")


def test_a_value_that_cannot_be_cast_fails_the_insert_whole(both: Both) -> None:
    both.declare(TARGET)
    with pytest.raises(QueryFailed, match="w1"):
        both.connection.execute(
            "INSERT INTO a (i) SELECT CASE WHEN k < 100 THEN '1' ELSE w END FROM n"
        )
    both.run("FROM a")


def test_files_of_the_users_are_not_inserted_into(both: Both) -> None:
    with pytest.raises(SqlError, match="yours"):
        both.connection.execute("INSERT INTO n SELECT * FROM n")


# -- COPY ------------------------------------------------------------------------------------------


def folders(root: Path) -> set[str]:
    return {path.parent.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
@pytest.mark.parametrize("keys", ["part", "flag, day", "part, flag"])
def test_partitions_are_laid_out_as_duckdb_does(
    both: Both, tmp_path: Path, form: str, keys: str
) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    options = f"(FORMAT {form}, PARTITION_BY ({keys}))"
    assert both.ours(f"COPY odd TO '{mine}' {options}").rows == ((60,),)
    both.duckdb.execute(f"COPY odd TO '{theirs}' {options}")
    assert folders(mine) == folders(theirs)
    reader = "read_parquet" if form == "parquet" else f"read_{form}"
    read = f"SELECT * FROM {reader}('{{}}/**/*.{form}', hive_partitioning = true) ORDER BY ALL"
    assert_same(both.theirs(read.format(mine)), both.theirs(read.format(theirs)), ordered=True)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("f.parquet", ""),
        ("f.csv", ""),
        ("f.json", ""),
        ("f.csv.gz", "(COMPRESSION gzip)"),
        ("f.txt", "(FORMAT csv, DELIMITER '|', HEADER false, PER_THREAD_OUTPUT false)"),
        ("f.parquet", "(COMPRESSION zstd, ROW_GROUP_SIZE 2048)"),
    ],
)
def test_a_name_with_an_ending_is_one_file(
    both: Both, tmp_path: Path, name: str, options: str
) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    mine.mkdir()
    theirs.mkdir()
    query = "SELECT * FROM n ORDER BY v, k"
    assert both.ours(f"COPY ({query}) TO '{mine / name}' {options}").rows == ((300,),)
    both.duckdb.execute(f"COPY ({query}) TO '{theirs / name}' {options}")
    found = [path for path in mine.rglob("*") if path.is_file()]
    if name.endswith(".txt"):  # not an ending that says what is in it: a folder
        assert found[0].parent == mine / name
    else:
        assert found == [mine / name]
    if not name.endswith(".parquet") and len(found) == 1 and not name.endswith(".gz"):
        assert found[0].read_bytes() == (theirs / name).read_bytes()
    if not name.endswith(".txt"):
        assert_same(
            both.theirs(f"FROM '{mine / name}'"),
            both.theirs(f"FROM '{theirs / name}'"),
            ordered=True,
        )


def test_a_folder_is_added_to_or_replaced_only_if_asked_for(both: Both, tmp_path: Path) -> None:
    target = tmp_path / "out"
    rows = f"SELECT count(*) FROM '{target}/*.parquet'"
    both.ours(f"COPY n TO '{target}' (FORMAT parquet)")
    with pytest.raises(SqlError, match="not empty"):
        both.connection.execute(f"COPY n TO '{target}' (FORMAT parquet)")
    both.ours(f"COPY (FROM n LIMIT 10) TO '{target}' (FORMAT parquet, APPEND)")
    assert both.theirs(rows).rows == ((310,),)
    both.ours(f"COPY (FROM n LIMIT 7) TO '{target}' (FORMAT parquet, OVERWRITE true)")
    assert both.theirs(rows).rows == ((7,),)
    both.ours(f"COPY (FROM n LIMIT 7) TO '{target}' (FORMAT parquet, OVERWRITE_OR_IGNORE)")
    assert both.theirs(rows).rows == ((14,),)


def test_a_file_is_replaced_only_if_asked_for(both: Both, tmp_path: Path) -> None:
    target = tmp_path / "f.csv"
    both.ours(f"COPY n TO '{target}'")
    with pytest.raises(SqlError, match="exists already"):
        both.connection.execute(f"COPY n TO '{target}'")
    both.ours(f"COPY (FROM n LIMIT 3) TO '{target}' (OVERWRITE)")
    assert both.theirs(f"SELECT count(*) FROM '{target}'").rows == ((3,),)
    assert [path.name for path in tmp_path.iterdir()] == ["f.csv"]


def test_a_copy_without_rows_leaves_the_columns(both: Both, tmp_path: Path) -> None:
    both.ours(f"COPY (FROM n WHERE v < 0) TO '{tmp_path}/out' (FORMAT parquet)")
    found = both.theirs(f"FROM '{tmp_path}/out/*.parquet'")
    assert [name for name, _ in found.columns] == ["k", "g", "v", "w"]
    assert found.rows == ()


def test_wide_numbers_keep_every_digit_and_other_types_are_refused_by_name(
    both: Both, tmp_path: Path
) -> None:
    big = "12345678901234567890123456789012345678"
    both.ours(f"COPY (SELECT {big}::HUGEINT AS h) TO '{tmp_path}/h.parquet'")
    assert both.theirs(f"SELECT h::VARCHAR FROM '{tmp_path}/h.parquet'").rows == ((big,),)
    with pytest.raises(SqlError, match="column span: Parquet cannot hold INTERVAL"):
        both.connection.execute(f"COPY (SELECT INTERVAL 1 DAY AS span) TO '{tmp_path}/i.parquet'")
    both.ours(f"COPY (SELECT INTERVAL 1 DAY AS span) TO '{tmp_path}/i.csv'")
    assert not (tmp_path / "i.parquet").exists()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("(FORMAT parquet, FROBNICATE 1)", "FROBNICATE|frobnicate"),
        ("(FORMAT orc)", "orc"),
        ("(FORMAT parquet, PARTITION_BY (nope))", "nope"),
        ("(FORMAT parquet, COMPRESSION nope)", "compression"),
        ("(FORMAT csv, FILENAME_PATTERN 'x')", "FILENAME_PATTERN"),
        ("(FORMAT parquet, PARTITION_BY (k, g, v, w))", "No column to write"),
    ],
)
def test_options_that_cannot_be_met_are_refused_before_anything_runs(
    both: Both, tmp_path: Path, options: str, word: str
) -> None:
    before = both.connection.platform.queries()
    with pytest.raises(SqlError, match=word):
        both.connection.execute(f"COPY n TO '{tmp_path}/out' {options}")
    assert both.connection.platform.queries() == before
    assert not (tmp_path / "out").exists()


def test_a_target_below_a_file_is_refused_before_anything_runs(
    connection: Connection, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SqlError, match="file is a file"):
        connection.execute(f"COPY n TO '{tmp_path}/file/out' (FORMAT parquet)")


def test_copy_from_says_what_to_do(connection: Connection) -> None:
    with pytest.raises(SqlError, match="INSERT INTO table SELECT"):
        connection.execute("COPY n FROM 'x.csv'")


def test_a_query_of_one_task_writes_too(tmp_path: Path, sources: dict[str, list[Path]]) -> None:
    tables = {"n": [str(path) for path in sources["n"]]}
    with crossdock.connect(home=tmp_path / "home", tables=tables) as one:
        assert one.explain("CREATE TABLE a AS FROM n").one_task
        assert one.execute("CREATE TABLE a AS FROM n").fetchall() == [(300,)]
        assert one.execute("SELECT count(*), max(k) FROM a").fetchall() == [(300, 299)]
