"""The janitor's function: every minute the cheap part of its round, every hour all of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

from functions import wiring
from functions.observability import metrics, observed

#: What the schedule of the cheap part says; any other event asks for the whole round.
REVIVE = {"part": "revive"}

wiring.prepare(lambda: wiring.deployment().janitor)


@observed
def lambda_handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    """The answer is what the round did."""
    janitor = wiring.deployment().janitor
    done: dict[str, int] = (
        {"revived": janitor.revive()} if event == REVIVE else asdict(janitor.run())
    )
    for name, amount in done.items():
        metrics.add_metric(f"Janitor{name.capitalize()}", MetricUnit.Count, amount)
    return done
