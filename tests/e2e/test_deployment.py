"""Deploying and destroying: state is kept when asked for, and nothing else is left in the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.deploying import Deployed, quickly_deployed
from tests.e2e.stand import Stand, running_stand

pytestmark = pytest.mark.deployment


def everything(stand: Stand) -> dict[str, list[str]]:
    """Names of all there is on a stand, but what bootstrapping made and the user's own."""
    session = stand.session()
    client: Any = session.client
    stacks = client("cloudformation").describe_stacks()["Stacks"]
    found = {
        "stacks": [each["StackName"] for each in stacks],
        "functions": [f["FunctionName"] for f in client("lambda").list_functions()["Functions"]],
        "layers": [each["LayerName"] for each in client("lambda").list_layers()["Layers"]],
        "queues": client("sqs").list_queues().get("QueueUrls", []),
        "tables": client("dynamodb").list_tables()["TableNames"],
        "buckets": [each["Name"] for each in client("s3").list_buckets()["Buckets"]],
        "logs": [g["logGroupName"] for g in client("logs").describe_log_groups()["logGroups"]],
        "alarms": [
            each["AlarmName"] for each in client("cloudwatch").describe_alarms()["MetricAlarms"]
        ],
        "rules": [each["Name"] for each in client("events").list_rules()["Rules"]],
        "apis": [each["ApiId"] for each in client("apigatewayv2").get_apis()["Items"]],
        "roles": [each["RoleName"] for each in client("iam").list_roles()["Roles"]],
    }
    ours = {
        kind: [name for name in names if not name.startswith(("CDKToolkit", "cdk-"))]
        for kind, names in found.items()
    }
    return {kind: names for kind, names in ours.items() if names}


@pytest.fixture(scope="module")
def other_stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    with running_stand(tmp_path_factory.mktemp("other")) as found:
        yield found


def test_the_command_line_deploys_all_four_stacks(deployment: Deployed) -> None:
    stacks = deployment.session.client("cloudformation").describe_stacks()["Stacks"]  # type: ignore[attr-defined]
    states = {each["StackName"]: each["StackStatus"] for each in stacks}
    del states["CDKToolkit"]
    assert states == {
        f"crossdock-{name}": "CREATE_COMPLETE" for name in ("state", "queues", "compute", "api")
    }
    assert deployment.outputs["CallersMayInvoke"].endswith(
        f":{deployment.outputs['ApiId']}/$default/*/v1/*"
    )


def test_unsigned_requests_are_refused(deployment: Deployed) -> None:
    assert deployment.request("GET", "/v1/queries", signed=False).status == 403
    assert (
        deployment.request("POST", "/v1/queries", {"sql": "SELECT 1"}, signed=False).status == 403
    )


def test_signed_requests_are_answered(deployment: Deployed) -> None:
    answer = deployment.request("GET", "/v1/queries")
    assert (answer.status, answer.json) == (200, {"queries": []})


def test_nothing_is_left_of_a_deployment_that_kept_its_state(
    other_stand: Stand, assembly: Path, tmp_path: Path
) -> None:
    session: Any = other_stand.session()
    s3 = session.client("s3")
    s3.create_bucket(Bucket="warehouse")
    s3.put_object(Bucket="warehouse", Key="sales/1.parquet", Body=b"mine")
    with quickly_deployed(other_stand, assembly, tmp_path) as deployed:
        for bucket in ("ExchangeBucketName", "ResultBucketName"):
            for number in range(1_100):  # more than one page of a listing
                s3.put_object(Bucket=deployed.outputs[bucket], Key=f"exchange/{number}", Body=b"x")
            s3.create_multipart_upload(Bucket=deployed.outputs[bucket], Key="unfinished")
        session.client("sqs").create_queue(QueueName="crossdock-q-01abc-0-0-0")
        session.client("sqs").create_queue(QueueName="crossdock2-q-not-ours")
        teardown = deployed.teardown()
        teardown.run(keep_data=True)
        assert teardown.leftovers(keep_data=True) == []
        kept = everything(other_stand)
        assert kept.pop("stacks") == ["crossdock-state"]
        assert len(kept["tables"]) == 1
        teardown.run()
        assert teardown.leftovers() == []
        teardown.run()  # again: nothing to do
    left = everything(other_stand)
    assert left.pop("buckets") == ["warehouse"]
    assert [url.rpartition("/")[2] for url in left.pop("queues")] == ["crossdock2-q-not-ours"]
    assert left == {}
    assert s3.get_object(Bucket="warehouse", Key="sales/1.parquet")["Body"].read() == b"mine"


def test_leftovers_are_named_while_there_are_any(
    other_stand: Stand, assembly: Path, tmp_path: Path
) -> None:
    with quickly_deployed(other_stand, assembly, tmp_path) as deployed:
        left = deployed.teardown().leftovers()
    assert {"crossdock-state", "crossdock-api", "crossdock-control"} <= set(left)
    assert any("resultsbucket" in name.lower() for name in left)
