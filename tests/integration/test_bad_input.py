"""Bad input through the command line as a process: one message that names the thing, the documented
exit code, no traceback, nothing on stdout, nothing left behind.
"""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossdock.cli.commands import cli, run
from tests.home_contents import leftovers
from tests.integration import handmade
from tests.observed import observe, until

PROGRAM = str(Path(sysconfig.get_path("scripts")) / "crossdock")
ON_WORKERS = ("--single-task-bytes", "0", "--workers", "2", "--worker-memory", "512MB")
FAILED, USAGE = 1, 2


@dataclass(frozen=True)
class Bad:
    id: str
    arguments: tuple[str, ...]
    code: int
    words: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


def query(id: str, sql: str, *words: str, extra: tuple[str, ...] = (), code: int = FAILED) -> Bad:
    return Bad(id, ("query", sql, "--table", "people=people.parquet", *extra), code, words)


#: Refused before anything runs.
REFUSED = (
    query("unknown table", "SELECT 1 FROM peeple", "peeple", "people", "LINE 1", "^"),
    query("unknown column", "SELECT usr_nme FROM people", "usr_nme", "user_name", "LINE 1", "^"),
    query("syntax", "SELECT user_name\nFROM people\nWHRE age > 1", '"age"', "LINE 3", "^"),
    query("not UTF-8", "SELECT '\udcff'", "not valid Unicode"),
    query("type mismatch", "SELECT age + DATE '2024-01-01' + TRUE FROM people", "LINE 1", "^"),
    query("not a SELECT", "DELETE FROM people", "DELETE"),
    query("missing file", "SELECT * FROM 'missing.parquet'", "missing.parquet", "does not exist"),
    query("no match", "SELECT * FROM 'missing/*.parquet'", "missing/*.parquet"),
    query("empty file", "SELECT * FROM 'empty.parquet'", "empty.parquet", "0 bytes"),
    query("not Parquet", "SELECT * FROM 'text.parquet'", "text.parquet", "not a readable Parquet"),
    query("cut file", "SELECT * FROM 'cut.parquet'", "cut.parquet", "not a readable Parquet"),
    query("flag value", "SELECT 1", "workers", "'0'", extra=("--workers", "0"), code=USAGE),
    query("flag", "SELECT 1", "--wrokers", "--workers", extra=("--wrokers", "2"), code=USAGE),
    query("format", "SELECT 1", "'xml'", "'json'", extra=("--format", "xml"), code=USAGE),
    query("table option", "SELECT 1", "NAME=PATH", extra=("--table", "people"), code=USAGE),
    query("output", "SELECT 1", "none/rows.csv", extra=("-o", "none/rows.csv"), code=USAGE),
    query("home a file", "SELECT 1", "text.parquet", extra=("--home", "text.parquet"), code=USAGE),
    query("home in a file", "SELECT 1", "is a file", extra=("--home", "cut.parquet/h"), code=USAGE),
    query("home nowhere", "SELECT 1", "/proc/none", extra=("--home", "/proc/none"), code=USAGE),
    query("home damaged", "SELECT 1", "damaged/state.db", "remove it", extra=("--home", "damaged")),
    Bad("SQL file missing", ("query", "-f", "none.sql"), USAGE, ("none.sql",)),
    Bad("SQL file binary", ("query", "-f", "people.parquet"), USAGE, ("people.parquet",)),
    Bad("SQL file a folder", ("query", "-f", "damaged"), USAGE, ("damaged",)),
    Bad("no SQL", ("query",), USAGE, ("SQL",)),
    Bad("command", ("qurey",), USAGE, ("qurey",)),
    Bad("table name", ("tables", "describe", "peeple"), FAILED, ("peeple",)),
    Bad("query id", ("queries", "show", "none"), FAILED, ("none",)),
    Bad(
        "variable value",
        ("query", "SELECT 1"),
        USAGE,
        ("CROSSDOCK_PARTITIONS", "'many'", "1 to 4096"),
        {"CROSSDOCK_PARTITIONS": "many"},
    ),
    Bad(
        "variable name",
        ("query", "SELECT 1"),
        USAGE,
        ("CROSSDOCK_WORKERZ", "CROSSDOCK_WORKERS"),
        {"CROSSDOCK_WORKERZ": "2"},
    ),
)
#: Met while the query runs; each in this process and in workers.
WHILE_RUNNING = tuple(
    query(f"{id} {where}", sql, *words, extra=extra)
    for where, extra in (("here", ()), ("on workers", ON_WORKERS))
    for id, sql, *words in (
        ("conversion", "SELECT user_name::INT FROM people", "Could not convert string 'ann'"),
        ("overflow", "SELECT sum(age * 4) FROM people", "Overflow in multiplication", "* 4"),
        (
            "user's error",
            "SELECT error('no ' || user_name) FROM people WHERE user_name = 'ann'",
            "no ann",
        ),
        (
            "damaged pages",
            "SELECT user_name, count(*) FROM 'torn.parquet' GROUP BY ALL",
            "torn.parquet is damaged",
        ),
    )
)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Contents of the files every case finds in its folder."""
    path = tmp_path_factory.mktemp("inputs") / "people.parquet"
    names = pa.array(["ann", "bob", None])
    pq.write_table(pa.table({"user_name": names, "age": pa.array([1, 2, 2**62])}), path)
    good = path.read_bytes()
    return {
        "people.parquet": good,
        "empty.parquet": b"",
        "text.parquet": b"PAR1 this is no Parquet file PAR1",
        "cut.parquet": good[: len(good) // 2],
        # The first pages' headers; the footer is whole.
        "torn.parquet": good[:4] + b"\xff" * 60 + good[64:],
        "damaged/state.db": b"this is no state file " * 100,
    }


@pytest.fixture
def folder(tmp_path: Path, inputs: dict[str, bytes]) -> Path:
    for name, data in inputs.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return tmp_path


def assert_one_message(code: int, out: str, err: str, bad: Bad) -> None:
    assert code == bad.code, err
    assert out == ""
    assert "Traceback" not in err
    assert len(re.findall(r"^error: ", err, re.MULTILINE | re.IGNORECASE)) == 1, err
    for word in bad.words:
        assert word in err


def assert_nothing_left(folder: Path, inputs: dict[str, bytes]) -> None:
    here = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    home = {path for path in here if path.parts[0] in (".crossdock", "damaged")}
    assert here - home == {Path(name) for name in inputs} - home
    assert leftovers(folder / ".crossdock") == []


@pytest.mark.parametrize("bad", [*REFUSED, *WHILE_RUNNING], ids=lambda bad: bad.id)
def test_bad_input_is_one_message_and_leaves_nothing(
    bad: Bad, folder: Path, inputs: dict[str, bytes]
) -> None:
    done = subprocess.run(
        [PROGRAM, *bad.arguments],
        cwd=folder,
        env={**os.environ, **bad.environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert_one_message(done.returncode, done.stdout, done.stderr, bad)
    assert "crossdock_" not in done.stderr
    assert_nothing_left(folder, inputs)


@pytest.mark.parametrize("change", ["rewritten", "removed"])
def test_file_that_changes_between_planning_and_scan_is_named(
    folder: Path,
    inputs: dict[str, bytes],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    change: str,
) -> None:
    hooks = tmp_path_factory.mktemp("hooks")
    observe(monkeypatch, hooks)
    monkeypatch.chdir(folder)
    (hooks / "hold-claimed-0-0").touch()

    def meddle() -> None:
        until(lambda: handmade.steps(hooks), "a claimed task")
        if change == "removed":
            Path("people.parquet").unlink()
        else:
            Path("people.parquet").write_bytes(inputs["people.parquet"] + b"more")
        (hooks / "hold-claimed-0-0").unlink()

    words = {"rewritten": "changed", "removed": "does not exist any more"}
    sql = "SELECT sum(age) FROM people WHERE age > 0"
    bad = query(change, sql, "people.parquet", words[change], extra=ON_WORKERS)
    meddler = threading.Thread(target=meddle)
    meddler.start()
    code = run(lambda: cli.main(bad.arguments, prog_name="crossdock", standalone_mode=False))
    meddler.join()
    captured = capfd.readouterr()
    assert_one_message(code, captured.out, captured.err, bad)
    Path("people.parquet").write_bytes(inputs["people.parquet"])
    assert_nothing_left(folder, inputs)
