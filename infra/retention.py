"""Log retention as CloudWatch knows it."""

from __future__ import annotations

from aws_cdk import aws_logs as logs

from infra.settings import LOG_DAYS

_NAMES = (
    "ONE_DAY", "THREE_DAYS", "FIVE_DAYS", "ONE_WEEK", "TWO_WEEKS", "ONE_MONTH", "TWO_MONTHS",
    "THREE_MONTHS", "FOUR_MONTHS", "FIVE_MONTHS", "SIX_MONTHS", "ONE_YEAR", "THIRTEEN_MONTHS",
    "EIGHTEEN_MONTHS", "TWO_YEARS", "THREE_YEARS", "FIVE_YEARS", "TEN_YEARS",
)  # fmt: skip


def retention(days: int) -> logs.RetentionDays:
    """``days`` is one of ``LOG_DAYS``."""
    return logs.RetentionDays[dict(zip(LOG_DAYS, _NAMES, strict=True))[days]]
