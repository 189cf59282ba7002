"""What the synthesized templates promise, resource by resource."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coordinator_state import schema
from crossdock.shuffle import layout
from functions.janitor.handler import REVIVE
from infra import grants
from infra.stacks.queues import COORDINATOR_SECONDS
from layers.recipes import HANDLERS
from tests.infra.conftest import ROOT, Assembly

pytestmark = pytest.mark.xdist_group("infra")

FUNCTION = "AWS::Lambda::Function"
QUEUE = "AWS::SQS::Queue"
WORKERS = ("crossdock-producer-0", "crossdock-consumer-0")


def functions(assembly: Assembly) -> dict[str, dict[str, Any]]:
    """Properties by function name."""
    found = assembly.resources(FUNCTION).values()
    return {each["Properties"]["FunctionName"]: each["Properties"] for each in found}


def only(assembly: Assembly, kind: str) -> dict[str, Any]:
    (found,) = assembly.resources(kind).values()
    return found


# -- state ---------------------------------------------------------------------------------------
def test_table_has_the_keys_index_and_ttl_of_the_schema(assembly: Assembly) -> None:
    table = only(assembly, "AWS::DynamoDB::Table")["Properties"]
    assert table["KeySchema"] == [
        {"AttributeName": schema.PARTITION_KEY, "KeyType": "HASH"},
        {"AttributeName": schema.SORT_KEY, "KeyType": "RANGE"},
    ]
    (index,) = table["GlobalSecondaryIndexes"]
    assert index["IndexName"] == schema.QUERY_INDEX
    assert [key["AttributeName"] for key in index["KeySchema"]] == [
        schema.LISTING_ATTRIBUTE,
        schema.LISTING_SORT_ATTRIBUTE,
    ]
    assert index["Projection"] == {
        "ProjectionType": "INCLUDE",
        "NonKeyAttributes": list(schema.QUERY_INDEX_PROJECTION),
    }
    types = {each["AttributeType"] for each in table["AttributeDefinitions"]}
    assert types == {schema.KEY_TYPE}
    assert table["TimeToLiveSpecification"] == {
        "AttributeName": schema.TTL_ATTRIBUTE,
        "Enabled": True,
    }


def test_table_is_encrypted_recoverable_kept_and_costs_nothing_idle(assembly: Assembly) -> None:
    table = only(assembly, "AWS::DynamoDB::Table")
    assert table["Properties"]["SSESpecification"] == {"SSEEnabled": True}
    assert table["Properties"]["BillingMode"] == "PAY_PER_REQUEST"
    recovery = table["Properties"]["PointInTimeRecoverySpecification"]
    assert recovery["PointInTimeRecoveryEnabled"] is True
    assert table["Properties"]["DeletionProtectionEnabled"] is True
    assert table["DeletionPolicy"] == table["UpdateReplacePolicy"] == "Retain"
    assert assembly.deployment.state.termination_protection is True


def test_buckets_are_private_encrypted_kept_and_refuse_plain_http(assembly: Assembly) -> None:
    buckets = assembly.resources("AWS::S3::Bucket")
    assert len(buckets) == 2
    for bucket in buckets.values():
        properties = bucket["Properties"]
        assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
        assert len(properties["PublicAccessBlockConfiguration"]) == 4
        (rule,) = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
        (owner,) = properties["OwnershipControls"]["Rules"]
        assert owner == {"ObjectOwnership": "BucketOwnerEnforced"}
        assert bucket["DeletionPolicy"] == bucket["UpdateReplacePolicy"] == "Retain"
    policies = assembly.resources("AWS::S3::BucketPolicy")
    assert {refused_plain(policy) for policy in policies.values()} == set(buckets)


def refused_plain(policy: dict[str, Any]) -> str:
    """Logical id of the bucket, if its policy denies everything without TLS, to anybody."""
    denials = [
        statement
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny"
        and statement["Action"] == "s3:*"
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        and statement["Principal"] == {"AWS": "*"}
    ]
    return policy["Properties"]["Bucket"]["Ref"] if denials else ""


def test_forgotten_objects_expire_and_table_definitions_do_not(assembly: Assembly) -> None:
    expiry = {}
    for bucket in assembly.resources("AWS::S3::Bucket").values():
        rules = bucket["Properties"]["LifecycleConfiguration"]["Rules"]
        assert all(rule["Status"] == "Enabled" for rule in rules)
        assert any("AbortIncompleteMultipartUpload" in rule for rule in rules)
        expiry |= {rule["Prefix"]: rule["ExpirationInDays"] for rule in rules if "Prefix" in rule}
    assert expiry == {"exchange/": 2, "plan/": 2, "result/": 8, "export/": 8, "receipt/": 8}


def test_prefixes_are_those_of_the_engine() -> None:
    # What a COPY stages is on a disk only; on S3 it is an upload that is not completed yet.
    assert set(layout.OWNED_PREFIXES) == {grants.EXCHANGE, grants.PLAN, "staged/"}
    assert layout.DATA_PREFIX == grants.DATA
    assert set(layout.KEPT_PREFIXES) == {grants.RESULT, grants.EXPORT, grants.RECEIPT}


def test_state_may_go_only_when_the_settings_say_so(variant: Assembly) -> None:
    stateful = variant.templates["state"]["Resources"].values()
    policies = {each["DeletionPolicy"] for each in stateful if "DeletionPolicy" in each}
    assert policies == {"Delete"}
    assert not variant.deployment.state.termination_protection


def test_no_bucket_is_emptied_by_a_stack(assembly: Assembly, variant: Assembly) -> None:
    for each in (assembly, variant):
        assert each.resources("Custom::S3AutoDeleteObjects") == {}


# -- queues --------------------------------------------------------------------------------------
def test_queues_are_encrypted_and_refuse_plain_http(assembly: Assembly) -> None:
    queues = assembly.resources(QUEUE)
    assert all(each["Properties"]["SqsManagedSseEnabled"] for each in queues.values())
    policies = assembly.resources("AWS::SQS::QueuePolicy").values()
    denied = set()
    for policy in policies:
        statements = policy["Properties"]["PolicyDocument"]["Statement"]
        if any(
            each["Effect"] == "Deny"
            and each["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
            for each in statements
        ):
            denied |= {queue["Ref"] for queue in policy["Properties"]["Queues"]}
    assert denied == set(queues)


def test_no_pool_queue_has_redrive(assembly: Assembly) -> None:
    pool = {
        each["Properties"]["QueueName"]: each["Properties"]
        for each in assembly.resources(QUEUE).values()
        if each["Properties"]["QueueName"].startswith("crossdock-pool-")
    }
    assert sorted(pool) == [f"crossdock-pool-{index:04d}" for index in range(64)]
    assert not any("RedrivePolicy" in each for each in pool.values())


def test_control_queue_sets_failures_aside_and_outlasts_its_function(assembly: Assembly) -> None:
    queues = {
        each["Properties"]["QueueName"]: each["Properties"]
        for each in assembly.resources(QUEUE).values()
    }
    control = queues["crossdock-control"]
    timeout = functions(assembly)["crossdock-coordinator"]["Timeout"]
    assert timeout == COORDINATOR_SECONDS
    assert control["VisibilityTimeout"] > timeout
    assert control["RedrivePolicy"]["maxReceiveCount"] == 5
    assert queues["crossdock-control-dead"]["MessageRetentionPeriod"] == 14 * 86_400


def test_every_event_source_queue_is_visible_again_only_after_the_timeout(
    assembly: Assembly,
) -> None:
    (source,) = assembly.resources("AWS::Lambda::EventSourceMapping").values()
    properties = source["Properties"]
    assert properties["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    reserved = functions(assembly)["crossdock-coordinator"]["ReservedConcurrentExecutions"]
    assert properties["ScalingConfig"]["MaximumConcurrency"] < reserved


# -- functions -----------------------------------------------------------------------------------
def test_every_function_has_the_defaults(assembly: Assembly) -> None:
    found = functions(assembly)
    assert sorted(found) == [
        "crossdock-api",
        "crossdock-consumer-0",
        "crossdock-coordinator",
        "crossdock-janitor",
        "crossdock-producer-0",
    ]
    for name, function in found.items():
        assert function["Runtime"] == "python3.13", name
        assert function["Architectures"] == ["arm64"], name
        assert function["TracingConfig"] == {"Mode": "Active"}, name
        assert function["ReservedConcurrentExecutions"] > 0, name
        assert function["LoggingConfig"]["LogFormat"] == "JSON", name
        assert function["Timeout"] <= 900, name
        assert function["Handler"].startswith("functions."), name


def test_every_function_has_a_log_group_with_retention(assembly: Assembly) -> None:
    groups = assembly.resources("AWS::Logs::LogGroup", "compute")
    kept = {each["Properties"]["LogGroupName"] for each in groups.values()}
    assert kept == {f"/aws/lambda/{name}" for name in functions(assembly)}
    everywhere = assembly.resources("AWS::Logs::LogGroup").values()
    assert {each["Properties"]["RetentionInDays"] for each in everywhere} == {30}
    used = {each["LoggingConfig"]["LogGroup"]["Ref"] for each in functions(assembly).values()}
    assert used == set(groups)


def test_nothing_asynchronous_is_repeated_or_waits_long(assembly: Assembly) -> None:
    configured = assembly.resources("AWS::Lambda::EventInvokeConfig").values()
    assert len(configured) == len(functions(assembly))
    for each in configured:
        assert each["Properties"]["MaximumRetryAttempts"] == 0
        assert each["Properties"]["MaximumEventAgeInSeconds"] == 60
        assert each["Properties"]["DestinationConfig"]["OnFailure"]["Destination"]


def test_the_coordinator_is_told_of_workers_that_failed(assembly: Assembly) -> None:
    told = {
        each["Properties"]["FunctionName"]["Ref"].partition("Function")[0]
        for each in assembly.resources("AWS::Lambda::EventInvokeConfig").values()
        if "Control" in str(each["Properties"]["DestinationConfig"]["OnFailure"])
    }
    assert told == {"Producer0", "Consumer0"}


def test_loops_are_allowed_for_those_that_loop_and_cut_elsewhere(assembly: Assembly) -> None:
    loops = {name: each["RecursiveLoop"] for name, each in functions(assembly).items()}
    assert loops == {
        "crossdock-api": "Terminate",
        "crossdock-consumer-0": "Allow",
        "crossdock-coordinator": "Allow",
        "crossdock-janitor": "Terminate",
        "crossdock-producer-0": "Allow",
    }


def test_layers_are_those_that_the_recipes_measure(assembly: Assembly) -> None:
    versions = {
        logical: each["Properties"]["LayerName"].removeprefix("crossdock-")
        for logical, each in assembly.resources("AWS::Lambda::LayerVersion").items()
    }
    for name, function in functions(assembly).items():
        folder = name.split("-")[1]
        assert {versions[each["Ref"]] for each in function["Layers"]} == set(HANDLERS[folder])


def test_the_budget_is_reserved_for_each_kind_of_worker(
    assembly: Assembly, variant: Assembly
) -> None:
    for name in WORKERS:
        assert functions(assembly)[name]["ReservedConcurrentExecutions"] == 100
    copies = {n: f for n, f in functions(variant).items() if n.startswith("other-producer-")}
    assert sorted(copies) == ["other-producer-0", "other-producer-1", "other-producer-2"]
    assert sum(each["ReservedConcurrentExecutions"] for each in copies.values()) >= 100


def test_functions_are_told_where_everything_is(assembly: Assembly) -> None:
    from crossdock.aws.config import AwsConfig

    for function in functions(assembly).values():
        variables = function["Environment"]["Variables"]
        texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in variables.items()}
        config = AwsConfig.of(texts)
        assert config.pool_prefix == "crossdock-pool-"
        assert (config.pool_size, config.concurrency, config.query_workers) == (64, 100, 64)
        assert config.queue_prefix == "crossdock-q-"
    variables = functions(assembly)["crossdock-coordinator"]["Environment"]["Variables"]
    assert list(variables["CROSSDOCK_PRODUCER_FUNCTIONS"]) == ["Ref"]


def test_snapshots_are_published_behind_an_alias_that_the_api_calls(variant: Assembly) -> None:
    assert functions(variant)["other-api"]["SnapStart"] == {"ApplyOn": "PublishedVersions"}
    (alias,) = variant.resources("AWS::Lambda::Alias").values()
    assert alias["Properties"]["Name"] == "live"
    (integration,) = variant.resources("AWS::ApiGatewayV2::Integration").values()
    assert "Live" in json.dumps(integration["Properties"]["IntegrationUri"])


def test_janitor_revives_every_minute_and_sweeps_every_hour(assembly: Assembly) -> None:
    schedules = {}
    for rule in assembly.resources("AWS::Events::Rule").values():
        (target,) = rule["Properties"]["Targets"]
        assert target["RetryPolicy"]["MaximumRetryAttempts"] == 0
        schedules[rule["Properties"]["ScheduleExpression"]] = json.loads(target["Input"])
    assert schedules == {"rate(1 minute)": REVIVE, "rate(1 hour)": {"part": "all"}}


# -- api -----------------------------------------------------------------------------------------
def test_every_route_needs_a_signature_by_default(assembly: Assembly) -> None:
    routes = assembly.resources("AWS::ApiGatewayV2::Route").values()
    assert [each["Properties"]["RouteKey"] for each in routes] == ["ANY /v1/{proxy+}"]
    assert {each["Properties"]["AuthorizationType"] for each in routes} == {"AWS_IAM"}


def test_every_route_needs_a_token_of_the_issuer_when_set(variant: Assembly) -> None:
    routes = variant.resources("AWS::ApiGatewayV2::Route").values()
    assert {each["Properties"]["AuthorizationType"] for each in routes} == {"JWT"}
    authorizer = only(variant, "AWS::ApiGatewayV2::Authorizer")["Properties"]
    assert authorizer["JwtConfiguration"] == {
        "Audience": ["crossdock"],
        "Issuer": "https://issuer.example.com/",
    }


def test_stage_is_throttled_and_logged(assembly: Assembly) -> None:
    stage = only(assembly, "AWS::ApiGatewayV2::Stage")["Properties"]
    assert stage["DefaultRouteSettings"] == {
        "ThrottlingBurstLimit": 100,
        "ThrottlingRateLimit": 50,
    }
    assert stage["AccessLogSettings"]["DestinationArn"]
    assert "query" not in stage["AccessLogSettings"]["Format"].lower()


def test_browsers_of_named_origins_only(assembly: Assembly, variant: Assembly) -> None:
    assert "CorsConfiguration" not in only(assembly, "AWS::ApiGatewayV2::Api")["Properties"]
    cors = only(variant, "AWS::ApiGatewayV2::Api")["Properties"]["CorsConfiguration"]
    assert cors["AllowOrigins"] == ["https://app.example.com"]


# -- watching ------------------------------------------------------------------------------------
def test_failures_throttles_dead_letters_and_age_raise_alarms(assembly: Assembly) -> None:
    alarms = {
        each["Properties"]["AlarmName"].removeprefix("crossdock-")
        for each in assembly.resources("AWS::CloudWatch::Alarm").values()
    }
    short = {name.removeprefix("crossdock-") for name in functions(assembly)}
    assert alarms == {f"{name}-{what}" for name in short for what in ("errors", "throttles")} | {
        "control-age",
        "control-dead-letters",
        "failures-dead-letters",
        "api-5xx",
    }
    assert len(assembly.resources("AWS::CloudWatch::Dashboard")) == 1


def test_every_alarm_is_explained(assembly: Assembly) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    for alarm in assembly.resources("AWS::CloudWatch::Alarm").values():
        name = alarm["Properties"]["AlarmName"].removeprefix("crossdock-")
        assert f"`{name.replace('-0-', '-*-')}`" in page, name


def test_alarms_notify_the_topic_and_the_dashboard_can_be_left_out(variant: Assembly) -> None:
    alarms = variant.resources("AWS::CloudWatch::Alarm").values()
    topics = {tuple(each["Properties"]["AlarmActions"]) for each in alarms}
    assert topics == {("arn:aws:sns:us-east-1:111122223333:wake-up",)}
    assert variant.resources("AWS::CloudWatch::Dashboard") == {}
