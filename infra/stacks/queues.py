"""Queues: control, dead letters, and the pool that shuffles lease."""

from __future__ import annotations

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from infra.constructs.queues import ControlQueue, DeadLetters, QueuePool
from infra.settings import Settings

#: Seconds a coordinator turn may take; the control queue's visibility follows from it.
COORDINATOR_SECONDS = 120


class QueuesStack(Stack):
    def __init__(self, scope: Construct, id: str, *, settings: Settings) -> None:
        super().__init__(scope, id)
        name = settings.name
        self.control_dead_letters = DeadLetters(
            self, "ControlDeadLetters", name=f"{name}-control-dead"
        ).queue
        self.failures = DeadLetters(self, "Failures", name=f"{name}-failures").queue
        self.control = ControlQueue(
            self,
            "Control",
            name=f"{name}-control",
            handler_seconds=COORDINATOR_SECONDS,
            dead_letters=self.control_dead_letters,
        ).queue
        self.pool = QueuePool(self, "Pool", prefix=f"{name}-pool-", size=settings.pool_size)
        CfnOutput(self, "ControlQueueUrl", value=self.control.queue_url)
