"""What a shuffle may ask of the platform, counted in the receipt: an object a producer, an
envelope a pair, and nothing that grows with rows or sections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crossdock
from crossdock.client.connection import Connection
from crossdock.planner.plan import StagePlan
from crossdock.receipt import Receipt

FILES = 4
PARTITIONS = 5
#: Rows a file of the small and of the large table.
SMALL, LARGE = 100, 10_000
QUERIES = {
    "hash": "SELECT k, sum(v) FROM {t} GROUP BY k ORDER BY k LIMIT 3",
    "broadcast": "SELECT count(*) FROM {t} AS t, few WHERE t.v < few.w",
    "gather": "SELECT v FROM {t} ORDER BY v LIMIT 3",
}
WORKERS = 3


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Connection]]:
    folder = tmp_path_factory.mktemp("tables")
    for name, rows in (("small", SMALL), ("large", LARGE), ("few", 3)):
        (folder / name).mkdir()
        for number in range(FILES):
            values = pa.array(range(number * rows, (number + 1) * rows), pa.int64())
            table = pa.table({"k": values, "v": values, "w": values})
            pq.write_table(table, folder / name / f"{number}.parquet")
    opened: list[Connection] = []

    @cache
    def connected(exchange: str) -> Connection:
        opened.append(
            crossdock.connect(
                home=tmp_path_factory.mktemp("home"),
                tables={name: folder / name for name in ("small", "large", "few")},
                workers=WORKERS,
                worker_memory="512MB",
                exchange=exchange,
                single_task_bytes=0,
                broadcast_bytes=0,
                partitions=PARTITIONS,
            )
        )
        return opened[-1]

    yield connected
    for connection in opened:
        connection.close()


def run(connection: Connection, sql: str) -> tuple[StagePlan, Receipt]:
    with connection.execute(sql) as cursor:
        cursor.fetchall()
        plan, receipt = cursor.plan, cursor.receipt
    assert receipt.attempts == sum(stage.tasks for stage in receipt.stages), "a task was retried"
    return plan, receipt


def pairs(plan: StagePlan) -> int:
    """Producer task times consumer task, over every shuffle: each gets one envelope at most."""
    return sum(plan.stages[e.producer].tasks * plan.stages[e.consumer].tasks for e in plan.edges)


def rows_read(receipt: Receipt) -> int:
    """Rows into all stages: from tables, and through shuffles."""
    return sum(stage.rows_in for stage in receipt.stages)


@pytest.mark.parametrize("mode", QUERIES)
@pytest.mark.parametrize("exchange", ["s3qs", "batch"])
def test_a_shuffle_costs_an_object_a_producer_and_an_envelope_a_pair(
    connect: Callable[[str], Connection], exchange: str, mode: str
) -> None:
    plan, receipt = run(connect(exchange), QUERIES[mode].format(t="small"))
    assert mode in [edge.mode for edge in plan.edges]
    requests = receipt.requests
    tasks = sum(stage.tasks for stage in plan.stages)
    # Every task writes one object: its sections together, or its part of the result.
    assert requests["object_put"] == tasks
    # Each worker reads the plan once; a consumer a section a pair and, without messages, a trailer.
    plans = receipt.workers
    if exchange == "batch":
        assert {kind for kind in requests if kind.startswith("queue")} <= {"queue_list"}
        assert requests["object_get"] <= plans + 2 * pairs(plan)
        return
    assert requests["queue_message"] == pairs(plan)
    assert requests["queue_send"] == requests["queue_message"]
    assert requests["queue_delete"] <= requests["queue_message"]
    assert requests["queue_create"] == sum(stage.tasks for stage in plan.stages if stage.exchanges)
    assert requests["object_get"] <= plans + pairs(plan)


@pytest.mark.parametrize("mode", QUERIES)
@pytest.mark.parametrize("exchange", ["s3qs", "batch"])
def test_a_hundred_times_the_rows_cost_no_request_more(
    connect: Callable[[str], Connection], exchange: str, mode: str
) -> None:
    counted = ("object_put", "queue_message", "queue_send", "queue_create")
    small_plan, small = run(connect(exchange), QUERIES[mode].format(t="small"))
    large_plan, large = run(connect(exchange), QUERIES[mode].format(t="large"))
    assert [s.tasks for s in small_plan.stages] == [s.tasks for s in large_plan.stages]
    assert rows_read(large) > 10 * rows_read(small)
    for kind in counted:
        assert large.requests.get(kind, 0) == small.requests.get(kind, 0), kind
    assert large.requests["object_get"] <= WORKERS + 2 * pairs(large_plan)
