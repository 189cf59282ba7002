"""How the SDK's clients are made: retries and timeouts set on purpose, once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

from coordinator_state.dynamodb import client_config as table_config

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_glue import GlueClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

#: Longer than the longest poll of a queue (20 s).
_READ_SECONDS = 25
#: Longer than any function that is invoked and waited for.
_ANSWER_SECONDS = 125


def client_config(*, attempts: int = 6, read_seconds: int = _READ_SECONDS) -> Config:
    """Of clients of S3, SQS and Lambda. ``attempts``: the first one included.

    Checksums are computed only where the service demands them: objects of ours carry checksums of
    their own, which are verified when they are read.
    """
    return Config(
        retries={"mode": "standard", "total_max_attempts": attempts},
        connect_timeout=3,
        read_timeout=read_seconds,
        max_pool_connections=64,
        tcp_keepalive=True,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )


def invoke_config(answer_seconds: int = _ANSWER_SECONDS) -> Config:
    """Of a client that invokes functions: an invocation that was asked twice may run twice."""
    return client_config(attempts=1, read_seconds=answer_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """One process's clients; threads may share them."""

    dynamodb: DynamoDBClient
    s3: S3Client
    sqs: SQSClient
    functions: LambdaClient


def make_s3_client(session: boto3.Session | None = None) -> S3Client:
    return (session or boto3.Session()).client("s3", config=client_config())


def make_glue_client(session: boto3.Session | None = None) -> GlueClient:
    return (session or boto3.Session()).client("glue", config=client_config())


def make_clients(
    session: boto3.Session | None = None, *, answer_seconds: int = _ANSWER_SECONDS
) -> Clients:
    """Clients with endpoint, region and credentials as the SDK finds them.

    ``answer_seconds``: how long a function that is called and waited for may take.
    """
    session = session or boto3.Session()
    return Clients(
        dynamodb=session.client("dynamodb", config=table_config()),
        s3=make_s3_client(session),
        sqs=session.client("sqs", config=client_config()),
        functions=session.client("lambda", config=invoke_config(answer_seconds)),
    )
