"""Queries on the AWS adapters while their services throttle, fail and lose answers.

Faults come below the SDK (``tests/bad_network.py``), the services are an emulator's, and the answer
is DuckDB's all the same, exactly once, with nothing left.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from coordinator_state.dynamodb import DynamoDbStateStore
from coordinator_state.records import QueryStatus, StageStatus
from crossdock.errors import PlatformUnavailable
from crossdock.platform.aws.clients import client_config
from crossdock.platform.aws.objects import S3Objects
from tests.bad_network import BadNetwork, Odds
from tests.contract.state_setup import COMMIT, S0, Q, claim, start
from tests.deployment import Stand, session, standing
from tests.integration.test_aws_platform import GROUP, JOIN, TABLES, expected, leftovers, rows

pytestmark = pytest.mark.emulator


@pytest.fixture
def stand(emulator: str, tmp_path: Path) -> Iterator[Stand]:
    with standing(emulator, tmp_path / "scratch", pool=3) as made:
        yield made


@pytest.fixture
def tables(stand: Stand, tpch_tiny: Path) -> dict[str, str]:
    return stand.upload({name: tpch_tiny / f"{name}.parquet" for name in TABLES})


def clients(stand: Stand) -> tuple[Any, ...]:
    return stand.clients.dynamodb, stand.clients.s3, stand.clients.sqs


WEATHER = {
    "refusals": Odds(throttled=0.04, failed=0.02, conflict=0.05),
    "lost answers": Odds(done_but_failed=0.04, timed_out=0.02, done_but_timed_out=0.03),
}


@pytest.mark.parametrize("weather", WEATHER)
def test_query_is_right_and_leaves_nothing_in_any_weather(
    stand: Stand, tables: dict[str, str], tpch_tiny: Path, tmp_path: Path, weather: str
) -> None:
    plan = stand.plan(JOIN, tables)
    network = BadNetwork(seed=7, odds=WEATHER[weather])
    for client in clients(stand):
        network.join(client)
    query_id = stand.submit(plan)
    record = stand.wait(query_id)
    assert rows(stand, record, tmp_path) == expected(JOIN, tpch_tiny)
    stand.wait(query_id, closed=True)
    for client in clients(stand):
        network.leave(client)
    assert sum(network.counts.values()) > 5, network.counts
    assert leftovers(stand) == []


def test_c11_every_third_request_for_objects_is_told_to_slow_down(
    stand: Stand, tables: dict[str, str], tpch_tiny: Path, tmp_path: Path
) -> None:
    plan = stand.plan(GROUP, tables)
    network = BadNetwork(
        seed=1, odds=Odds(throttled=0.33), only=frozenset({"PutObject", "GetObject"})
    )
    network.join(stand.clients.s3)
    record = stand.wait(stand.submit(plan))
    network.leave(stand.clients.s3)
    assert rows(stand, record, tmp_path) == expected(GROUP, tpch_tiny)
    assert network.counts["throttled"] >= 3
    keys = [o.key for o in stand.front.medium.objects.list("receipt/")]
    assert all(len(key.split("/")[1]) == 2 for key in keys)  # spread over prefixes


def test_c11_slow_down_for_ever_is_one_clear_error_that_asking_again_may_mend(
    stand: Stand,
) -> None:
    network = BadNetwork(seed=1, odds=Odds(throttled=1.0))
    impatient = session().client(
        "s3",
        endpoint_url=stand.clients.s3.meta.endpoint_url,
        config=client_config(attempts=2),
    )
    network.join(impatient)
    objects = S3Objects(impatient, stand.config.exchange_bucket)
    with pytest.raises(PlatformUnavailable, match="PutObject answered SlowDown"):
        objects.put("exchange/00/q/0/0-1", b"rows")
    assert 2 <= network.counts["throttled"] <= 10  # the SDK's attempts, a few times


def test_c14_fifty_commits_at_once_of_which_half_meet_a_conflict(stand: Stand) -> None:
    store = DynamoDbStateStore(stand.clients.dynamodb, stand.config.table)
    start(store, tasks=50)
    tasks = [claim(store, f"n{number}") for number in range(50)]
    network = BadNetwork(seed=3, odds=Odds(conflict=0.5))
    network.join(stand.clients.dynamodb)
    with ThreadPoolExecutor(50) as pool:
        list(pool.map(lambda task: store.commit_task(task, COMMIT), tasks))
        done = list(pool.map(lambda _: store.complete_stage(Q, S0), range(4)))
    network.leave(stand.clients.dynamodb)
    assert network.counts["conflict"] > 10
    assert {(each.status, each.committed) for each in done} == {(StageStatus.COMPLETE, 50)}
    assert all(task.attempt == 1 for task in store.tasks(Q, S0))


def test_c27_two_joins_of_eight_and_eight_tasks_share_four_workers(
    emulator: str, tpch_tiny: Path, tmp_path: Path
) -> None:
    with standing(emulator, tmp_path / "scratch", pool=20, concurrency=4) as stand:
        tables = stand.upload({name: tpch_tiny / f"{name}.parquet" for name in TABLES})
        plan = stand.plan(GROUP, tables, workers=8, partitions=8)
        queries = [stand.submit(plan, workers=8) for _ in range(2)]
        for query_id in queries:
            record = stand.wait(query_id)
            assert record.status is QueryStatus.SUCCEEDED
            assert rows(stand, record, tmp_path) == expected(GROUP, tpch_tiny)
    assert stand.functions.most_at_once <= 4
