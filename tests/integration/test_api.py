"""The HTTP API's behaviour over a local home: paging, tokens, owners, values, refusals, limits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pytest

from crossdock.api import limits, submissions
from crossdock.api.api import Response
from crossdock.api.messages import Submit
from crossdock.api.ports import Others
from crossdock.results.reader import ResultReader
from tests.api_local import ALICE, BOB, LocalApi, local_api

ROWS = 1003
SLOW = "SELECT count(*) FROM range(300000) a, range(300000) b WHERE (a.range * b.range) % 7 = 3"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalApi]:
    numbers = pa.table({"i": list(range(ROWS)), "s": [f"x{n}" for n in range(ROWS)]})
    with local_api(tmp_path_factory.mktemp("api"), {"numbers": numbers}) as local:
        yield local


@pytest.fixture(scope="module")
def ordered(api: LocalApi) -> Any:
    return api.run("SELECT i, s FROM numbers ORDER BY i")


def problem(response: Response, status: int, kind: str) -> Any:
    """The problem of a refused call."""
    assert (response.status, response.content_type) == (status, "application/problem+json")
    document = msgspec.json.decode(response.body)
    assert document["type"] == f"urn:crossdock:problem:{kind}"
    assert document["status"] == status
    return document


def submit(api: LocalApi, sql: str, **more: object) -> Response:
    return api.call("submit", body={"sql": sql, **more})


# -- paging ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [100, 1000, 1003, 2000])
def test_pages_together_are_the_result_in_order(api: LocalApi, ordered: Any, size: int) -> None:
    assert api.rows(ordered, size=size) == [[n, f"x{n}"] for n in range(ROWS)]


@pytest.fixture
def one_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All pages of a part are read by one engine: starting a thousand takes half a minute."""
    real, kept = ResultReader._engine, {}

    @contextmanager
    def engine(self: ResultReader, answer: Any, file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
        if file not in kept:
            kept[file] = stack.enter_context(real(self, answer, file))
        yield kept[file]

    with ExitStack() as stack:
        monkeypatch.setattr(ResultReader, "_engine", engine)
        yield


@pytest.mark.usefixtures("one_engine")
def test_e01_pages_of_one_row_neither_skip_nor_repeat(api: LocalApi, ordered: Any) -> None:
    token, found = "", []
    while True:
        query = {"limit": 1, "token": token} if token else {"limit": 1}
        page = api.ok("results", query_id=ordered["query_id"], query=query)
        assert [column["name"] for column in page["columns"]] == ["i", "s"]
        found += page["rows"]
        token = page.get("next", "")
        if not token:
            break
    assert found == [[n, f"x{n}"] for n in range(ROWS)]


def test_last_page_has_no_next_and_is_not_empty(api: LocalApi, ordered: Any) -> None:
    page = api.ok("results", query_id=ordered["query_id"], query={"limit": ROWS})
    assert len(page["rows"]) == ROWS
    assert "next" not in page


def test_same_token_gives_the_same_page(api: LocalApi, ordered: Any) -> None:
    first = api.ok("results", query_id=ordered["query_id"], query={"limit": 100})
    again = [
        api.ok(
            "results", query_id=ordered["query_id"], query={"limit": 100, "token": first["next"]}
        )
        for _ in range(2)
    ]
    assert again[0] == again[1]
    assert again[0]["rows"][0] == [100, "x100"]


def test_token_of_another_result_is_refused(api: LocalApi, ordered: Any) -> None:
    other = api.run("SELECT i FROM numbers ORDER BY i")
    token = api.ok("results", query_id=other["query_id"], query={"limit": 1})["next"]
    for bad in (token, "AAAA", token[:-2], "é"):
        refused = api.call("results", query_id=ordered["query_id"], query={"token": bad})
        problem(refused, 400, "page-token")


def test_page_ends_before_it_grows_too_large(api: LocalApi, monkeypatch: Any) -> None:
    document = api.run("SELECT i, repeat('y', 1000) AS wide FROM numbers ORDER BY i")
    monkeypatch.setattr(limits, "MAX_PAGE_BYTES", 100_000)
    page = api.ok("results", query_id=document["query_id"])
    assert 50 < len(page["rows"]) < 100
    assert [row[0] for row in api.rows(document)] == list(range(ROWS))


def test_row_beyond_a_page_is_refused_in_words_and_had_as_a_file(
    api: LocalApi, monkeypatch: Any
) -> None:
    document = api.run("SELECT repeat('z', 5000) AS wide")
    monkeypatch.setattr(limits, "MAX_PAGE_BYTES", 1000)
    refused = problem(api.call("results", query_id=document["query_id"]), 422, "not-supported")
    assert "format=parquet" in refused["detail"]
    parts = api.ok("results", query_id=document["query_id"], query={"format": "parquet"})["parts"]
    assert len(parts) == 1


def test_empty_result_is_one_page_without_rows(api: LocalApi) -> None:
    document = api.run("SELECT i FROM numbers WHERE i < 0")
    page = api.ok("results", query_id=document["query_id"])
    assert (page["rows"], page["columns"][0]["type"], "next" in page) == ([], "BIGINT", False)


# -- files -------------------------------------------------------------------------------------


def test_files_hold_the_same_rows_in_every_form(api: LocalApi, ordered: Any) -> None:
    folder = api.platform.home.objects
    base = "http://127.0.0.1/"
    found = {}
    for form in ("parquet", "csv", "arrow", "engine"):
        document = api.ok("results", query_id=ordered["query_id"], query={"format": form})
        paths = [folder / part["url"].removeprefix(base) for part in document["parts"]]
        assert [path.stat().st_size for path in paths] == [p["size"] for p in document["parts"]]
        found[form] = paths
    expected = [(n, f"x{n}") for n in range(ROWS)]
    assert duckdb.read_parquet(str(found["parquet"][0])).fetchall() == expected
    assert duckdb.read_parquet(str(found["parquet"][0])).columns == ["i", "s"]
    assert duckdb.read_csv(str(found["csv"][0])).fetchall() == expected
    arrow = pa.ipc.open_stream(found["arrow"][0].read_bytes()).read_all()
    assert arrow.to_pydict() == {"i": list(range(ROWS)), "s": [f"x{n}" for n in range(ROWS)]}


def test_asking_for_a_form_twice_makes_it_once(api: LocalApi, ordered: Any) -> None:
    ask = {"query_id": ordered["query_id"], "query": {"format": "csv"}}
    first = api.ok("results", **ask)
    path = api.platform.home.objects / first["parts"][0]["url"].removeprefix("http://127.0.0.1/")
    made = path.stat().st_mtime_ns
    assert api.ok("results", **ask) == first
    assert path.stat().st_mtime_ns == made


# -- values ------------------------------------------------------------------------------------


def test_json_keeps_every_digit_and_every_special_value(api: LocalApi) -> None:
    document = api.run(
        "SELECT 9007199254740993::BIGINT a, 0.10::DECIMAL(4,2) b, "
        "12345678901234567890123456789012345678::DECIMAL(38,0) c, "
        "170141183460469231731687303715884105727::HUGEINT d, 'NaN'::DOUBLE e, "
        "'Infinity'::DOUBLE f, '-Infinity'::DOUBLE g, NULL::DOUBLE h, 7::BIGINT i"
    )
    assert api.rows(document) == [
        [
            "9007199254740993",
            "0.10",
            "12345678901234567890123456789012345678",
            "170141183460469231731687303715884105727",
            "NaN",
            "Infinity",
            "-Infinity",
            None,
            7,
        ]
    ]
    types = [column["type"] for column in document["columns"]]
    assert types[:4] == ["BIGINT", "DECIMAL(4,2)", "DECIMAL(38,0)", "HUGEINT"]


def test_integer_sums_and_counts_are_exact_in_every_form(api: LocalApi) -> None:
    document = api.run("SELECT sum(v) AS s, count(*) AS n FROM (VALUES (1::BIGINT), (2)) t(v)")
    assert api.rows(document) == [["3", 2]]
    folder = api.platform.home.objects
    for form in ("csv", "arrow"):
        parts = api.ok("results", query_id=document["query_id"], query={"format": form})["parts"]
        path = folder / parts[0]["url"].removeprefix("http://127.0.0.1/")
        if form == "csv":
            assert path.read_text() == "s,n\n3,2\n"
        else:
            assert pa.ipc.open_stream(path.read_bytes()).read_all().to_pylist() == [
                {"s": 3, "n": 2}
            ]


# -- client tokens -----------------------------------------------------------------------------


def test_same_token_in_series_and_in_parallel_is_one_query(api: LocalApi) -> None:
    body = {"sql": "SELECT count(*) FROM numbers", "client_token": "parallel"}
    with ThreadPoolExecutor(8) as threads:
        first = list(threads.map(lambda _: api.ok("submit", body=body)["query_id"], range(8)))
    again = api.ok("submit", body=body)["query_id"]
    assert {*first, again} == {again}


def test_same_token_with_another_statement_is_a_conflict(api: LocalApi) -> None:
    api.ok("submit", body={"sql": "SELECT 1", "client_token": "reused"})
    refused = problem(submit(api, "SELECT 2", client_token="reused"), 409, "token-conflict")
    assert "use a new token" in refused["detail"]


def test_tokens_of_two_callers_are_two_queries(api: LocalApi) -> None:
    body = {"sql": "SELECT 1", "client_token": "both"}
    mine = api.ok("submit", body=body)["query_id"]
    theirs = api.ok("submit", body=body, caller=BOB)["query_id"]
    assert mine != theirs


def test_request_that_died_after_its_token_is_taken_up_again(
    api: LocalApi, monkeypatch: Any
) -> None:
    body = {"sql": "SELECT 41 + 1 AS answer", "client_token": "died"}
    with monkeypatch.context() as dying:
        dying.setattr(submissions, "query_record", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            submit(api, **body)
    document = api.run(**body)
    assert api.rows(document) == [[42]]


# -- owners ------------------------------------------------------------------------------------


def test_queries_of_others_do_not_exist(api: LocalApi, ordered: Any) -> None:
    for route in ("get", "cancel", "results"):
        refused = api.call(route, caller=BOB, query_id=ordered["query_id"])
        problem(refused, 404, "unknown-query")
    listed = api.ok("list", caller=BOB, query={"limit": 100})["queries"]
    assert ordered["query_id"] not in {query["query_id"] for query in listed}


@pytest.mark.parametrize(
    ("others", "status"), [(Others.REFUSED, 403), (Others.SHARED, 200), (Others.HIDDEN, 404)]
)
def test_what_is_seen_of_others_is_the_deployments_choice(
    tmp_path: Path, others: Others, status: int
) -> None:
    with local_api(tmp_path, {}, others=others) as local:
        local.control.paused = True
        made = local.ok("submit", body={"sql": "SELECT 1"})["query_id"]
        assert local.call("get", caller=BOB, query_id=made).status == status


def test_nobody_is_refused(api: LocalApi) -> None:
    problem(api.call("list", caller=None), 401, "unauthenticated")


# -- the life of a query -----------------------------------------------------------------------


def test_cancel_ends_the_work(api: LocalApi) -> None:
    document = api.ok("submit", body={"sql": SLOW})
    until = time.monotonic() + 20
    while time.monotonic() < until:
        seen = api.ok("get", query_id=document["query_id"])
        if any(stage.get("running") for stage in seen["stages"]):
            break
        time.sleep(0.05)
    cancelled = api.ok("cancel", query_id=document["query_id"])
    assert cancelled["status"] == "CANCELLED"
    problem(api.call("results", query_id=document["query_id"]), 409, "no-result")
    until = time.monotonic() + 20
    while api.platform.store.open_queries() and time.monotonic() < until:
        time.sleep(0.1)
    ended = api.ok("get", query_id=document["query_id"])
    assert (ended["status"], ended["error"]["kind"]) == ("CANCELLED", "Cancelled")


def test_cancel_of_an_ended_query_changes_nothing(api: LocalApi, ordered: Any) -> None:
    assert api.ok("cancel", query_id=ordered["query_id"])["status"] == "SUCCEEDED"


def test_cancel_of_an_unknown_query_is_not_found(api: LocalApi) -> None:
    problem(api.call("cancel", query_id="nothing"), 404, "unknown-query")


def test_failed_query_tells_its_error_and_has_no_result(api: LocalApi) -> None:
    document = api.run("SELECT error('the glass is empty') FROM numbers")
    assert document["status"] == "FAILED"
    assert "the glass is empty" in document["error"]["message"]
    refused = problem(api.call("results", query_id=document["query_id"]), 409, "no-result")
    assert refused["error"] == document["error"]


def test_running_query_has_no_result_yet(tmp_path: Path) -> None:
    with local_api(tmp_path, {}) as local:
        local.control.paused = True
        made = local.ok("submit", body={"sql": "SELECT 1"})["query_id"]
        response = local.call("results", query_id=made)
        problem(response, 409, "not-ended")
        assert response.headers["Retry-After"] == "1"


def test_deadline_ends_a_query(api: LocalApi) -> None:
    document = api.run(SLOW, timeout_seconds=0.5)
    assert (document["status"], document["error"]["kind"]) == ("FAILED", "Timeout")
    assert document["seconds"] < 20


def test_ended_query_tells_stages_and_receipt(ordered: Any) -> None:
    assert [stage["status"] for stage in ordered["stages"]] == ["COMPLETE", "COMPLETE"]
    assert ordered["stages"][0]["label"].startswith("scan numbers")
    assert ordered["receipt"]["cost"]["total"] > 0
    assert ordered["rows"] == ROWS


def test_listing_is_paged_and_filtered(api: LocalApi, ordered: Any) -> None:
    found, token = [], ""
    while True:
        query = {"limit": 3, "status": "SUCCEEDED", **({"token": token} if token else {})}
        page = api.ok("list", query=query)
        found += page["queries"]
        token = page.get("next", "")
        if not token:
            break
    ids = [query["query_id"] for query in found]
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == len(set(ids))
    assert ordered["query_id"] in ids
    assert {query["status"] for query in found} == {"SUCCEEDED"}


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT nmae FROM users", '"name"'),
        ("SELECT id FROM (SELECT 1 id) a JOIN (SELECT 1 id) b ON a.id = b.id", "mbiguous"),
        ("SELECT 1 FROM numbres", "numbers"),
        ("SELECT medain(1)", "median"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("CREATE SCHEMA s", ""),
        ("COPY numbers TO 'x.parquet'", ""),
        ("ATTACH 'x.db'", ""),
        ("INSTALL httpfs", ""),
        ("SET memory_limit = '1GB'", ""),
        ("", ""),
    ],
)
def test_statement_is_refused_before_anything_starts(api: LocalApi, sql: str, says: str) -> None:
    before = len(api.platform.queries(1000))
    response = submit(api, sql.replace("users", "(SELECT 1 AS name) users"))
    assert response.status == 400, response.body
    document = msgspec.json.decode(response.body)
    assert says in document["detail"]
    assert len(api.platform.queries(1000)) == before


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"sql": 1}',
        b'{"sql": "SELECT 1", "sqll": 2}',
        b'{"sql": "\xff"}',
        b'{"sql": "SELECT 1", "timeout_seconds": 0}',
        b'{"sql": "SELECT 1", "timeout_seconds": NaN}',
        b'{"sql": "SELECT 1", "parameters": 7}',
        b'{"sql": "SELECT 1", "parameters": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    ],
)
def test_malformed_body_is_400(api: LocalApi, body: bytes) -> None:
    problem(api.call("submit", body=body), 400, "malformed")


