"""Cases of other systems on the same services: those are emulated, invocations are threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator_state.records import QueryStatus
from crossdock.executor import Interrupt
from tests.deployment import Stand, standing
from tests.integration.test_aws_platform import expected, leftovers, rows

pytestmark = pytest.mark.emulator

#: Files of the table whose reading is stopped, tasks that read it, and how many each opens at once.
FILES, TASKS, AT_ONCE = 200, 4, 8
#: Seconds for what takes a heartbeat of a second.
PATIENCE = 60.0


@pytest.fixture
def stand(emulator: str, tmp_path: Path) -> Iterator[Stand]:
    with standing(emulator, tmp_path / "scratch", pool=5) as made:
        yield made


def chained(groupings: int) -> str:
    """Each grouping by keys of its own, so that each needs a shuffle."""
    sql = "SELECT o_custkey AS x, 1::BIGINT AS n FROM orders"
    for number in range(groupings):
        keys = 997 - 7 * number
        sql = (
            f"SELECT (x * 3 + {number}) % {keys} AS x, sum(n)::BIGINT AS n FROM ({sql}) GROUP BY 1"
        )
    return f"{sql} ORDER BY x"


def test_d16_a_chain_of_25_stages_completes(stand: Stand, tpch_tiny: Path, tmp_path: Path) -> None:
    """More hops than Lambda allows a loop that it was not told of."""
    sql = chained(24)
    plan = stand.plan(sql, stand.upload({"orders": tpch_tiny / "orders.parquet"}), workers=2)
    assert len(plan.stages) >= 25
    query_id = stand.submit(plan)
    assert rows(stand, stand.wait(query_id), tmp_path) == expected(sql, tpch_tiny)
    stand.wait(query_id, closed=True)
    assert leftovers(stand) == []


class Gate:
    """Holds reads of the data bucket; counts those that came before it was opened, and after."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._lock = threading.Lock()
        self._opened = threading.Event()
        self.full = threading.Event()
        self.before = self.after = 0

    def __call__(self, params: dict[str, Any], **_: object) -> None:
        if "-data/" not in params["url"] and "-data/" not in params["url_path"]:
            return
        with self._lock:
            if self._opened.is_set():
                self.after += 1
                return
            self.before += 1
            if self.before == self._expected:
                self.full.set()
        self._opened.wait(PATIENCE)

    def open(self) -> None:
        self._opened.set()


def test_e05_cancel_ends_reading_and_launching(
    stand: Stand, tpch_tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of fetching: what is under way comes to its end, nothing else is asked for."""
    told: list[Interrupt] = []

    class Noted(Interrupt):
        def __init__(self) -> None:
            super().__init__()
            told.append(self)

    monkeypatch.setattr("crossdock.worker.Interrupt", Noted)
    data = (tpch_tiny / "nation.parquet").read_bytes()
    for number in range(FILES):
        key = f"many/{number:03}.parquet"
        stand.clients.s3.put_object(Bucket=f"{stand.name}-data", Key=key, Body=data)
    plan = stand.plan("SELECT count(n_name) FROM many", {"many": f"s3://{stand.name}-data/many/"})
    assert plan.stages[0].tasks == TASKS
    gate = Gate(TASKS * AT_ONCE)
    stand.clients.s3.meta.events.register("before-call.s3.GetObject", gate)
    query_id = stand.submit(plan, lease_seconds=3.0)
    assert gate.full.wait(PATIENCE)
    invoked = len(stand.functions.invoked)
    record = stand.front.desk.coordinator.cancel(query_id)
    until = time.monotonic() + PATIENCE
    while not all(each.fired for each in told) and time.monotonic() < until:
        time.sleep(0.05)
    assert [each.fired for each in told] == [True] * TASKS
    gate.open()
    assert record.status is QueryStatus.CANCELLED
    stand.wait(query_id, closed=True)
    assert (gate.before, gate.after) == (TASKS * AT_ONCE, 0)
    assert len(stand.functions.invoked) == invoked
    assert leftovers(stand) == []
