"""The coordinator's function: turns for the control queue, and the desk for whoever calls it."""

from __future__ import annotations

from typing import Any

import msgspec
from aws_lambda_powertools.metrics import MetricUnit

from crossdock.api.messages import Action
from crossdock.aws.control import RESERVE_SECONDS
from crossdock.aws.desk import fitting
from functions import wiring
from functions.observability import logger, metrics, observed

wiring.prepare(wiring.desk, lambda: wiring.deployment().desk)


@observed
def lambda_handler(event: dict[str, Any], context: Any) -> Any:
    """A batch of control messages, or one action."""
    if "Records" in event:
        deployment = wiring.deployment()
        left = context.get_remaining_time_in_millis() / 1000 - RESERVE_SECONDS
        answer = deployment.desk.handle(event["Records"], until=deployment.clock.now() + left)
        metrics.add_metric("ControlMessages", MetricUnit.Count, len(event["Records"]))
        failed = len(answer["batchItemFailures"])
        metrics.add_metric("ControlMessagesFailed", MetricUnit.Count, failed)
        return answer
    action = msgspec.convert(event, Action)
    logger.append_keys(action=event["action"])
    metrics.add_metric("Actions", MetricUnit.Count, 1)
    return msgspec.to_builtins(fitting(wiring.desk().perform(action)))
