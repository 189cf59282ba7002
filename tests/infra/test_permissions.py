"""Least privilege: what each role may do, to the letter, and where a ``*`` stands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from infra.grants import ACCOUNT_WIDE
from tests.infra.conftest import Assembly, Synth

pytestmark = pytest.mark.xdist_group("infra")

#: Resources that may end with a star: our objects by prefix, our queues by prefix, named data.
STARRED = re.compile(
    r"(exchange|plan|result|export|receipt|tables|data)/\*$|:crossdock-(pool|q)-\*$"
    r"|:s3:::warehouse/sales/\*$|:s3:::lake/\*$|:table/shop/\*$"
)

EVERY = {"logs:CreateLogStream", "logs:PutLogEvents", "sqs:SendMessage"} | {
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
}
DEAD_LETTERS = {"sqs:GetQueueAttributes", "sqs:GetQueueUrl"}  # CDK's grant for a destination
LOOK = {"dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"}
CHANGE = {"dynamodb:ConditionCheckItem", "dynamodb:UpdateItem"}
REMOVE = {"dynamodb:BatchWriteItem", "dynamodb:DeleteItem"}
OBJECTS = {
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:GetObject",
    "s3:ListBucket",
    "s3:PutObject",
}
TAKE = {"sqs:DeleteMessage", "sqs:ReceiveMessage"}
QUEUES = {
    "sqs:CreateQueue",
    "sqs:DeleteQueue",
    "sqs:ListQueues",
    "sqs:ListQueueTags",
    "sqs:TagQueue",
}
WORKER = LOOK | CHANGE | {"dynamodb:PutItem"} | OBJECTS | TAKE
ALLOWED = {
    "Api": LOOK | CHANGE | {"lambda:InvokeFunction", "s3:GetObject", "s3:ListBucket"},
    "Coordinator": LOOK
    | CHANGE
    | REMOVE
    | {"dynamodb:PutItem", "lambda:InvokeFunction", "sqs:ChangeMessageVisibility"}
    | OBJECTS
    | TAKE
    | QUEUES
    | {"glue:GetPartitions", "glue:GetTable", "glue:GetTables"},
    "Janitor": LOOK
    | CHANGE
    | REMOVE
    | {"dynamodb:PutItem", "s3:ListBucketMultipartUploads"}
    | OBJECTS
    | QUEUES,
    "Producer0": WORKER,
    "Consumer0": WORKER,
}


def statements(assembly: Assembly) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every statement of every role's policies, with the role's short name."""
    for policy in assembly.resources("AWS::IAM::Policy").values():
        (role,) = policy["Properties"]["Roles"]
        name = role["Ref"].partition("Role")[0]
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            yield name, statement


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def flat(resource: Any) -> str:
    """A resource's text, as far as the template knows it."""
    match resource:
        case str():
            return resource
        case {"Fn::Join": [_, parts]}:
            return "".join(flat(part) for part in parts)
        case {"Fn::ImportValue": name}:
            return str(name)
    return json.dumps(resource)


def test_each_role_has_its_actions_and_no_other(assembly: Assembly) -> None:
    found: dict[str, set[str]] = {}
    for role, statement in statements(assembly):
        assert statement["Effect"] == "Allow"
        found.setdefault(role, set()).update(listed(statement["Action"]))
    assert found == {role: actions | EVERY | DEAD_LETTERS for role, actions in ALLOWED.items()}


def test_no_action_is_a_pattern(assembly: Assembly) -> None:
    actions = {each for _, s in statements(assembly) for each in listed(s["Action"])}
    assert [action for action in actions if "*" in action] == []


def test_only_what_aws_cannot_limit_has_every_resource(assembly: Assembly) -> None:
    wide = {
        action
        for _, statement in statements(assembly)
        if "*" in listed(statement["Resource"])
        for action in listed(statement["Action"])
    }
    assert wide == set(ACCOUNT_WIDE)


def test_stars_end_prefixes_of_this_deployment_and_named_data(assembly: Assembly) -> None:
    starred = {
        flat(resource)
        for _, statement in statements(assembly)
        for resource in listed(statement["Resource"])
        if "*" in flat(resource) and resource != "*"
    }
    assert starred
    assert [text for text in starred if not STARRED.search(text)] == []


def test_data_is_read_by_those_that_need_it_and_written_by_nobody(assembly: Assembly) -> None:
    touching: dict[str, set[str]] = {}
    for role, statement in statements(assembly):
        for resource in listed(statement["Resource"]):
            if re.search(r":s3:::(warehouse|lake)", flat(resource)):
                touching.setdefault(role, set()).update(listed(statement["Action"]))
    assert set(touching) == {"Coordinator", "Producer0", "Consumer0"}
    assert set().union(*touching.values()) == {"s3:GetObject", "s3:ListBucket"}


def test_a_prefix_of_data_limits_listing_too(assembly: Assembly) -> None:
    conditions = [
        statement["Condition"]
        for _, statement in statements(assembly)
        if any(flat(each).endswith(":s3:::warehouse") for each in listed(statement["Resource"]))
    ]
    assert conditions
    assert all(each == {"StringLike": {"s3:prefix": ["sales/*"]}} for each in conditions)


@pytest.mark.parametrize("role", ["Api", "Producer0", "Consumer0"])
def test_only_coordinator_and_janitor_remove_items_or_make_queues(
    assembly: Assembly, role: str
) -> None:
    actions = {a for r, s in statements(assembly) if r == role for a in listed(s["Action"])}
    assert not actions & (REMOVE | QUEUES)


def test_no_role_has_a_managed_policy(assembly: Assembly) -> None:
    roles = assembly.resources("AWS::IAM::Role")
    assert len(roles) >= len(ALLOWED)
    for role in roles.values():
        assert not role["Properties"].get("ManagedPolicyArns")


def test_targets_are_staged_by_workers_and_committed_by_the_coordinator(synth: Synth) -> None:
    assembly = synth(data=("warehouse/sales/",), targets=("outbound/exports/",))
    touching: dict[str, set[str]] = {}
    for role, statement in statements(assembly):
        for resource in listed(statement["Resource"]):
            if ":s3:::outbound" in flat(resource):
                touching.setdefault(role, set()).update(listed(statement["Action"]))
                if "ListBucket" not in str(statement["Action"]):
                    assert flat(resource).endswith(":s3:::outbound/exports/*")
    workers = {role for role in touching if role != "Coordinator"}
    assert workers
    assert all(touching[role] == {"s3:PutObject"} for role in workers)
    assert touching["Coordinator"] == OBJECTS | {"s3:ListBucketMultipartUploads"}
    assert "Api" not in touching
    assert "Janitor" not in touching
