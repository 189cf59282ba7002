"""connect(endpoint=...): the local cursor's behaviour, over HTTP."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

import crossdock
from crossdock.cli.commands import cli, run
from crossdock.client.credentials import Bearer, Signature, signer
from crossdock.errors import PlatformDenied, PlatformUnavailable
from tests.api_local import LocalApi, local_api
from tests.api_server import Server, served

SLOW = "SELECT count(*) FROM range(300000) a, range(300000) b WHERE (a.range * b.range) % 7 = 3"


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalApi, Server]]:
    home = tmp_path_factory.mktemp("remote")
    table = pa.table({"i": list(range(1003)), "s": [f"x{n}" for n in range(1003)]})
    server = Server(home / "objects")
    with (
        local_api(home, {"numbers": table}, presign_base=f"{server.url}/objects") as api,
        served(api.api, home / "objects", server),
    ):
        yield api, server
    server.close()


@pytest.fixture
def server(deployed: tuple[LocalApi, Server]) -> Iterator[Server]:
    quiet = deployed[1].interpose
    deployed[1].requests.clear()
    yield deployed[1]
    deployed[1].interpose = quiet


@pytest.fixture
def connection(server: Server) -> Iterator[crossdock.Connection]:
    with crossdock.connect(endpoint=server.url, auth="none") as remote:
        yield remote


def test_rows_names_and_types_are_those_of_a_local_query(
    connection: crossdock.Connection, tmp_path: Path
) -> None:
    sql = (
        "SELECT i, s, i * 1.5::DECIMAL(9,2) AS d, DATE '2024-02-29' AS day, "
        "170141183460469231731687303715884105727::HUGEINT AS huge, [i, NULL] AS list, "
        "{'a': i, 'b': s} AS struct, INTERVAL 1 MONTH AS gap, 'x' AS s FROM numbers ORDER BY i"
    )
    table = pa.table({"i": list(range(1003)), "s": [f"x{n}" for n in range(1003)]})
    with crossdock.connect(home=tmp_path, tables={"numbers": table}) as local:
        here, there = local.execute(sql), connection.execute(sql)
        assert there.description == here.description
        expected = here.arrow()
        assert connection.execute(sql).arrow().equals(expected)
        assert there.fetchall() == local.execute(sql).fetchall()
        assert there.rowcount == 1003


def test_fetching_in_portions_gives_every_row_once(connection: crossdock.Connection) -> None:
    cursor = connection.execute("SELECT i FROM numbers ORDER BY i")
    assert cursor.fetchone() == (0,)
    assert cursor.fetchmany(3) == [(1,), (2,), (3,)]
    assert [row[0] for row in cursor] == list(range(4, 1003))


def test_progress_labels_and_receipt(connection: crossdock.Connection) -> None:
    seen: list[int] = []
    cursor = connection.cursor(on_progress=lambda stages: seen.append(len(stages)))
    cursor.execute("SELECT s, count(*) FROM numbers GROUP BY s")
    assert cursor.stage_labels[0].startswith("scan numbers")
    assert set(seen) <= {2}
    receipt = cursor.receipt
    assert receipt is not None
    assert (receipt.status, receipt.result_rows, len(receipt.stages)) == ("SUCCEEDED", 1003, 2)
    assert receipt.cost.total > 0
    assert json.loads(receipt.to_json())["query_id"] == cursor.query_id


def test_parameters_travel(connection: crossdock.Connection) -> None:
    sql = "SELECT ?::INT, ?::DECIMAL(5,2), ?::DATE, ?"
    given = [1, decimal.Decimal("1.50"), datetime.date(2024, 2, 29), "it's"]
    assert connection.execute(sql, given).fetchall() == [
        (1, decimal.Decimal("1.50"), datetime.date(2024, 2, 29), "it's")
    ]
    assert connection.execute("SELECT $a + 1", {"a": 41}).fetchall() == [(42,)]


def test_errors_are_the_local_ones(connection: crossdock.Connection) -> None:
    with pytest.raises(crossdock.SqlError, match="LINE 1"):
        connection.execute("SELECT nosuch FROM numbers")
    with pytest.raises(crossdock.SettingError, match="the deployment's to set"):
        crossdock.connect(endpoint="http://x", auth="none", worker_memory="1GB")
    with pytest.raises(crossdock.TableError, match="numbers"):
        connection.tables.describe("numbres")
    with pytest.raises(crossdock.TableError, match="S3 only"):
        connection.tables.add("t", "here.parquet")
    with pytest.raises(crossdock.QueryFailed, match="glass") as failed:
        connection.execute("SELECT error('the glass is empty') FROM numbers")
    assert failed.value.query_id
    with pytest.raises(crossdock.InterfaceError):
        _ = connection.platform


def test_lost_answer_does_not_start_a_second_query(
    connection: crossdock.Connection, server: Server, deployed: tuple[LocalApi, Server]
) -> None:
    before = len(deployed[0].platform.queries(1000))
    lost = iter([(503, b"{}"), (502, b"Bad Gateway")])

    def lose(method: str, path: str) -> tuple[int, bytes] | None:
        return next(lost, None) if method == "POST" else None

    server.interpose = lose
    assert connection.execute("SELECT 7").fetchall() == [(7,)]
    assert len(deployed[0].platform.queries(1000)) == before + 1
    assert sum(method == "POST" for method, _ in server.requests) == 3


def test_endpoint_that_stays_away_is_an_error_in_words(server: Server) -> None:
    server.interpose = lambda method, path: (503, b'{"message":"Service Unavailable"}')
    from crossdock.client.http import HttpApi

    api = HttpApi(server.url, signer("none", {}), retries=1)
    with pytest.raises(PlatformUnavailable, match="503"):
        api.call("GET", "/queries", dict)
    with pytest.raises(PlatformUnavailable, match="does not answer"):
        HttpApi("http://127.0.0.1:9", signer("none", {}), retries=0).call("GET", "/queries", dict)


def test_refused_credentials_are_an_error_in_words(server: Server) -> None:
    server.interpose = lambda method, path: (403, b'{"message":"Forbidden"}')
    with (
        crossdock.connect(endpoint=server.url, auth="none") as remote,
        pytest.raises(PlatformDenied, match="Forbidden; check the credentials"),
    ):
        remote.tables.names()


def test_cancel_from_another_thread_ends_the_query_there(
    connection: crossdock.Connection, deployed: tuple[LocalApi, Server]
) -> None:
    cursor = connection.cursor()
    threading.Timer(1.0, cursor.cancel).start()
    with pytest.raises(crossdock.QueryCancelled):
        cursor.execute(SLOW)
    assert deployed[0].platform.store.get_query(cursor.query_id).status == "CANCELLED"


def test_interrupt_ends_the_query_there(server: Server, deployed: tuple[LocalApi, Server]) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with crossdock.connect(endpoint=server.url, auth="none") as remote:
        cursor = remote.cursor(on_progress=interrupt)
        with pytest.raises(KeyboardInterrupt):
            cursor.execute(SLOW)
    last = deployed[0].platform.queries(1)[0]
    assert last.status == "CANCELLED"


def test_closing_a_connection_leaves_no_file(
    server: Server, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with crossdock.connect(endpoint=server.url, auth="none") as remote:
        remote.execute("SELECT i FROM numbers").fetchone()
    deadline = time.monotonic() + 5
    while list(tmp_path.glob("*/*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(tmp_path.glob("*/*")) == []


def test_plan_of_the_deployment(connection: crossdock.Connection) -> None:
    assert connection.explain("SELECT count(*) FROM numbers").stages[0].label.startswith("scan")


def test_environment_names_the_endpoint(server: Server, monkeypatch: Any, capfd: Any) -> None:
    monkeypatch.setenv("CROSSDOCK_ENDPOINT", server.url)
    monkeypatch.setenv("CROSSDOCK_TOKEN", "any")
    arguments = ["query", "SELECT i FROM numbers ORDER BY i LIMIT 2", "--format", "csv", "--quiet"]
    assert run(lambda: cli.main(arguments, standalone_mode=False)) == 0
    assert capfd.readouterr().out == "i\n0\n1\n"


def test_command_line_over_an_endpoint(server: Server, capfd: Any) -> None:
    where = ["--endpoint", server.url, "--auth", "none"]

    def crossdock_(*arguments: str) -> str:
        assert run(lambda: cli.main([*arguments, *where], standalone_mode=False)) == 0
        return str(capfd.readouterr().out)

    assert "numbers\t" in crossdock_("tables", "list")
    assert crossdock_("tables", "describe", "numbers") == "i\tBIGINT\ns\tVARCHAR\n"
    assert "scan numbers" in crossdock_("explain", "SELECT count(*) FROM numbers")
    newest = crossdock_("queries", "list", "--limit", "1").split("\t")
    assert newest[1] in ("SUCCEEDED", "CANCELLED", "FAILED")
    assert newest[1] in crossdock_("queries", "show", newest[0])
    assert newest[1] in ("SUCCEEDED", "CANCELLED", "FAILED")
    crossdock_("queries", "cancel", newest[0])


# -- credentials -------------------------------------------------------------------------------


def test_signature_is_the_sdks_for_the_regions_endpoint(monkeypatch: Any) -> None:
    monkeypatch.setitem(os.environ, "AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setitem(os.environ, "AWS_SECRET_ACCESS_KEY", "secret")
    url = "https://abc.execute-api.eu-west-1.amazonaws.com/v1/queries?limit=1&token=a%20b"
    found = Signature().headers("GET", url, b"")
    request = AWSRequest(method="GET", url=url, data=b"", headers={"host": "x"})
    request.headers["host"] = "abc.execute-api.eu-west-1.amazonaws.com"
    SigV4Auth(Credentials("AKID", "secret"), "execute-api", "eu-west-1").add_auth(request)
    assert "/eu-west-1/execute-api/aws4_request" in found["Authorization"]
    assert (
        found["Authorization"].split("Signature=")[0]
        == (request.headers["Authorization"].split("Signature=")[0])
    )


def test_signer_by_what_was_given() -> None:
    token = Bearer(lambda: "t").headers("GET", "http://x", b"")
    assert token == {"Authorization": "Bearer t"}
    assert isinstance(signer("Bearer t", {}), Bearer)
    assert isinstance(signer(lambda: "fresh", {}), Bearer)
    assert isinstance(signer(None, {"CROSSDOCK_TOKEN": "t"}), Bearer)
    assert isinstance(signer(None, {}), Signature)
    assert dict(signer("none", {}).headers("GET", "http://x", b"")) == {}
    with pytest.raises(crossdock.SettingError, match="auth"):
        signer("basic", {})
