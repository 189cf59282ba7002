"""Functions, what starts them, and every permission they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from aws_cdk import Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from constructs import Construct

from infra import assets, functions, grants
from infra.checks import accept
from infra.constructs.engine_function import Defaults, EngineFunction, FunctionSpec
from infra.constructs.layers import Layers
from infra.grants import DATA, EXCHANGE, EXPORT, PLAN, RECEIPT, RESULT, TABLES
from infra.retention import retention
from infra.settings import Architecture, Settings
from infra.stacks.queues import QueuesStack
from infra.stacks.state import StateStack

_ARCHITECTURES = {
    Architecture.ARM64: lambda_.Architecture.ARM_64,
    Architecture.X86_64: lambda_.Architecture.X86_64,
}


class ComputeStack(Stack):
    """Stateless: it can be deleted and made again without losing a query's answer."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        state: StateStack,
        queues: QueuesStack,
    ) -> None:
        super().__init__(scope, id)
        self._settings, self._state, self._queues = settings, state, queues
        self._made_queues = f"{settings.name}-q-"
        self._defaults = self._common(_ARCHITECTURES[settings.architecture])
        self.producers = self._workers("producer")
        self.consumers = self._workers("consumer")
        launched = {
            "CROSSDOCK_PRODUCER_FUNCTIONS": _names(self.producers),
            "CROSSDOCK_CONSUMER_FUNCTIONS": _names(self.consumers),
        }
        self.coordinator = self._function(functions.coordinator(settings, launched))
        asked = {"CROSSDOCK_COORDINATOR_FUNCTION": self.coordinator.function.function_name}
        self.api = self._function(functions.api(settings, asked))
        self.janitor = self._function(functions.janitor(settings))
        self._start()
        self._permit()

    @property
    def all(self) -> tuple[EngineFunction, ...]:
        return (self.api, self.coordinator, self.janitor, *self.producers, *self.consumers)

    def _common(self, architecture: lambda_.Architecture) -> Defaults:
        settings = self._settings
        layers = Layers(self, "Layers", settings=settings, architecture=architecture)
        return Defaults(
            name=settings.name,
            architecture=architecture,
            code=lambda_.Code.from_asset(assets.functions_path(settings)),
            layers=layers.versions,
            environment=self._environment(),
            failures=self._queues.failures,
            log_retention=retention(settings.log_days),
            tracing=settings.tracing,
        )

    def _environment(self) -> Mapping[str, str]:
        settings, state = self._settings, self._state
        return {
            "CROSSDOCK_TABLE": state.table.table_name,
            "CROSSDOCK_EXCHANGE_BUCKET": state.exchange.bucket_name,
            "CROSSDOCK_RESULT_BUCKET": state.results.bucket_name,
            "CROSSDOCK_CONTROL_QUEUE_URL": self._queues.control.queue_url,
            "CROSSDOCK_POOL_PREFIX": self._queues.pool.prefix,
            "CROSSDOCK_POOL_SIZE": str(settings.pool_size),
            "CROSSDOCK_QUEUE_PREFIX": self._made_queues,
            "CROSSDOCK_CONCURRENCY": str(settings.concurrency),
            "CROSSDOCK_QUERY_WORKERS": str(settings.query_workers),
            "CROSSDOCK_RESULT_DAYS": str(settings.result_days),
            "CROSSDOCK_GLUE_DATABASE": settings.glue_database,
            "POWERTOOLS_SERVICE_NAME": settings.name,
            "POWERTOOLS_METRICS_NAMESPACE": settings.name,
            "POWERTOOLS_LOG_LEVEL": "INFO",
            "POWERTOOLS_TRACE_DISABLED": "false" if settings.tracing else "true",
        }

    def _function(self, spec: FunctionSpec, defaults: Defaults | None = None) -> EngineFunction:
        name = "".join(part.capitalize() for part in spec.name.split("-"))
        return EngineFunction(self, name, defaults=defaults or self._defaults, spec=spec)

    def _workers(self, kind: str) -> tuple[EngineFunction, ...]:
        # The coordinator is told of a worker that failed: its task need not wait for a lease's end.
        defaults = replace(self._defaults, failures=self._queues.control)
        specs = functions.workers(self._settings, kind)
        return tuple(self._function(spec, defaults) for spec in specs)

    def _start(self) -> None:
        """What starts functions besides each other and the API."""
        # Below the reservation: turns never take the room of plans, which callers wait for, and
        # a message is not received only to be refused.
        turns = max(2, self._settings.coordinator_concurrency // 2)
        self.coordinator.function.add_event_source(
            sources.SqsEventSource(
                self._queues.control,
                batch_size=10,
                max_concurrency=turns,
                report_batch_item_failures=True,
            )
        )
        self._ring("Revive", self._settings.janitor_minutes, {"part": "revive"})
        self._ring("Sweep", self._settings.sweep_minutes, {"part": "all"})
        accept(
            self.coordinator,
            "Serverless-LambdaEventSourceMappingDestination",
            because="A queue has no such destination; its redrive policy sets failures aside.",
        )

    def _ring(self, id: str, minutes: int, event: Mapping[str, str]) -> None:
        """Call the janitor every so often."""
        every = events.Schedule.rate(Duration.minutes(minutes))
        rule = events.Rule(self, id, schedule=every)
        rule.add_target(
            targets.LambdaFunction(
                self.janitor.function,
                event=events.RuleTargetInput.from_object(event),
                retry_attempts=0,
                max_event_age=Duration.minutes(1),
            )
        )
        accept(rule, "Serverless-EventBusDLQ", because="The next round comes minutes later.")

    def _permit(self) -> None:
        self._permit_api()
        self._permit_coordinator()
        self._permit_janitor()
        for worker in (*self.producers, *self.consumers):
            self._permit_worker(worker)

    def _permit_api(self) -> None:
        role, state = self.api.role, self._state
        grants.look_at_queries(role, state.table_arn)
        grants.read_objects(role, state.results_arn, RESULT, EXPORT, RECEIPT)
        grants.list_bucket(role, state.results_arn)
        grants.wake_coordinator(role, self._queues.control)
        grants.invoke(role, [self.coordinator.function])

    def _permit_coordinator(self) -> None:
        role, state = self.coordinator.role, self._state
        grants.run_queries(role, state.table_arn)
        grants.own_objects(role, state.exchange_arn, EXCHANGE, PLAN)
        grants.list_bucket(role, state.exchange_arn)
        grants.own_objects(role, state.results_arn, RESULT, EXPORT, RECEIPT, TABLES, DATA)
        grants.list_bucket(role, state.results_arn)
        grants.own_queues(role, made=self._made_queues)
        grants.wake_coordinator(role, self._queues.control)
        grants.invoke(role, [worker.function for worker in (*self.producers, *self.consumers)])
        grants.read_data(role, self._settings.data, self._settings.data_key_arns)
        grants.commit_data(role, self._settings.targets, self._settings.data_key_arns)
        if self._settings.glue_database:
            grants.read_tables_of_glue(role, self._settings.glue_database)

    def _permit_janitor(self) -> None:
        role, state = self.janitor.role, self._state
        grants.run_queries(role, state.table_arn)
        grants.own_objects(role, state.exchange_arn, EXCHANGE, PLAN)
        grants.list_bucket(role, state.exchange_arn)
        grants.list_uploads(role, state.exchange_arn)
        grants.own_objects(role, state.results_arn, RESULT, EXPORT, RECEIPT, DATA)
        grants.list_bucket(role, state.results_arn)
        grants.list_uploads(role, state.results_arn)
        grants.own_queues(role, made=self._made_queues)
        grants.wake_coordinator(role, self._queues.control)

    def _permit_worker(self, worker: EngineFunction) -> None:
        role, state = worker.role, self._state
        grants.take_part_in_queries(role, state.table_arn)
        grants.read_objects(role, state.exchange_arn, PLAN)
        grants.own_objects(role, state.exchange_arn, EXCHANGE)
        grants.list_bucket(role, state.exchange_arn)
        grants.own_objects(role, state.results_arn, RESULT, DATA)
        grants.list_bucket(role, state.results_arn)
        grants.exchange_messages(role, [self._queues.pool.prefix, self._made_queues])
        grants.wake_coordinator(role, self._queues.control)
        grants.read_data(role, self._settings.data, self._settings.data_key_arns)
        grants.stage_data(role, self._settings.targets, self._settings.data_key_arns)


def _names(workers: tuple[EngineFunction, ...]) -> str:
    return ",".join(worker.function.function_name for worker in workers)
