"""The composition root of the AWS platform: one function's view of a deployment.

Nothing here imports the engine before it is asked for, so that a function which only reads state
starts fast.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from coordinator_state.dynamodb import DynamoDbStateStore
from crossdock.aws.config import AwsConfig
from crossdock.cleanup import Medium
from crossdock.platform.aws.clients import Clients, make_clients
from crossdock.platform.aws.control import SqsControl
from crossdock.platform.aws.objects import RoutedObjects, S3Objects
from crossdock.platform.aws.outbox import S3Outbox
from crossdock.platform.aws.pool import PoolQueues
from crossdock.platform.aws.queues import SqsQueues
from crossdock.platform.clock import SystemClock
from crossdock.platform.ids import RandomIds
from crossdock.platform.meter import (
    CountingMeter,
    MeteredControl,
    MeteredObjects,
    MeteredQueues,
    metered_store,
)
from crossdock.platform.ports import Clock, Ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from crossdock.aws.control import ControlDesk
    from crossdock.aws.janitor import Janitor
    from crossdock.catalog import Catalog
    from crossdock.platform.aws.launcher import LambdaLauncher
    from crossdock.platform.aws.table_files import S3TableFiles
    from crossdock.worker import Worker

__all__ = ["AwsConfig", "Clients", "Deployment", "build", "make_clients"]

#: Keys of the exchange bucket and of the result bucket, by their first name.
EXCHANGE_KEYS = ("exchange", "plan", "staged")
RESULT_KEYS = ("result", "export", "receipt", "tables", "data")
#: How long a received message stays hidden; collectors delete on receipt, within a second.
VISIBILITY_SECONDS = 30
#: What queues made on demand carry, so that they can be told from all others of an account.
QUEUE_TAGS = {"crossdock:made": "on-demand"}


class Deployment:
    """The parts of one deployment as a process uses them; threads may share it."""

    def __init__(
        self,
        config: AwsConfig,
        clients: Clients,
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        self.config = config
        self.clients = clients
        self.clock = clock or SystemClock()
        self.ids = ids or RandomIds()
        self.meter = CountingMeter()
        self.exchange = S3Objects(clients.s3, config.exchange_bucket)
        self.results = S3Objects(clients.s3, config.result_bucket)
        self.control = MeteredControl(SqsControl(clients.sqs, config.control_queue_url), self.meter)
        self.medium = self._medium()

    def _medium(self) -> Medium:
        config, meter = self.config, self.meter
        store = metered_store(DynamoDbStateStore(self.clients.dynamodb, config.table), meter)
        pooled, made = (
            MeteredQueues(
                SqsQueues(
                    self.clients.sqs, prefix=prefix, visibility=VISIBILITY_SECONDS, tags=QUEUE_TAGS
                ),
                meter,
            )
            for prefix in (config.pool_prefix, config.queue_prefix)
        )
        routes = {
            **dict.fromkeys(EXCHANGE_KEYS, self.exchange),
            **dict.fromkeys(RESULT_KEYS, self.results),
        }
        return Medium(
            store,
            PoolQueues(pooled, made, config.pool, store=store, clock=self.clock),
            MeteredObjects(RoutedObjects(routes), meter),
            S3Outbox(self.clients.s3, meter=meter),
        )

    @cached_property
    def table_files(self) -> S3TableFiles:
        """The users' files on S3."""
        from crossdock.platform.aws.table_files import S3TableFiles

        return S3TableFiles(self.clients.s3, meter=self.meter)

    def catalog(self) -> Catalog:
        """Named tables of the deployment, and files on S3 that a statement names itself."""
        from crossdock.aws.tables import ObjectRegistry
        from crossdock.catalog import Catalog
        from crossdock.platform.aws.on_demand import GLUE, glue_database
        from crossdock.remote_files import SCHEME
        from crossdock.writes.tables import StoredTables

        name = self.config.glue_database
        return Catalog(
            registry=ObjectRegistry(self.medium.objects),
            remote=self.table_files,
            local=False,
            written=StoredTables(
                self.medium.store,
                self.medium.objects,
                lambda key: f"{SCHEME}{self.config.result_bucket}/{key}",
                now=self.clock.now,
            ),
            database=glue_database(f"{GLUE}{name}" if name else None),
        )

    @cached_property
    def launcher(self) -> LambdaLauncher:
        from crossdock.coordinator.perform import CONSUMER, PRODUCER
        from crossdock.platform.aws.launcher import LambdaLauncher

        producers, consumers = self.config.producer_functions, self.config.consumer_functions
        return LambdaLauncher(
            self.clients.functions,
            {PRODUCER: producers or consumers, CONSUMER: consumers or producers},
        )

    @cached_property
    def desk(self) -> ControlDesk:
        """Whoever the control queue wakes: takes turns."""
        from crossdock.aws.control import control_desk

        return control_desk(self)

    @cached_property
    def janitor(self) -> Janitor:
        from crossdock.aws.janitor import Janitor

        return Janitor(self)

    def worker(self, seconds_left: Callable[[], float]) -> Worker:
        """A worker for one invocation, which ends in ``seconds_left()``."""
        from crossdock.aws.workers import make_worker

        return make_worker(self, seconds_left())


def build(config: AwsConfig, clients: Clients | None = None) -> Deployment:
    """Put a function's parts together; no request is made."""
    return Deployment(config, clients or make_clients())
