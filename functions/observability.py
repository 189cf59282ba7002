"""Structured logs, metrics and traces of every handler.

Log lines carry ids, counts and kinds of errors: never a statement's literals, never values of rows.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.logging.utils import copy_config_to_registered_loggers
from aws_lambda_powertools.metrics import MetricUnit

from coordinator_state.errors import StateError
from crossdock.errors import PlatformError

Handler = Callable[[dict[str, Any], Any], Any]

logger = Logger()
metrics = Metrics(namespace=os.environ.get("POWERTOOLS_METRICS_NAMESPACE") or "crossdock")

# The engine's own loggers write as ours do. They must exist to be found.
_ENGINE = ("crossdock", "coordinator_state")
for _name in _ENGINE:
    logging.getLogger(_name)
copy_config_to_registered_loggers(logger, include=set(_ENGINE))


class Fault(Exception):
    """An unforeseen error, by its kind alone: the runtime logs what leaves a handler."""


def observed(handler: Handler) -> Handler:
    """Adds the request's id to every line, publishes metrics, and traces when tracing is on."""
    counted = metrics.log_metrics(_traced(_guarded(handler)), capture_cold_start_metric=True)
    return logger.inject_lambda_context(counted, clear_state=True)


def log_fault(error: BaseException) -> None:
    """Where an unforeseen error came from; not its message, which may quote the caller's data."""
    stack = traceback.extract_tb(error.__traceback__)
    frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in stack]
    metrics.add_metric("Faults", MetricUnit.Count, 1)
    logger.error("fault", extra={"error": type(error).__name__, "frames": frames})


def _guarded(handler: Handler) -> Handler:
    @wraps(handler)
    def guarded(event: dict[str, Any], context: Any) -> Any:
        try:
            return handler(event, context)
        except (PlatformError, StateError):
            raise  # names of resources only; the caller tells them apart
        except Exception as error:  # noqa: BLE001 - recorded, and raised without its message
            log_fault(error)
            raise Fault(type(error).__name__) from None

    return guarded


def _traced(handler: Handler) -> Handler:
    """The tracing library takes 0.15 s to import: not without need."""
    if os.environ.get("POWERTOOLS_TRACE_DISABLED", "true").lower() in ("true", "1"):
        return handler
    from aws_lambda_powertools import Tracer

    return Tracer().capture_lambda_handler(handler, capture_response=False, capture_error=False)
