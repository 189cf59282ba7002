"""What producer and consumer functions do: be a worker for as long as the invocation lasts."""

from __future__ import annotations

import os
from typing import Any

import msgspec
from aws_lambda_powertools.metrics import MetricUnit

# Not used here, but imported while the environment starts: the processor is free then.
import crossdock.aws.workers  # noqa: F401
from crossdock.platform.ports import Launch
from crossdock.worker import ProcessUnfit
from functions import wiring
from functions.observability import logger, metrics

wiring.prepare(wiring.deployment)


def work(event: dict[str, Any], context: Any) -> None:
    """Run tasks of the launch's query until there are none, or time is nearly up."""
    launch = msgspec.convert(event, Launch)
    logger.append_keys(query_id=launch.query_id, worker_id=launch.worker_id)
    metrics.add_metric("Workers", MetricUnit.Count, 1)
    deployment = wiring.deployment()
    try:
        deployment.worker(lambda: context.get_remaining_time_in_millis() / 1000).run(launch)
    except ProcessUnfit as error:
        # The task is recorded and the worker said goodbye. Returning would keep this process for
        # the next launch; its end makes a new one.
        logger.error("environment given up: %s", error)
        metrics.flush_metrics()
        os._exit(1)
