"""What is left of a query in the twins: its answer, and what should not be there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_state import schema
from coordinator_state.ids import QueryId
from coordinator_state.records import QueryRecord, QueryStatus
from crossdock import cleanup
from crossdock.shuffle import layout
from tests.simulation.deployment import Case
from tests.simulation.fragments import read_section

if TYPE_CHECKING:
    from tests.simulation.world import World


def traces_of(world: World, query_id: QueryId) -> list[str]:
    keys = (layout.exchange_prefix(query_id), layout.plan_key(query_id))
    queues = [q for q in world.made.left() if layout.query_of_queue(q) == query_id]
    leases = [
        key[1]
        for key, item in world.table.items.items()
        if key[0] == schema.POOL_PARTITION
        and layout.query_of_queue(item["holder"]["S"]) == query_id
    ]
    ledger = [
        key[1]
        for key in world.table.items
        if key[0] == schema.query_partition(query_id) and key[1].startswith(schema.LEDGER_PREFIX)
    ]
    left = (key for key in world.objects.left() if key not in world._late)
    objects = [key for key in left if key.startswith(keys)]
    return [*queues, *leases, *ledger, *objects]


def read_answer(world: World, case: Case, record: QueryRecord) -> None:
    if record.status is not QueryStatus.SUCCEEDED:
        return
    try:
        keys = cleanup.result_keys(world.objects.open(), record)
        sections = [read_section(world.objects.peek(key)) for key in keys]
    except KeyError as missing:
        world.violations.append(f"result object {missing} of {case.query_id} is not there")
        return
    case.rows = [tuple(row) for section in sections for row in section.rows]  # type: ignore[misc]
    case.runs = [section.run for section in sections]
