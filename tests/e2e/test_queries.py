"""Queries through the deployed HTTP API: API Gateway, functions, queues, buckets, table."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pytest

import crossdock
from coordinator_state.dynamodb import DynamoDbStateStore
from crossdock.client.credentials import Signature
from crossdock.shuffle.layout import query_of_key
from tests.conformance import conformance
from tests.datasets import benchmark_queries
from tests.e2e.answers import FORCED, TABLES, compare
from tests.e2e.conftest import DATA_BUCKET
from tests.e2e.deploying import Deployed
from tests.e2e.proxy import signing_proxy

pytestmark = pytest.mark.deployment

#: Busy for minutes in every worker.
SLOW = (
    "SELECT count(*) FROM lineitem a, lineitem b "
    "WHERE (a.l_orderkey * b.l_partkey + a.l_suppkey) % 1000003 = 5"
)
PATIENCE = 300.0
#: What the stand's deployment is told, see ``deploying.SMALL``.
BUDGET, OPEN_QUERIES = 8, 20


@pytest.fixture(autouse=True, scope="module")
def signing(deployment: Deployed) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in deployment.stand.environment.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def warehouse(
    deployment: Deployed, signing: None, tpch_tenth: Path
) -> Iterator[duckdb.DuckDBPyConnection]:
    """TPC-H in the user's bucket, its tables named; gives the same in DuckDB."""
    reference = duckdb.connect()
    with connected(deployment) as connection:
        s3: Any = deployment.session.client("s3")
        for table in TABLES:
            s3.upload_file(str(tpch_tenth / f"{table}.parquet"), DATA_BUCKET, f"{table}.parquet")
            connection.tables.add(table, f"s3://{DATA_BUCKET}/{table}.parquet")
            source = tpch_tenth / f"{table}.parquet"
            reference.execute(f"CREATE VIEW {table} AS FROM '{source}'")
        yield reference
    reference.close()


def connected(deployment: Deployed, **settings: Any) -> crossdock.Connection:
    return crossdock.connect(endpoint=deployment.endpoint, auth="iam", **settings)


def api(deployment: Deployed, method: str, path: str, body: Any = None) -> Any:
    """The document; asks again for as long as the answer says to."""
    until = time.monotonic() + PATIENCE
    while True:
        answer = deployment.request(method, path, body)
        if answer.status not in (429, 503) or time.monotonic() > until:
            break
        time.sleep(float(answer.headers["Retry-After"]))
    assert answer.status < 300, (answer.status, answer.body)
    return answer.json


def ended(deployment: Deployed, query_id: str) -> Any:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        document = api(deployment, "GET", f"/v1/queries/{query_id}?wait=20")
        if document["status"] != "RUNNING":
            return document
    raise AssertionError(f"query {query_id} still runs: {document}")


