"""The consumer's function: a worker for tasks that read what other tasks wrote."""

from __future__ import annotations

from typing import Any

from functions.observability import observed
from functions.worker import work


@observed
def lambda_handler(event: dict[str, Any], context: Any) -> None:
    """A launch."""
    work(event, context)
