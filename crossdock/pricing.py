"""What requests and compute cost: published list prices and a query's itemised bill.

Prices are AWS list prices without free tier, in US dollars. A local run is priced as if it had run
on AWS.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """Published prices of one region, in dollars."""

    region: str
    as_of: datetime.date
    gb_second: float  # Lambda, arm64, first tier
    launch: float  # one Lambda request
    object_put: float  # S3 Standard: PUT, POST, LIST
    object_get: float  # S3 Standard: GET, HEAD
    queue_request: float  # SQS standard, one request of up to 64 KiB
    state_write: float  # DynamoDB on demand, one unit of 1 KB
    state_read: float  # DynamoDB on demand, one strongly consistent unit of 4 KB


US_EAST_1 = PriceList(
    region="us-east-1",
    as_of=datetime.date(2026, 8, 31),
    gb_second=0.0000133334,
    launch=0.20 / _MILLION,
    object_put=5.00 / _MILLION,
    object_get=0.40 / _MILLION,
    queue_request=0.40 / _MILLION,
    state_write=0.625 / _MILLION,
    state_read=0.125 / _MILLION,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostItem:
    """One line of a bill."""

    service: str  # lambda | s3 | sqs | dynamodb
    what: str  # e.g. "PUT requests"
    amount: float
    unit_price: float  # dollars
    dollars: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """An itemised bill in dollars; lines of nothing are left out."""

    items: tuple[CostItem, ...]
    region: str
    as_of: datetime.date

    @property
    def total(self) -> float:
        """Dollars."""
        return sum(item.dollars for item in self.items)

    def of(self, service: str) -> float:
        """Dollars of one service."""
        return sum(item.dollars for item in self.items if item.service == service)


def price(usage: Mapping[str, int], gb_seconds: float, prices: PriceList = US_EAST_1) -> Cost:
    """Price what a query used.

    Args:
        usage: requests by kind (``crossdock.platform.meter.Kind``); other keys are ignored.
            ``worker_launch`` counts launches.
        gb_seconds: memory of the workers (GB) times the seconds they ran.
        prices: the list to price by.
    """
    lines = (
        ("lambda", "GB-seconds", gb_seconds, prices.gb_second),
        ("lambda", "launches", _sum(usage, "worker_launch"), prices.launch),
        ("s3", "PUT requests", _sum(usage, "object_put"), prices.object_put),
        ("s3", "LIST requests", _sum(usage, "object_list"), prices.object_put),
        ("s3", "GET requests", _sum(usage, "object_get"), prices.object_get),
        ("sqs", "sends and receives", _payload_requests(usage), prices.queue_request),
        ("sqs", "deletes", _sum(usage, "queue_delete"), prices.queue_request),
        (
            "sqs",
            "queues made, listed, dropped",
            _sum(usage, "queue_create", "queue_list", "queue_drop"),
            prices.queue_request,
        ),
        ("dynamodb", "write units", _sum(usage, "state_write"), prices.state_write),
        ("dynamodb", "read units", _sum(usage, "state_read"), prices.state_read),
    )
    items = tuple(
        CostItem(
            service=service,
            what=what,
            amount=amount,
            unit_price=unit_price,
            dollars=amount * unit_price,
        )
        for service, what, amount, unit_price in lines
        if amount
    )
    return Cost(items=items, region=prices.region, as_of=prices.as_of)


def _sum(usage: Mapping[str, int], *kinds: str) -> int:
    return sum(usage.get(kind, 0) for kind in kinds)


def _payload_requests(usage: Mapping[str, int]) -> int:
    """Sends and receives are billed by 64 KiB chunks; each has at least one."""
    return max(_sum(usage, "queue_chunk"), _sum(usage, "queue_send", "queue_receive"))
