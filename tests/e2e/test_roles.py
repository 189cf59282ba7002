"""With policies enforced a query passes, and functions are refused what their roles do not list."""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.e2e.conftest import DATA_BUCKET, SHARED_BUCKET
from tests.e2e.deploying import Deployed, quickly_deployed
from tests.e2e.stand import ACCOUNT, REGION, enforcing_stand, make_bucket

#: Stands in for a function's code: makes one call with its role and says what came of it.
PROBE = """
import boto3, botocore.exceptions

def handler(event, context):
    client = boto3.client(event["service"])
    try:
        getattr(client, event["call"])(**event["arguments"])
    except botocore.exceptions.ClientError as error:
        return error.response["Error"]["Code"]
    return "done"
"""
DENIED = {"AccessDenied", "AccessDeniedException"}
KEY = {"pk": {"S": "Q#none"}, "sk": {"S": "Q"}}
FUNCTIONS = ("api", "coordinator", "producer-0", "consumer-0", "janitor")


@pytest.fixture(scope="module")
def enforced(quick_assembly: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with enforcing_stand(tmp_path_factory.mktemp("enforcing")) as stand:
        for bucket in (DATA_BUCKET, SHARED_BUCKET, "private"):
            make_bucket(stand, bucket)
        with quickly_deployed(
            stand, quick_assembly, tmp_path_factory.mktemp("enforced")
        ) as deployed:
            yield deployed


JOIN = (
    "SELECT n_name, count(*) AS orders, sum(o_totalprice) AS total FROM orders "
    "JOIN customer ON o_custkey = c_custkey JOIN nation ON c_nationkey = n_nationkey "
    "GROUP BY n_name ORDER BY n_name"
)
TABLES = ("customer", "nation", "orders")


@pytest.fixture(scope="module")
def reference(enforced: Deployed, tpch_tiny: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Tables named in the deployment, and the same ones in DuckDB."""
    s3: Any = enforced.session.client("s3")
    with duckdb.connect() as connection:
        for table in TABLES:
            source = tpch_tiny / f"{table}.parquet"
            s3.upload_file(str(source), DATA_BUCKET, source.name)
            put = {"sources": [f"s3://{DATA_BUCKET}/{source.name}"]}
            answer = enforced.request("PUT", f"/v1/tables/{table}", put)
            assert answer.status == 200, answer.body
            connection.execute(f"CREATE VIEW {table} AS FROM '{source}'")
        yield connection


def test_a_shuffle_passes_with_policies_enforced(
    enforced: Deployed, reference: duckdb.DuckDBPyConnection
) -> None:
    body = {"sql": JOIN, "settings": {"single_task_bytes": 0, "broadcast_bytes": 0}}
    submitted = enforced.request("POST", "/v1/queries", body)
    assert submitted.status == 202, submitted.body
    path = submitted.json["links"]["self"]
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        status = enforced.request("GET", f"{path}?wait=10").json
        if status["status"] != "RUNNING":
            break
    assert status["status"] == "SUCCEEDED", status
    assert len(status["stages"]) > 2
    rows = enforced.request("GET", submitted.json["links"]["results"]).json["rows"]
    expected = reference.execute(JOIN).fetchall()
    assert rows == [[name, count, str(total)] for name, count, total in expected]


def test_data_that_the_settings_do_not_name_is_refused_in_words(
    enforced: Deployed, reference: duckdb.DuckDBPyConnection
) -> None:
    refused = enforced.request("PUT", "/v1/tables/secret", {"sources": ["s3://private/1.parquet"]})
    assert refused.status == 400, refused.body
    assert "private" in refused.json["detail"]


@pytest.fixture(scope="module")
def probed(enforced: Deployed) -> Deployed:
    """Every function's code is exchanged for the probe; its role stays. Comes after the query."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("probe.py", PROBE)
    client: Any = enforced.session.client("lambda")
    for name in FUNCTIONS:
        function = enforced.function(name)
        client.update_function_code(FunctionName=function, ZipFile=packed.getvalue())
        client.update_function_configuration(FunctionName=function, Handler="probe.handler")
    return enforced


def outcome(deployed: Deployed, function: str, service: str, call: str, **arguments: Any) -> str:
    client: Any = deployed.session.client("lambda")
    event = {"service": service, "call": call, "arguments": arguments}
    answer = client.invoke(
        FunctionName=deployed.function(function), Payload=json.dumps(event).encode()
    )
    text = answer["Payload"].read().decode()
    assert "FunctionError" not in answer, text
    return str(json.loads(text))


def queue(deployed: Deployed, name: str) -> str:
    return str(deployed.session.client("sqs").get_queue_url(QueueName=name)["QueueUrl"])  # type: ignore[attr-defined]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_function_touches_what_is_not_the_deployments(probed: Deployed, function: str) -> None:
    for service, call, arguments in [
        ("s3", "put_object", {"Bucket": DATA_BUCKET, "Key": "1.parquet", "Body": ""}),
        ("s3", "delete_object", {"Bucket": DATA_BUCKET, "Key": "1.parquet"}),
        ("s3", "get_object", {"Bucket": "private", "Key": "1.parquet"}),
        ("s3", "get_object", {"Bucket": SHARED_BUCKET, "Key": "closed/1.parquet"}),
        ("dynamodb", "scan", {"TableName": probed.outputs["TableName"]}),
        ("dynamodb", "delete_table", {"TableName": probed.outputs["TableName"]}),
        ("sqs", "create_queue", {"QueueName": "elsewhere"}),
        ("lambda", "list_functions", {}),
        ("iam", "list_roles", {}),
    ]:
        assert outcome(probed, function, service, call, **arguments) in DENIED, (service, call)


@pytest.mark.parametrize("function", ["api", "producer-0", "consumer-0"])
def test_only_coordinator_and_janitor_remove_items_and_make_queues(
    probed: Deployed, function: str
) -> None:
    table = probed.outputs["TableName"]
    made = {"QueueName": "crossdock-q-probe"}
    assert outcome(probed, function, "dynamodb", "delete_item", TableName=table, Key=KEY) in DENIED
    assert outcome(probed, function, "sqs", "create_queue", **made) in DENIED
    assert outcome(probed, "janitor", "dynamodb", "delete_item", TableName=table, Key=KEY) == "done"
    assert outcome(probed, "janitor", "sqs", "create_queue", **made) == "done"


def test_the_api_writes_no_object_and_takes_no_message(probed: Deployed) -> None:
    results = probed.outputs["ResultBucketName"]
    put = {"Bucket": results, "Key": "result/00/q/0/0-1", "Body": ""}
    pool = queue(probed, "crossdock-pool-0000")
    assert outcome(probed, "api", "s3", "put_object", **put) in DENIED
    assert outcome(probed, "api", "sqs", "receive_message", QueueUrl=pool) in DENIED
    assert outcome(probed, "producer-0", "s3", "put_object", **put) == "done"
    assert outcome(probed, "consumer-0", "sqs", "receive_message", QueueUrl=pool) == "done"


def test_workers_start_no_function_and_see_no_table_definition(probed: Deployed) -> None:
    results = probed.outputs["ResultBucketName"]
    arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{probed.function('producer-0')}"
    for worker in ("producer-0", "consumer-0"):
        assert outcome(probed, worker, "lambda", "invoke", FunctionName=arn) in DENIED
        key = {"Bucket": results, "Key": "tables/t/1.json"}
        assert outcome(probed, worker, "s3", "get_object", **key) in DENIED
        assert outcome(probed, worker, "s3", "put_object", Body="", **key) in DENIED


def test_an_object_that_is_missing_is_not_taken_for_forbidden(probed: Deployed) -> None:
    for bucket, key in [("ExchangeBucketName", "exchange/x"), ("ResultBucketName", "result/x")]:
        where = {"Bucket": probed.outputs[bucket], "Key": key}
        assert outcome(probed, "consumer-0", "s3", "get_object", **where) == "NoSuchKey"
