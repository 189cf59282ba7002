"""Statements that write, from the command line and over HTTP."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import crossdock
from crossdock.cli.commands import cli, run
from crossdock.errors import CrossdockError
from tests.api_local import LocalApi, local_api
from tests.api_server import Server, served
from tests.home_contents import leftovers

# -- the command line ------------------------------------------------------------------------------

Invoke = Callable[..., tuple[int, str, str]]


@pytest.fixture
def invoke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Invoke:
    monkeypatch.chdir(tmp_path)

    def invoked(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        capfd.readouterr()
        code = run(lambda: cli.main(arguments, prog_name="crossdock", standalone_mode=False))
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return invoked


def test_a_table_made_by_one_call_is_known_to_the_next(invoke: Invoke, tmp_path: Path) -> None:
    made = invoke("query", "CREATE TABLE t AS SELECT i AS x FROM range(5) r(i)", "--format", "csv")
    assert made[:2] == (0, "Count\n5\n")
    assert (
        invoke("query", "INSERT INTO t VALUES (9)", "--format", "csv", "--quiet")[1] == "Count\n1\n"
    )
    assert invoke("query", "SELECT sum(x) AS s FROM t", "--format", "csv")[1] == "s\n19\n"
    assert invoke("tables", "list")[1].startswith("t\t")
    assert invoke("tables", "describe", "t")[1] == "x\tBIGINT\n"
    assert invoke("tables", "remove", "t")[0] == 0
    assert invoke("tables", "list")[1] == ""
    code, _, error = invoke("query", "FROM t")
    assert code == 1
    assert "does not exist" in error
    assert leftovers(tmp_path / ".crossdock", kept=("receipt", "data")) == []


def test_a_relative_target_starts_in_the_working_directory(invoke: Invoke, tmp_path: Path) -> None:
    statement = "COPY (SELECT 1 AS a, 'x' AS b) TO 'out' (FORMAT csv, PARTITION_BY (b))"
    assert invoke("query", statement)[0] == 0
    assert [path.parent.name for path in (tmp_path / "out").rglob("*.csv")] == ["b=x"]
    code, _, error = invoke("query", statement)
    assert code == 1
    assert "out is not empty" in error
    assert "OVERWRITE" in error


def test_explain_tells_what_would_be_written_and_writes_nothing(invoke: Invoke) -> None:
    code, out, _ = invoke("explain", "CREATE OR REPLACE TABLE t AS SELECT 1 AS x")
    assert code == 0
    assert "writes table t (in place of what is there) as parquet" in out
    assert "-> files" in out
    assert invoke("tables", "list")[1] == ""


# -- HTTP ------------------------------------------------------------------------------------------


@pytest.fixture
def deployed(tmp_path: Path) -> Iterator[tuple[LocalApi, crossdock.Connection]]:
    home = tmp_path / "remote"
    server = Server(home / "objects")
    numbers = pa.table({"i": list(range(100))})
    with (
        local_api(home, {"numbers": numbers}, presign_base=f"{server.url}/objects") as api,
        served(api.api, home / "objects", server),
        crossdock.connect(endpoint=server.url, auth="none") as remote,
    ):
        yield api, remote
    server.close()


def test_a_deployment_s_tables_are_written_over_http(
    deployed: tuple[LocalApi, crossdock.Connection],
) -> None:
    api, remote = deployed
    made = remote.execute(
        "CREATE TABLE t AS SELECT i % 3 AS g, sum(i) AS s FROM numbers GROUP BY g"
    )
    assert made.description is not None
    assert made.description[0][:2] == ("Count", "BIGINT")
    assert made.fetchall() == [(3,)]
    assert remote.execute("INSERT INTO t SELECT 7, 8").fetchall() == [(1,)]
    assert remote.execute("SELECT * FROM t ORDER BY g").fetchall() == [
        *duckdb.sql("SELECT i % 3, sum(i) FROM range(100) r(i) GROUP BY 1 ORDER BY 1").fetchall(),
        (7, 8),
    ]
    assert remote.tables.names() == ("numbers", "t")
    assert remote.tables.describe("t").rows == 4
    document = api.run("SELECT s FROM t ORDER BY g")
    assert api.rows(document)[-1] == ["8"]
    remote.tables.remove("t")
    with pytest.raises(CrossdockError, match="does not exist"):
        remote.execute("FROM t")


def test_rows_of_a_write_are_its_count_in_every_form(
    deployed: tuple[LocalApi, crossdock.Connection],
) -> None:
    api, _ = deployed
    document = api.run("CREATE TABLE t AS FROM numbers")
    assert [(column["name"], column["type"]) for column in document["columns"]] == [
        ("Count", "BIGINT")
    ]
    assert document["rows"] == 1
    assert api.rows(document) == [[100]]


def test_a_place_of_the_server_s_own_disk_is_not_written_to(
    deployed: tuple[LocalApi, crossdock.Connection], tmp_path: Path
) -> None:
    _, remote = deployed
    with pytest.raises(CrossdockError, match="name s3://bucket/prefix"):
        remote.execute(f"COPY numbers TO '{tmp_path}/out'")
    assert not (tmp_path / "out").exists()
