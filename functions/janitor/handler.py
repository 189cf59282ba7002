"""The janitor's function: one round for each ring of its schedule."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

from functions import wiring
from functions.observability import metrics, observed


@observed
def lambda_handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    """The event says nothing; the answer is what the round did."""
    done: dict[str, int] = asdict(wiring.deployment().janitor.run())
    for name, amount in done.items():
        metrics.add_metric(f"Janitor{name.capitalize()}", MetricUnit.Count, amount)
    return done
