"""A Lambda function with this project's defaults: the only place where they are set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aws_cdk import Duration, RemovalPolicy, Size
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_destinations as destinations
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.checks import accept, accept_wildcard

RUNTIME = lambda_.Runtime.PYTHON_3_13
#: An asynchronous event that waited this long is dropped: its launch was given up before.
EVENT_AGE_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What all functions of a deployment have in common."""

    name: str
    architecture: lambda_.Architecture
    code: lambda_.Code
    layers: Mapping[str, lambda_.LayerVersion]
    environment: Mapping[str, str]
    failures: sqs.IQueue  # where records of failed asynchronous invocations go
    log_retention: logs.RetentionDays
    tracing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSpec:
    """What one function is. ``name`` is unique in the deployment, ``folder`` has its handler."""

    name: str
    folder: str
    description: str
    memory_mb: int
    timeout_seconds: int
    layers: Sequence[str]
    scratch_mb: int = 512
    reserved: int | None = None  # concurrency set aside, and its ceiling
    loops: bool = False  # may be part of a loop of functions and queues
    snap_start: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


class EngineFunction(Construct):
    """The function, its role (which starts with its own logs only) and its log group.

    ``target`` is what callers invoke: the function, or an alias when it has snapshots.
    """

    def __init__(
        self, scope: Construct, id: str, *, defaults: Defaults, spec: FunctionSpec
    ) -> None:
        super().__init__(scope, id)
        self.spec = spec
        physical = f"{defaults.name}-{spec.name}"
        self.log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{physical}",
            retention=defaults.log_retention,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        # Not the managed policy: it could write every log group of the account.
        self.log_group.grant_write(self.role)
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=physical,
            description=spec.description,
            runtime=RUNTIME,
            architecture=defaults.architecture,
            code=defaults.code,
            handler=f"functions.{spec.folder}.handler.lambda_handler",
            layers=[defaults.layers[name] for name in spec.layers],
            role=self.role,
            memory_size=spec.memory_mb,
            ephemeral_storage_size=Size.mebibytes(spec.scratch_mb),
            timeout=Duration.seconds(spec.timeout_seconds),
            reserved_concurrent_executions=spec.reserved,
            environment={**defaults.environment, **spec.environment},
            log_group=self.log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            tracing=lambda_.Tracing.ACTIVE if defaults.tracing else lambda_.Tracing.DISABLED,
            # A repeated launch is a second worker and a repeated turn changes nothing: whoever
            # lost something asks again, so the service's own retries would only add to the bill.
            retry_attempts=0,
            max_event_age=Duration.seconds(EVENT_AGE_SECONDS),
            on_failure=destinations.SqsDestination(defaults.failures),
            # Explicit for every function: the service cuts a loop after about 16 rounds.
            recursive_loop=(
                lambda_.RecursiveLoop.ALLOW if spec.loops else lambda_.RecursiveLoop.TERMINATE
            ),
            snap_start=(lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if spec.snap_start else None),
        )
        self._accept(defaults)
        self.target: lambda_.IFunction = self.function
        if spec.snap_start:
            self.target = lambda_.Alias(
                self, "Live", alias_name="live", version=self.function.current_version
            )

    def _accept(self, defaults: Defaults) -> None:
        accept(
            self.function,
            "AwsSolutions-L1 Serverless-LambdaLatestVersion",
            because="The layers are locked for this Python and tested with it.",
        )
        accept(
            self.function,
            "Serverless-LambdaDLQ",
            because="Failed asynchronous invocations go to a destination, which tells more.",
        )
        if defaults.tracing:
            accept_wildcard(self.role, "*", because="X-Ray's actions take no resource.")
        else:
            accept(self.function, "Serverless-LambdaTracing", because="A setting says so.")