def until_running(deployment: Deployed, query_id: str, tasks: int = 1) -> Any:
    """The query's document once so many of its tasks run at once."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        document = api(deployment, "GET", f"/v1/queries/{query_id}")
        assert document["status"] == "RUNNING", document
        if sum(stage.get("running", 0) for stage in document["stages"]) >= tasks:
            return document
        time.sleep(0.1)
    raise AssertionError(f"never {tasks} tasks at once: {document}")


@pytest.mark.parametrize(("number", "sql"), benchmark_queries("tpch"))
def test_tpch_equals_duckdb_under_a_forced_shuffle(
    deployment: Deployed, warehouse: duckdb.DuckDBPyConnection, number: str, sql: str
) -> None:
    with connected(deployment, **FORCED) as connection:
        compare(connection, warehouse, sql)


def test_four_functions_work_at_once_and_cancel_ends_them(
    deployment: Deployed, warehouse: duckdb.DuckDBPyConnection
) -> None:
    body = {"sql": SLOW, "settings": {**FORCED, "partitions": 4}}
    query_id = api(deployment, "POST", "/v1/queries", body)["query_id"]
    until_running(deployment, query_id, tasks=4)
    assert len(functions_running(deployment, "producer", "consumer")) >= 4
    assert api(deployment, "DELETE", f"/v1/queries/{query_id}")["status"] == "CANCELLED"
    document = ended(deployment, query_id)
    assert (document["status"], document["error"]["kind"]) == ("CANCELLED", "Cancelled")
    assert deployment.request("GET", f"/v1/queries/{query_id}/results").status == 409
    settled(deployment)  # closed: all its workers have stopped, long before their lives' end


def test_pages_and_files_hold_every_row_in_order(
    deployment: Deployed, warehouse: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    sql = "SELECT o_orderkey, o_totalprice, o_orderdate FROM orders ORDER BY o_orderkey LIMIT 2500"
    query_id = api(deployment, "POST", "/v1/queries", {"sql": sql, "settings": FORCED})["query_id"]
    assert ended(deployment, query_id)["rows"] == 2500
    found, token = [], ""
    while True:
        more = f"&token={token}" if token else ""
        page = api(deployment, "GET", f"/v1/queries/{query_id}/results?limit=1000{more}")
        found += page["rows"]
        token = page.get("next", "")
        if not token:
            break
    expected = warehouse.execute(sql).fetchall()
    assert found == [[key, str(price), day.isoformat()] for key, price, day in expected]
    parts = api(deployment, "GET", f"/v1/queries/{query_id}/results?format=parquet")["parts"]
    pool = deployment._pool
    rows = []
    for number, part in enumerate(parts):
        data = pool.request("GET", part["url"]).data
        assert len(data) == part["size"]
        file = tmp_path / f"{number}.parquet"
        file.write_bytes(data)
        rows += duckdb.read_parquet(str(file)).fetchall()
    assert rows == expected


def test_repeated_submission_is_one_query(
    deployment: Deployed, warehouse: duckdb.DuckDBPyConnection
) -> None:
    body = {"sql": "SELECT count(*) FROM nation", "client_token": "e2e-once"}
    with ThreadPoolExecutor(4) as threads:
        answers = list(
            threads.map(lambda _: api(deployment, "POST", "/v1/queries", body), range(4))
        )
    assert len({answer["query_id"] for answer in answers}) == 1
    conflict = deployment.request("POST", "/v1/queries", {**body, "sql": "SELECT 2"})
    assert conflict.status == 409
    assert ended(deployment, answers[0]["query_id"])["status"] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/queries", {"sql": "SELECT nosuch FROM orders"}, 400),
        ("POST", "/v1/queries", {"sql": "COPY orders TO 's3://x/y'"}, 400),
        ("POST", "/v1/queries", {"sql": "SELECT 1", "settings": {"workers": 999}}, 400),
        ("POST", "/v1/queries", {"sql": "SELECT * FROM '/etc/passwd'"}, 400),
        ("POST", "/v1/queries", {"sequel": "SELECT 1"}, 400),
        ("GET", "/v1/queries/nothing", None, 404),
        ("GET", "/v1/tables/nothing", None, 404),
        ("GET", "/v1/nothing", None, 404),
        ("PUT", "/v1/tables/t", {"sources": ["s3://nosuch-bucket/x.parquet"]}, 400),
    ],
)
def test_mistakes_are_answered_as_problems(
    deployment: Deployed,
    warehouse: duckdb.DuckDBPyConnection,
    method: str,
    path: str,
    body: Any,
    status: int,
) -> None:
    answer = deployment.request(method, path, body)
    assert answer.status == status, answer.body
    assert answer.json["status"] == status


def test_fifty_queries_at_once_are_all_right_and_more_than_allowed_are_told_to_wait(
    deployment: Deployed, warehouse: duckdb.DuckDBPyConnection
) -> None:
    settled(deployment)

    def body(number: int) -> Any:
        return {"sql": f"SELECT count(*) + {number} FROM nation", "client_token": f"many-{number}"}

    def submitted(number: int) -> str:
        return str(api(deployment, "POST", "/v1/queries", body(number))["query_id"])

    with sleeping_coordinator(deployment):  # so that none of them ends meanwhile
        first = [submitted(number) for number in range(OPEN_QUERIES)]
        refused = deployment.request("POST", "/v1/queries", body(OPEN_QUERIES))
        assert refused.status == 429, refused.body
        assert refused.json["type"] == "urn:crossdock:problem:busy"
        assert str(OPEN_QUERIES) in refused.json["detail"]
        assert float(refused.headers["Retry-After"]) > 0
        # One that is known already is no further one.
        assert submitted(0) == first[0]
    with ThreadPoolExecutor(12) as threads, Census(deployment) as census:
        ids = [*first, *threads.map(submitted, range(OPEN_QUERIES, 50))]
        documents = list(threads.map(lambda one: ended(deployment, one), ids))
    assert len(set(ids)) == 50
    assert {document["status"] for document in documents} == {"SUCCEEDED"}
    assert 1 < census.most <= BUDGET
    with ThreadPoolExecutor(4) as threads:
        pages = threads.map(lambda one: api(deployment, "GET", f"/v1/queries/{one}/results"), ids)
        assert [page["rows"] for page in pages] == [[[25 + number]] for number in range(50)]


def settled(deployment: Deployed) -> None:
    """Wait until no query is open: earlier ones would count."""
    client: Any = deployment.session.client("dynamodb")
    store = DynamoDbStateStore(client, deployment.outputs["TableName"])
    until = time.monotonic() + PATIENCE
    while found := store.open_queries():
        assert time.monotonic() < until, f"still open: {found}"
        time.sleep(0.5)


class Census:
    """The most workers that were at work at once, as the state table had it."""

    def __init__(self, deployment: Deployed) -> None:
        self._dynamodb: Any = deployment.session.client("dynamodb")
        self._table = deployment.outputs["TableName"]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.most = 0

    def __enter__(self) -> Census:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            found = self._dynamodb.scan(
                TableName=self._table,
                FilterExpression="attribute_exists(worker_class) AND #status = :active",
                ExpressionAttributeNames={"#status": "status"},
                ExpressionAttributeValues={":active": {"S": "ACTIVE"}},
            )
            self.most = max(self.most, found["Count"])


@contextmanager
def sleeping_coordinator(deployment: Deployed) -> Iterator[None]:
    """The control queue does not wake it meanwhile; it plans all the same."""
    client: Any = deployment.session.client("lambda")
    name = deployment.function("coordinator")
    (source,) = client.list_event_source_mappings(FunctionName=name)["EventSourceMappings"]
    client.update_event_source_mapping(UUID=source["UUID"], Enabled=False)
    try:
        yield
    finally:
        client.update_event_source_mapping(UUID=source["UUID"], Enabled=True)


def test_the_janitor_finishes_a_query_whose_wake_up_was_lost(
    deployment: Deployed, warehouse: duckdb.DuckDBPyConnection
) -> None:
    with sleeping_coordinator(deployment):
        body = {"sql": "SELECT count(*) FROM region"}
        query_id = api(deployment, "POST", "/v1/queries", body)["query_id"]
        sqs: Any = deployment.session.client("sqs")
        sqs.purge_queue(QueueUrl=deployment.outputs["ControlQueueUrl"])
    client: Any = deployment.session.client("lambda")
    # Its schedule does the same every minute.
    answer = client.invoke(
        FunctionName=deployment.function("janitor"), Payload=b'{"part": "revive"}'
    )
    assert json.loads(answer["Payload"].read())["revived"] >= 1
    assert ended(deployment, query_id)["status"] == "SUCCEEDED"
    rows = api(deployment, "GET", f"/v1/queries/{query_id}/results")["rows"]
    assert rows == [[5]]


def test_nothing_of_ended_queries_is_left_but_answers(
    deployment: Deployed, warehouse: duckdb.DuckDBPyConnection
) -> None:
    """Before any function is killed: the query of a killed worker closes when its life is over."""
    s3: Any = deployment.session.client("s3")
    sqs: Any = deployment.session.client("sqs")
    exchange = deployment.outputs["ExchangeBucketName"]
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        keys = [o["Key"] for o in s3.list_objects_v2(Bucket=exchange).get("Contents", [])]
        objects = [key for key in keys if owned(deployment, key)]
        made = sqs.list_queues(QueueNamePrefix=f"{deployment.name}-q-").get("QueueUrls", [])
        if not objects and not made:
            return
        time.sleep(1.0)
    raise AssertionError(f"left behind: {objects[:20]} {made[:20]}")


@pytest.mark.parametrize("victim", ["producer", "coordinator"])
def test_query_outlives_the_death_of_a_function(
    deployment: Deployed, warehouse: duckdb.DuckDBPyConnection, victim: str
) -> None:
    sql = "SELECT sum(hash(a.l_comment || b.n_name) % 7) FROM lineitem a, nation b"
    settings = {**FORCED, "partitions": 4}
    query_id = api(deployment, "POST", "/v1/queries", {"sql": sql, "settings": settings})[
        "query_id"
    ]
    until_running(deployment, query_id)
    victims = functions_running(deployment, victim)
    assert victims
    for process in victims:
        process.kill()
    document = ended(deployment, query_id)
    assert document["status"] == "SUCCEEDED", document
    rows = api(deployment, "GET", f"/v1/queries/{query_id}/results")["rows"]
    assert [int(rows[0][0])] == [int(warehouse.execute(sql).fetchall()[0][0])]


def owned(deployment: Deployed, key: str) -> bool:
    """Whether a query is known for it: a submission that died leaves a plan to the janitor."""
    query_id = query_of_key(key)
    return deployment.request("GET", f"/v1/queries/{query_id}").status != 404


def test_signature_of_the_client_is_the_gateways(deployment: Deployed) -> None:
    headers = Signature().headers("GET", f"{deployment.endpoint}/v1/queries", b"")
    assert headers["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=test/")


def test_the_deployed_api_keeps_to_its_description(
    deployment: Deployed, warehouse: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """The last one: among the requests are some that replace and drop the tables."""
    query_id = api(deployment, "POST", "/v1/queries", {"sql": "SELECT 42"})["query_id"]
    ended(deployment, query_id)
    with signing_proxy(deployment) as url:
        found = conformance(url, tmp_path, query_id=query_id, examples=3, phases="examples,fuzzing")
    assert not found, found


def functions_running(deployment: Deployed, *kinds: str) -> list[psutil.Process]:
    """Processes of this test's emulator that run functions of these kinds."""
    prefixes = tuple(deployment.function(kind) for kind in kinds)
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            name = process.environ().get("AWS_LAMBDA_FUNCTION_NAME", "")
        except psutil.Error:
            continue  # it has just ended
        if name.startswith(prefixes):
            found.append(process)
    return found