@pytest.mark.parametrize(
    ("route", "query"),
    [
        ("get", {"wait": 21}),
        ("get", {"wait": "soon"}),
        ("get", {"wiat": 1}),
        ("results", {"limit": 0}),
        ("results", {"limit": 10_001}),
        ("results", {"format": "xml"}),
        ("results", {"format": "csv", "limit": 101}),
        ("list", {"limit": 201}),
        ("list", {"status": "DONE"}),
    ],
)
def test_query_string_out_of_bounds_is_400(
    api: LocalApi, ordered: Any, route: str, query: dict[str, object]
) -> None:
    given = {} if route == "list" else {"query_id": ordered["query_id"]}
    problem(api.call(route, query=query, **given), 400, "malformed")


def test_too_large_requests_are_413(api: LocalApi) -> None:
    problem(api.call("submit", body=b" " * (limits.MAX_BODY_BYTES + 1)), 413, "too-large")
    problem(submit(api, "SELECT 1 -- " + "x" * limits.MAX_SQL_CHARS), 413, "too-large")
    problem(submit(api, "SELECT ?", parameters=[1] * 1001), 413, "too-large")


def test_settings_of_the_deployment_cannot_be_chosen(api: LocalApi) -> None:
    refused = problem(submit(api, "SELECT 1", settings={"worker_memory": 1}), 400, "setting")
    assert "partitions" in refused["detail"]
    problem(submit(api, "SELECT 1", settings={"workers": 99}), 400, "setting")
    problem(submit(api, "SELECT 1", settings={"exchange": "pigeon"}), 400, "setting")


