"""Who may do what: one function per pair of a role and a resource; each says what it is for.

Roles get the actions the code calls and nothing more. Where a name ends with ``*`` it is an object
prefix or a queue-name prefix of this deployment; ``ACCOUNT_WIDE`` lists the only actions that AWS
cannot limit to a resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from coordinator_state import schema
from infra.checks import accept_wildcard

#: Prefixes of the exchange bucket and of the result bucket, as the engine lays out its objects.
EXCHANGE, PLAN = "exchange/", "plan/"
RESULT, EXPORT, RECEIPT, TABLES = "result/", "export/", "receipt/", "tables/"
#: Rows of tables that statements write: they stay as long as a table has them.
DATA = "data/"

#: Actions that take no resource. Tracing is added by CDK.
ACCOUNT_WIDE = ("sqs:ListQueues", "xray:PutTelemetryRecords", "xray:PutTraceSegments")

_READ_ITEMS = ("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query")
_CHANGE_ITEMS = ("dynamodb:ConditionCheckItem", "dynamodb:UpdateItem")
_MAKE_ITEMS = ("dynamodb:PutItem",)
_REMOVE_ITEMS = ("dynamodb:BatchWriteItem", "dynamodb:DeleteItem")

_READ = ("s3:GetObject",)
_WRITE = ("s3:AbortMultipartUpload", "s3:PutObject")
_REMOVE = ("s3:DeleteObject",)

_LOOK_AT_TABLES = ("glue:GetPartitions", "glue:GetTable", "glue:GetTables")

_SEND = ("sqs:GetQueueUrl", "sqs:SendMessage")
_TAKE = ("sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage")
_OWN_QUEUES = (
    "sqs:CreateQueue",
    "sqs:DeleteQueue",
    "sqs:GetQueueAttributes",
    "sqs:ListQueueTags",
    "sqs:TagQueue",
)

_USE_KEYS = ("kms:Decrypt", "kms:GenerateDataKey")

_TARGETS = "places that the settings name for COPY"
_OURS = "shuffle queues of this deployment, by name prefix: their number changes while it runs"


def look_at_queries(role: iam.IRole, table_arn: str) -> None:
    """Read the state, and ask for an end (a change of the query's item)."""
    _items(role, table_arn, _READ_ITEMS + _CHANGE_ITEMS)


def take_part_in_queries(role: iam.IRole, table_arn: str) -> None:
    """Register, claim, heartbeat, commit, own; never remove."""
    _items(role, table_arn, _READ_ITEMS + _CHANGE_ITEMS + _MAKE_ITEMS)


def run_queries(role: iam.IRole, table_arn: str) -> None:
    """Make, change and purge queries."""
    _items(role, table_arn, _READ_ITEMS + _CHANGE_ITEMS + _MAKE_ITEMS + _REMOVE_ITEMS)


def read_objects(role: iam.IRole, bucket_arn: str, *prefixes: str) -> None:
    _objects(role, bucket_arn, prefixes, _READ)


def write_objects(role: iam.IRole, bucket_arn: str, *prefixes: str) -> None:
    """Write, and read back what an unanswered write left."""
    _objects(role, bucket_arn, prefixes, _READ + _WRITE)


def own_objects(role: iam.IRole, bucket_arn: str, *prefixes: str) -> None:
    """Read, write and remove."""
    _objects(role, bucket_arn, prefixes, _READ + _WRITE + _REMOVE)


def list_bucket(role: iam.IRole, bucket_arn: str) -> None:
    """List one of our buckets. Without it S3 answers "denied" for an object that is not there."""
    _allow(role, ("s3:ListBucket",), [bucket_arn])


def list_uploads(role: iam.IRole, bucket_arn: str) -> None:
    """List unfinished uploads of one of our buckets, to abort those whose writer died."""
    _allow(role, ("s3:ListBucketMultipartUploads",), [bucket_arn])


def read_data(role: iam.IRole, sources: Iterable[str], key_arns: Sequence[str]) -> None:
    """Read and list the user's data, source by source."""
    partition = Stack.of(role).partition
    for source in sources:
        name, _, prefix = source.partition("/")
        arn = f"arn:{partition}:s3:::{name}"
        _allow(role, _READ, [f"{arn}/{prefix}*"], because="data that the settings name")
        conditions = {"StringLike": {"s3:prefix": [f"{prefix}*"]}} if prefix else None
        _allow(role, ("s3:ListBucket",), [arn], conditions=conditions)
    if key_arns:
        _allow(role, ("kms:Decrypt",), list(key_arns))


def stage_data(role: iam.IRole, targets: Iterable[str], key_arns: Sequence[str]) -> None:
    """Upload what nobody sees before the coordinator completes it."""
    for target in targets:
        arn, prefix = _named(role, target)
        _allow(role, ("s3:PutObject",), [f"{arn}/{prefix}*"], because=_TARGETS)
    if key_arns and targets:
        _allow(role, _USE_KEYS, list(key_arns))


def commit_data(role: iam.IRole, targets: Iterable[str], key_arns: Sequence[str]) -> None:
    """Complete and abort uploads, look at what is there, and remove what OVERWRITE replaces."""
    for target in targets:
        arn, prefix = _named(role, target)
        _allow(role, _READ + _WRITE + _REMOVE, [f"{arn}/{prefix}*"], because=_TARGETS)
        conditions = {"StringLike": {"s3:prefix": [f"{prefix}*"]}} if prefix else None
        _allow(role, ("s3:ListBucket",), [arn], conditions=conditions)
        _allow(role, ("s3:ListBucketMultipartUploads",), [arn])
    if key_arns and targets:
        _allow(role, _USE_KEYS, list(key_arns))


def _named(role: iam.IRole, target: str) -> tuple[str, str]:
    """A bucket's ARN, and a prefix in it."""
    name, _, prefix = target.partition("/")
    return f"arn:{Stack.of(role).partition}:s3:::{name}", prefix


def read_tables_of_glue(role: iam.IRole, database: str) -> None:
    """Look at the tables of one database of the Data Catalog, and at their partitions."""
    stack = Stack.of(role)
    tables = stack.format_arn(service="glue", resource="table", resource_name=f"{database}/*")
    own = [
        stack.format_arn(service="glue", resource="catalog"),
        stack.format_arn(service="glue", resource="database", resource_name=database),
    ]
    _allow(role, _LOOK_AT_TABLES, [*own, tables], because="tables of the database in the settings")


def exchange_messages(role: iam.IRole, prefixes: Sequence[str]) -> None:
    """Announce sections and take announcements."""
    _allow(role, sorted({*_SEND, *_TAKE}), _queues(role, prefixes), because=_OURS)


def own_queues(role: iam.IRole, *, made: str) -> None:
    """Make and delete shuffle queues beyond those that a stack made."""
    _allow(role, _OWN_QUEUES, _queues(role, [made]), because=_OURS)
    _allow(role, ("sqs:ListQueues",), ["*"], because="ListQueues takes no resource")


def wake_coordinator(role: iam.IRole, control: sqs.IQueue) -> None:
    _allow(role, _SEND, [control.queue_arn])


def invoke(role: iam.IRole, functions: Iterable[lambda_.IFunction]) -> None:
    _allow(role, ("lambda:InvokeFunction",), [function.function_arn for function in functions])


def _items(role: iam.IRole, table_arn: str, actions: Sequence[str]) -> None:
    _allow(role, actions, [table_arn])
    _allow(role, ("dynamodb:Query",), [f"{table_arn}/index/{schema.QUERY_INDEX}"])


def _objects(
    role: iam.IRole, bucket_arn: str, prefixes: Sequence[str], actions: Sequence[str]
) -> None:
    resources = [f"{bucket_arn}/{prefix}*" for prefix in prefixes]
    _allow(role, actions, resources, because="objects of a bucket of this deployment, by prefix")


def _queues(role: iam.IRole, prefixes: Sequence[str]) -> list[str]:
    stack = Stack.of(role)
    return [stack.format_arn(service="sqs", resource=f"{prefix}*") for prefix in prefixes]


def _allow(
    role: iam.IRole,
    actions: Sequence[str],
    resources: Sequence[str],
    *,
    because: str = "",
    conditions: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
) -> None:
    """``because``: why a resource ends with ``*``; without it synth's checks refuse that."""
    role.add_to_principal_policy(
        iam.PolicyStatement(actions=list(actions), resources=list(resources), conditions=conditions)
    )
    if because:
        for resource in resources:
            accept_wildcard(role, resource, because=because)
