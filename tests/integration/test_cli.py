"""The command line: formats, exit codes, messages, and what it leaves behind."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossdock.cli.commands import cli, run

PROGRAM = str(Path(sysconfig.get_path("scripts")) / "crossdock")
DISTRIBUTED = ("--single-task-bytes", "0", "--workers", "2", "--worker-memory", "512MB")


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Invoke = Callable[..., Outcome]


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd) -> Invoke:
    """Run the command line in this process, in an empty working directory."""
    monkeypatch.chdir(tmp_path)

    def invoked(*arguments: str, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capfd.readouterr()
        code = run(lambda: cli.main(arguments, prog_name="crossdock", standalone_mode=False))
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    return invoked


@pytest.fixture
def people(tmp_path: Path) -> str:
    """A small table, as NAME=PATH."""
    table = pa.table({"user_name": ["ann", "bob", None], "age": pa.array([41, 7, 9], pa.int64())})
    pq.write_table(table, tmp_path / "people.parquet")
    return f"people={tmp_path / 'people.parquet'}"


# -- formats ---------------------------------------------------------------------------------------


def test_table_format_aligns_and_shows_null(invoke: Invoke, people: str) -> None:
    done = invoke("query", "SELECT * FROM people ORDER BY age", "--table", people, "--quiet")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "user_name  age",
        "---------  ---",
        "bob          7",
        "NULL         9",
        "ann         41",
    ]


EXACT = (
    "SELECT 9007199254740993::BIGINT a, 9007199254740992::BIGINT b, 0.10::DECIMAL(4,2) c,"
    " 170141183460469231731687303715884105727::HUGEINT d, 'NaN'::DOUBLE e,"
    " 'Infinity'::DOUBLE f,"
    " '-Infinity'::FLOAT g, NULL::DOUBLE h, 0.1::FLOAT i, DATE '2024-02-29' j,"
    " TIMESTAMP_NS '2024-01-01 00:00:00.123456789' k, INTERVAL '1 month 2 days' l,"
    " '\\xAB\\x00'::BLOB m, {'x': [1, NULL], 'y': 1.50} n, MAP {'k': 1} o, TRUE p, 1 AS q, 2 AS q,"
    " 'infinity'::DATE r, 0::DECIMAL(38,20) s,"
    " 12345678901234567890123456789012345678::DECIMAL(38,0) t"
)
EXACT_JSON = [
    "9007199254740993", 9007199254740992, "0.10", "170141183460469231731687303715884105727",
    "NaN", "Infinity", "-Infinity", None, 0.1, "2024-02-29", "2024-01-01 00:00:00.123456789",
    "1 month 2 days", "ab00", {"x": [1, None], "y": "1.50"}, [["k", 1]], True, 1, 2, "infinity",
    "0.00000000000000000000", "12345678901234567890123456789012345678",
]  # fmt: skip


@pytest.mark.parametrize("settings", [(), DISTRIBUTED], ids=["one task", "distributed"])
def test_json_keeps_every_digit_and_stays_strict(
    invoke: Invoke, people: str, settings: tuple[str, ...]
) -> None:
    # A cross join with a table, so that the constants really travel when distributed.
    sql = f"{EXACT} FROM people WHERE age = 7"
    done = invoke("query", sql, "--table", people, "--format", "json", "--quiet", *settings)
    assert done.code == 0, done.err
    document = json.loads(done.out, parse_constant=lambda word: pytest.fail(f"bare {word}"))
    assert document["rows"] == [EXACT_JSON]
    assert [c["name"] for c in document["columns"]][16:18] == ["q", "q"]
    assert document["columns"][3]["type"] == "HUGEINT"
    assert document["columns"][13]["type"] == "STRUCT(x INTEGER[], y DECIMAL(3,2))"


def test_json_of_no_rows_keeps_the_columns(invoke: Invoke) -> None:
    done = invoke("query", "SELECT 1 AS a WHERE FALSE", "--format", "json", "--quiet")
    assert json.loads(done.out) == {"columns": [{"name": "a", "type": "INTEGER"}], "rows": []}


def test_csv_tells_null_from_empty_and_quotes(invoke: Invoke) -> None:
    sql = "SELECT '' AS \"e,mpty\", NULL AS nothing, 'a\"b' AS q, 'two\nlines' AS t, [1, 2] AS l"
    done = invoke("query", sql, "--format", "csv", "--quiet")
    assert done.out == '"e,mpty",nothing,q,t,l\n"",,"a""b","two\nlines","[1,2]"\n'
    assert list(csv.reader(io.StringIO(done.out)))[1] == ["", "", 'a"b', "two\nlines", "[1,2]"]


def test_integer_sum_is_the_same_exact_integer_in_every_format(invoke: Invoke) -> None:
    sql = "SELECT sum(v) AS s, count(*) AS n FROM (VALUES (1::BIGINT), (2)) t(v)"
    as_json = json.loads(invoke("query", sql, "--format", "json", "--quiet").out)
    assert as_json["rows"] == [["3", 2]]
    assert invoke("query", sql, "--format", "csv", "--quiet").out == "s,n\n3,2\n"
    invoke("query", sql, "-o", "sums.arrow", "--quiet")
    table = pa.ipc.open_stream(Path("sums.arrow").read_bytes()).read_all()
    assert table.schema == duckdb.sql(sql).to_arrow_table().schema
    assert table.column("n").to_pylist() == [2]
    assert int(table.column("s")[0].as_py()) == 3


def test_output_format_follows_the_files_ending(invoke: Invoke, people: str) -> None:
    sql = "SELECT age FROM people ORDER BY age"
    for name in ("a.json", "a.csv", "a.parquet", "a.arrow", "a.txt"):
        assert invoke("query", sql, "--table", people, "-o", name, "--quiet").out == ""
    assert json.loads(Path("a.json").read_text())["rows"] == [[7], [9], [41]]
    assert Path("a.csv").read_text() == "age\n7\n9\n41\n"
    assert pq.read_table("a.parquet").column("age").to_pylist() == [7, 9, 41]
    assert pa.ipc.open_stream(Path("a.arrow").read_bytes()).read_all().num_rows == 3
    assert Path("a.txt").read_text().splitlines()[0] == "age"


def test_failed_query_leaves_the_old_output_file(invoke: Invoke, people: str) -> None:
    Path("rows.csv").write_text("old")
    sql = "SELECT error('no ' || user_name) FROM people"
    done = invoke("query", sql, "--table", people, "-o", "rows.csv", "--quiet")
    assert done.code == 1
    assert Path("rows.csv").read_text() == "old"
    assert {p.name for p in Path().iterdir()} == {".crossdock", "people.parquet", "rows.csv"}


# -- where the SQL comes from ----------------------------------------------------------------------


def test_sql_from_file_stdin_and_parameters(invoke: Invoke) -> None:
    Path("q.sql").write_text("SELECT 7 AS x -- a comment at the end")
    assert invoke("query", "-f", "q.sql", "--format", "csv", "--quiet").out == "x\n7\n"
    piped = invoke("query", "-", "--format", "csv", "--quiet", stdin="SELECT 8 AS x;\n")
    assert piped.out == "x\n8\n"
    by_position = ("query", "SELECT ?::INT + ?::INT AS s", "--param", "1", "--param", "2")
    assert invoke(*by_position, "--format", "csv", "--quiet").out == "s\n3\n"
    by_name = ("query", "SELECT $a::INT - $b::INT AS s", "--param", "b=1", "--param", "a=5")
    assert invoke(*by_name, "--format", "csv", "--quiet").out == "s\n4\n"


def test_repeated_table_adds_files(invoke: Invoke, people: str) -> None:
    sql = "SELECT count(*) AS n FROM people"
    done = invoke("query", sql, "--table", people, "--table", people, "--format", "csv", "--quiet")
    assert done.out in ("n\n3\n", "n\n6\n")


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("query", "SELECT usr_nme FROM people"), 1, ("usr_nme", "user_name", "LINE 1")),
        (("query", "SELECT 1 FROM poeple"), 1, ("poeple", "people")),
        (("query", "SELEC 1"), 1, ("SELEC", "LINE 1")),
        (("query", "SELECT medain(age) FROM people"), 1, ("medain", "median")),
        (("query", "SELECT 1; SELECT 2"), 1, ("statement",)),
        (("query", "DROP TABLE poeple"), 1, ("poeple", "people")),
        (("query", "COPY people FROM 'x.csv'"), 1, ("INSERT INTO",)),
        (("query", "SELECT user_name::INT FROM people"), 1, ("ann",)),
        (("query", "SELECT * FROM 'missing.parquet'"), 1, ("missing.parquet", "exist")),
        (("query", "SELECT * FROM 'bad.parquet'"), 1, ("bad.parquet",)),
        (("query", "SELECT ? + ?", "--param", "1"), 1, ("parameter",)),
        (("query", "SELECT 1", "--workers", "0"), 2, ("workers", "'0'", "1 to 1024")),
        (("query", "SELECT 1", "--worker-memory", "lots"), 2, ("worker_memory", "lots", "64MB")),
        (("query", "SELECT 1", "--exchange", "pigeon"), 2, ("exchange", "pigeon", "s3qs")),
        (("query", "SELECT 1", "--wrokers", "2"), 2, ("--wrokers", "--workers")),
        (("query", "SELECT 1", "--table", "people"), 2, ("NAME=PATH",)),
        (("query",), 2, ("SQL",)),
        (("query", "SELECT 1", "-f", "q.sql"), 2, ("SQL",)),
        (("query", "-f", "none.sql"), 2, ("none.sql",)),
        (("query", "SELECT 1", "--timezone", "Mars/Base"), 2, ("Mars/Base",)),
        (("tables", "describe", "nobody"), 1, ("nobody",)),
        (("queries", "show", "nothing"), 1, ("nothing",)),
        (("qurey",), 2, ("qurey",)),
    ],
)
def test_bad_input_is_one_message_and_an_exit_code(
    invoke: Invoke, people: str, arguments: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    Path("bad.parquet").write_bytes(b"PAR1 this is no parquet file PAR1")
    table = ("--table", people) if arguments[0] == "query" and "--table" not in arguments else ()
    done = invoke(*arguments, *table)
    assert done.code == code, done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    assert len(re.findall(r"^error:", done.err, re.MULTILINE | re.IGNORECASE)) == 1
    for word in words:
        assert word in done.err


@pytest.mark.parametrize("settings", [(), DISTRIBUTED], ids=["one task", "distributed"])
def test_query_that_fails_while_running_leaves_nothing_behind(
    invoke: Invoke, people: str, settings: tuple[str, ...]
) -> None:
    sql = "SELECT age, sum(CASE WHEN age = 9 THEN error('age nine') END) FROM people GROUP BY age"
    done = invoke("query", sql, "--table", people, "--quiet", *settings)
    assert done.code == 1
    assert done.err.startswith("error: ")
    assert "age nine" in done.err
    assert "Traceback" not in done.err
    left = [path for path in Path(".crossdock/objects").rglob("*") if path.is_file()]
    assert {path.relative_to(".crossdock/objects").parts[0] for path in left} <= {"receipt"}
    assert list(Path(".crossdock/scratch").rglob("*")) == []


# -- the other commands ----------------------------------------------------------------------------


def test_tables_are_remembered_until_removed(invoke: Invoke, people: str) -> None:
    path = people.partition("=")[2]
    assert invoke("tables", "add", "people", path).code == 0
    assert invoke("tables", "list").out == f"people\t{path}\n"
    assert invoke("tables", "describe", "people").out == "user_name\tVARCHAR\nage\tBIGINT\n"
    assert invoke("query", "SELECT max(age) AS m FROM People", "--format", "csv").out == "m\n41\n"
    assert invoke("tables", "remove", "people").code == 0
    assert invoke("tables", "list").out == ""
    assert invoke("query", "SELECT max(age) AS m FROM people").code == 1


def test_queries_are_listed_and_shown_with_their_receipt(invoke: Invoke, people: str) -> None:
    ran = invoke("query", "SELECT age FROM people", "--table", people, "--receipt", "json")
    receipt = json.loads(ran.err)
    line = invoke("queries", "list").out.splitlines()[0].split("\t")
    assert line[0] == receipt["query_id"]
    assert (line[1], line[4]) == ("SUCCEEDED", "3")
    shown = invoke("queries", "show", receipt["query_id"]).out
    assert shown.startswith("SUCCEEDED: SELECT age FROM people")
    cancelled = invoke("queries", "cancel", receipt["query_id"])
    assert (cancelled.code, "SUCCEEDED" in cancelled.err) == (0, True)
    assert invoke("gc").code == 0


def test_explain_shows_stages_and_runs_nothing(invoke: Invoke, people: str) -> None:
    sql = "SELECT user_name, sum(age) FROM people GROUP BY user_name"
    text = invoke("explain", sql, "--table", people, *DISTRIBUTED).out
    assert "stage 0: scan people" in text
    assert "hash from stage 0" in text
    assert "SELECT" in text
    assert "SELECT" not in invoke("explain", sql, "--table", people, "--no-fragments").out
    plan = json.loads(invoke("explain", sql, "--table", people, "--format", "json").out)
    assert plan["one_task"] is True
    assert not Path(".crossdock/state.db").exists()


def test_settings_come_from_variables_and_flags_win(
    invoke: Invoke, people: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSDOCK_SINGLE_TASK_BYTES", "0")
    monkeypatch.setenv("CROSSDOCK_PARTITIONS", "3")
    sql = "SELECT user_name, sum(age) FROM people GROUP BY user_name"
    plan = json.loads(invoke("explain", sql, "--table", people, "--format", "json").out)
    assert plan["edges"][0]["partitions"] == 3
    flags = ("--format", "json", "--partitions", "2")
    plan = json.loads(invoke("explain", sql, "--table", people, *flags).out)
    assert plan["edges"][0]["partitions"] == 2
    monkeypatch.setenv("CROSSDOCK_PARTITONS", "3")
    done = invoke("explain", sql, "--table", people)
    assert done.code == 2
    assert "CROSSDOCK_PARTITONS: did you mean CROSSDOCK_PARTITIONS?" in done.err


# -- as a process ----------------------------------------------------------------------------------


def test_receipt_and_progress_stay_off_stdout(tmp_path: Path, people: str) -> None:
    sql = "SELECT user_name, sum(age) AS s FROM people GROUP BY ALL ORDER BY ALL"
    command = [PROGRAM, "query", sql, "--table", people, "--format", "csv", *DISTRIBUTED]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "user_name,s\nann,41\nbob,7\n,9\n"
    assert re.search(r"3 rows in [\d.]+ s, [12] workers?, exchange s3qs", done.stderr)
    assert "on AWS (us-east-1" in done.stderr
    assert "\x1b[" not in done.stderr


def test_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    command = [PROGRAM, "query", "SELECT * FROM range(3000000)", "--format", "csv", "--quiet"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "range\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


@pytest.mark.parametrize("settings", [(), DISTRIBUTED], ids=["one task", "distributed"])
def test_interrupt_cancels_and_exits_130(tmp_path: Path, settings: tuple[str, ...]) -> None:
    pq.write_table(pa.table({"i": pa.array(range(3000), pa.int64())}), tmp_path / "n.parquet")
    # 81 million million pairs to compare: hours of work, no row.
    sql = "SELECT count(*) FROM n a, n b, n c, n d WHERE hash(a.i, b.i) = hash(c.i, d.i + 1)"
    with subprocess.Popen(
        [PROGRAM, "query", sql, "--table", "n=n.parquet", *settings],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background of a shell has Ctrl-C ignored, and hands that down.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        wait_for_running_query(tmp_path)
        process.send_signal(signal.SIGINT)
        try:
            _, message = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert message.strip() == "error: interrupted; the query was cancelled"
    listed = subprocess.run(
        [PROGRAM, "queries", "list"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert listed.stdout.split("\t")[1] == "CANCELLED"
    left = [path for path in (tmp_path / ".crossdock/objects").rglob("*") if path.is_file()]
    assert {path.relative_to(tmp_path / ".crossdock/objects").parts[0] for path in left} <= {
        "receipt"
    }


def wait_for_running_query(folder: Path) -> None:
    from coordinator_state.records import QueryStatus
    from coordinator_state.sqlite import SqliteStateStore

    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if (folder / ".crossdock" / "state.db").exists():
            store = SqliteStateStore(folder / ".crossdock" / "state.db")
            found = store.list_queries(status=QueryStatus.RUNNING)
            store.close()
            if found:
                time.sleep(0.3)
                return
        time.sleep(0.05)
    pytest.fail("the query did not start")


def test_version_and_help_need_no_home(tmp_path: Path) -> None:
    for argument in ("--version", "--help"):
        command = [PROGRAM, argument]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0
        assert "crossdock" in done.stdout
    assert os.listdir(tmp_path) == []  # noqa: PTH208