def test_parameters_are_values_never_text(api: LocalApi) -> None:
    document = api.run("SELECT ? AS a, ? AS b, ? AS c", parameters=["'; --", 7, None])
    assert api.rows(document) == [["'; --", 7, None]]
    problem(submit(api, "SELECT ?", parameters=[1, 2]), 400, "sql")


def test_scan_limit_refuses_before_anything_is_read(api: LocalApi) -> None:
    refused = problem(
        submit(api, "SELECT sum(i) FROM numbers", max_scanned_bytes=10), 400, "scan-limit"
    )
    assert "allowed are 10" in refused["detail"]


def test_submissions_beyond_the_limit_wait(tmp_path: Path) -> None:
    with local_api(tmp_path, {}, open_queries=2) as local:
        local.control.paused = True
        made = [
            local.ok("submit", body={"sql": "SELECT 1", "client_token": str(n)}) for n in (1, 2)
        ]
        refused = submit(local, "SELECT 3")
        problem(refused, 429, "busy")
        assert int(refused.headers["Retry-After"]) >= 1
        again = local.ok("submit", body={"sql": "SELECT 1", "client_token": "2"})
        assert again["query_id"] == made[1]["query_id"]


# -- tables and plans --------------------------------------------------------------------------


def test_tables_are_put_described_listed_and_dropped(api: LocalApi, tmp_path: Path) -> None:
    duckdb.sql("SELECT 1 AS k, 'v' AS v").write_parquet(str(tmp_path / "kv.parquet"))
    body = {"sources": [str(tmp_path / "kv.parquet")]}
    put = api.ok("put_table", name="kv", body=body)
    assert (put["rows"], put["files"]) == (1, 1)
    assert api.ok("table", name="KV")["columns"] == put["columns"]
    assert "kv" in {table["name"] for table in api.ok("tables")["tables"]}
    assert api.rows(api.run("SELECT v FROM kv")) == [["v"]]
    assert api.ok("drop_table", name="kv") is None
    problem(api.call("table", name="kv"), 404, "unknown-table")
    problem(api.call("drop_table", name="kv"), 404, "unknown-table")
    missing = {"sources": [str(tmp_path / "none.parquet")]}
    problem(api.call("put_table", name="none", body=missing), 400, "table")


def test_explain_plans_and_starts_nothing(api: LocalApi) -> None:
    before = len(api.platform.queries(1000))
    document = api.ok("explain", body={"sql": "SELECT s, count(*) FROM numbers GROUP BY s"})
    assert "scan numbers" in document["text"]
    assert len(document["plan"]["stages"]) == 2
    assert len(api.platform.queries(1000)) == before


def test_actions_name_the_owner(api: LocalApi, ordered: Any) -> None:
    owners = {action.owner for action in api.desk.actions if isinstance(action, Submit)}
    assert owners <= {ALICE.owner, BOB.owner}
    assert api.queries.record(ALICE, ordered["query_id"]).owner == ALICE.owner
