"""Queues: one that wakes the coordinator, dead letters, and a pool that shuffles lease."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.checks import accept

#: Deliveries of a control message before it is set aside. A wake-up that is lost costs a minute:
#: the janitor revives the query.
CONTROL_DELIVERIES = 5
_REDRIVE = "AwsSolutions-SQS3 Serverless-SQSRedrivePolicy"


class DeadLetters(Construct):
    """What could not be handled, kept two weeks to be looked at."""

    def __init__(self, scope: Construct, id: str, *, name: str) -> None:
        super().__init__(scope, id)
        self.queue = sqs.Queue(
            self,
            "Queue",
            queue_name=name,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        accept(self.queue, _REDRIVE, because="It holds dead letters itself; an alarm watches it.")


class ControlQueue(Construct):
    """Wake-ups and ticks of the coordinator.

    ``handler_seconds`` is the coordinator's timeout. A message must not come back while its first
    delivery may still be handled, and should come back soon after a crash.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        handler_seconds: int,
        dead_letters: sqs.IQueue,
    ) -> None:
        super().__init__(scope, id)
        self.queue = sqs.Queue(
            self,
            "Queue",
            queue_name=name,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            visibility_timeout=Duration.seconds(handler_seconds + 30),
            retention_period=Duration.hours(4),
            receive_message_wait_time=Duration.seconds(20),
            dead_letter_queue=sqs.DeadLetterQueue(
                queue=dead_letters, max_receive_count=CONTROL_DELIVERIES
            ),
        )


class QueuePool(Construct):
    """Shuffle queues ``<prefix>0000`` and on, leased by queries with conditional writes.

    They have no redrive: a message is only a hint that something is in the table, its reader
    deletes strangers, and a moved message would be lost to the reader that needs it.
    """

    def __init__(self, scope: Construct, id: str, *, prefix: str, size: int) -> None:
        super().__init__(scope, id)
        self.prefix = prefix
        self.queues = tuple(
            sqs.Queue(
                self,
                f"Queue{index:04d}",
                queue_name=f"{prefix}{index:04d}",
                encryption=sqs.QueueEncryption.SQS_MANAGED,
                enforce_ssl=True,
                visibility_timeout=Duration.seconds(60),
                retention_period=Duration.hours(4),
                receive_message_wait_time=Duration.seconds(20),
            )
            for index in range(size)
        )
        accept(self, _REDRIVE, because="A reader takes every message and the table is the truth.")
