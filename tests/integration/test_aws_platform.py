"""Queries on the AWS adapters: resources on the emulator, function invocations on threads."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import msgspec
import pytest

from coordinator_state.ids import QueryId
from coordinator_state.records import QueryRecord, QueryStatus
from crossdock import summary
from crossdock.platform.ports import Launch
from crossdock.worker import ProcessUnfit
from tests.datasets import benchmark_queries
from tests.deployment import Stand, result_rows, standing

pytestmark = pytest.mark.emulator

TABLES = ("customer", "lineitem", "nation", "orders")
JOIN = (
    "SELECT n_name, count(*) AS orders, sum(o_totalprice) AS total FROM orders "
    "JOIN customer ON o_custkey = c_custkey JOIN nation ON c_nationkey = n_nationkey "
    "GROUP BY n_name ORDER BY n_name"
)

GROUP = (
    "SELECT o_orderpriority, count(*) AS orders, sum(o_totalprice) AS total FROM orders "
    "GROUP BY ALL ORDER BY ALL"
)


@pytest.fixture
def stand(emulator: str, tmp_path: Path) -> Iterator[Stand]:
    with standing(emulator, tmp_path / "scratch", pool=5) as made:
        yield made


@pytest.fixture
def tables(stand: Stand, tpch_tiny: Path) -> dict[str, str]:
    return stand.upload({name: tpch_tiny / f"{name}.parquet" for name in TABLES})


def expected(sql: str, folder: Path) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        for name in TABLES:
            connection.execute(f"CREATE VIEW {name} AS FROM '{folder}/{name}.parquet'")
        return connection.execute(sql).fetchall()


def rows(stand: Stand, record: QueryRecord, folder: Path) -> list[tuple[object, ...]]:
    assert record.status is QueryStatus.SUCCEEDED, record.error
    files = [str(path) for path in result_rows(stand, record, folder)]
    with duckdb.connect() as connection:
        return connection.execute(f"FROM read_parquet({files})").fetchall()


def leftovers(stand: Stand) -> list[str]:
    medium = stand.front.medium
    found = [lease.holder for lease in medium.store.queue_leases()]
    found += medium.queues.names("crossdock-")
    return found + [o.key for p in ("exchange/", "plan/") for o in medium.objects.list(p)]


def test_a_query_gives_duckdb_s_rows_and_leaves_nothing(
    stand: Stand, tables: dict[str, str], tpch_tiny: Path, tmp_path: Path
) -> None:
    query_id = stand.submit(stand.plan(JOIN, tables))
    record = stand.wait(query_id)
    assert rows(stand, record, tmp_path) == expected(JOIN, tpch_tiny)
    stand.wait(query_id, closed=True)
    assert leftovers(stand) == []
    used = {function for function, _ in stand.functions.invoked}
    assert used <= {"producer-0", "producer-1", "consumer-0"}


def test_queues_beyond_the_pool_are_made_and_deleted(
    emulator: str, tpch_tiny: Path, tmp_path: Path
) -> None:
    with standing(emulator, tmp_path / "scratch", pool=2) as stand:
        tables = stand.upload({name: tpch_tiny / f"{name}.parquet" for name in TABLES})
        query_id = stand.submit(stand.plan(JOIN, tables))
        assert rows(stand, stand.wait(query_id), tmp_path) == expected(JOIN, tpch_tiny)
        stand.wait(query_id, closed=True)
        assert leftovers(stand) == []
        receipt = summary.recall(stand.front.medium.store, stand.front.medium.objects, query_id)
    assert receipt.coordinator_usage["queue_create"] == receipt.coordinator_usage["queue_drop"] > 0
    assert receipt.worker_usage["object_get"] > 0  # table files too
    assert {"queue_send", "queue_receive", "state_write"} <= set(receipt.worker_usage)


def test_queries_at_once_keep_within_the_deployment_s_budget(
    emulator: str, tpch_tiny: Path, tmp_path: Path
) -> None:
    with standing(emulator, tmp_path / "scratch", pool=5, concurrency=3) as stand:
        tables = stand.upload({name: tpch_tiny / f"{name}.parquet" for name in TABLES})
        plan = stand.plan(GROUP, tables)
        queries = [stand.submit(plan) for _ in range(3)]
        assert {stand.wait(one).status for one in queries} == {QueryStatus.SUCCEEDED}
    assert stand.functions.most_at_once <= 3


def test_a_worker_whose_invocation_failed_is_replaced_long_before_its_lease_ends(
    stand: Stand, tables: dict[str, str], tpch_tiny: Path, tmp_path: Path
) -> None:
    run, killed = stand.functions._run, []

    def kill_the_first(launch: Launch) -> None:
        if killed:
            return run(launch)
        killed.append(launch)
        store = stand.front.medium.store
        query, worker = QueryId(launch.query_id), launch.worker_id
        store.register_worker(query, worker, now=time.time(), life_until=time.time() + 900)  # type: ignore[arg-type]
        (stage, *_) = [s.stage for s in store.stages(query) if s.depth == 0]
        store.claim_task(query, stage, worker, "nonce", now=time.time())  # type: ignore[arg-type]
        # What Lambda sends to the failure destination of an asynchronous invocation.
        failure = {
            "requestContext": {"condition": "RetriesExhausted"},
            "requestPayload": msgspec.to_builtins(launch),
        }
        stand.clients.sqs.send_message(
            QueueUrl=stand.config.control_queue_url, MessageBody=json.dumps(failure)
        )

    stand.functions._run = kill_the_first  # type: ignore[method-assign]
    query_id = stand.submit(stand.plan(GROUP, tables), lease_seconds=300.0)
    record = stand.wait(query_id)
    assert rows(stand, record, tmp_path) == expected(GROUP, tpch_tiny)
    assert killed
    stand.wait(query_id, closed=True)  # long before the dead worker's life would have ended


def test_a_function_that_is_not_there_fails_the_query_in_words(
    stand: Stand, tables: dict[str, str]
) -> None:
    real = stand.clients.functions

    def missing(**request: object) -> object:
        error = {"Error": {"Code": "ResourceNotFoundException", "Message": "no such function"}}
        from botocore.exceptions import ClientError

        raise ClientError(error, "Invoke")

    real.invoke = missing  # type: ignore[method-assign, assignment]
    record = stand.wait(stand.submit(stand.plan(JOIN, tables)))
    assert record.status is QueryStatus.FAILED
    assert record.error is not None
    assert "no worker can be started: function producer" in record.error.message


def test_the_janitor_finishes_a_query_whose_alarms_died(
    stand: Stand, tables: dict[str, str], tpch_tiny: Path, tmp_path: Path
) -> None:
    control = stand.front.control
    plan = stand.plan(GROUP, tables)
    tick = control.tick
    control.tick = lambda *_, **__: None  # type: ignore[method-assign]
    query_id = stand.submit(plan)  # its first alarm is never sent
    control.tick = tick  # type: ignore[method-assign]
    assert not stand.functions.invoked
    done = stand.front.janitor.run()
    assert (done.revived, done.removed) == (1, 0)
    assert rows(stand, stand.wait(query_id), tmp_path) == expected(GROUP, tpch_tiny)
    stand.wait(query_id, closed=True)
    assert stand.front.janitor.run(grace_seconds=0).removed == 0


def test_the_janitor_removes_what_no_query_owns(stand: Stand) -> None:
    medium = stand.front.medium
    medium.queues.create("crossdock-gone-1-0-0", *(f"crossdock-gone-1-0-{n}" for n in range(1, 7)))
    medium.objects.put("exchange/00/gone/0/0-1", b"x")
    medium.objects.put("plan/00/gone.json", b"x")
    stand.clients.s3.create_multipart_upload(
        Bucket=stand.config.exchange_bucket, Key="exchange/00/gone/0/1-1"
    )
    assert stand.front.janitor.run().removed == 7  # young objects stay, queues are nobody's
    done = stand.front.janitor.run(grace_seconds=-60)
    assert (done.removed, done.uploads) == (2, 1)
    assert leftovers(stand) == []


def test_an_object_replaced_after_planning_fails_the_query_in_one_clear_error(
    stand: Stand, tables: dict[str, str], tpch_tiny: Path
) -> None:
    plan = stand.plan(JOIN, tables)
    stand.upload({"orders": tpch_tiny / "customer.parquet"})
    record = stand.wait(stand.submit(plan))
    assert record.error is not None
    assert (record.status, record.error.kind) == (QueryStatus.FAILED, "TableChanged")
    assert f"{tables['orders']} changed while the query ran" in record.error.message


def test_a_one_task_query_runs_in_one_function(
    stand: Stand, tables: dict[str, str], tpch_tiny: Path, tmp_path: Path
) -> None:
    sql = dict(benchmark_queries("tpch"))["6"]
    plan = stand.plan(sql, {"lineitem": tables["lineitem"]}, single_task_limit=1 << 40)
    assert plan.one_task
    record = stand.wait(stand.submit(plan))
    assert rows(stand, record, tmp_path) == expected(sql, tpch_tiny)
    assert len(stand.functions.invoked) == 1


def test_a_worker_that_ran_out_of_memory_says_goodbye_and_gives_its_process_up(
    stand: Stand, tables: dict[str, str]
) -> None:
    given_up: list[str] = []
    run = stand.functions._run

    def noting(launch: Launch) -> None:
        try:
            run(launch)
        except ProcessUnfit as error:
            given_up.append(str(error))

    stand.functions._run = noting  # type: ignore[method-assign]
    stand.config = replace(stand.config, memory_bytes=16 * 1024 * 1024)
    sql = "SELECT list(l_comment) FROM lineitem, range(100)"
    record = stand.wait(stand.submit(stand.plan(sql, tables), max_attempts=1))
    assert record.error is not None
    assert record.error.kind == "OutOfMemory"
    assert given_up
    assert set(given_up) == {"an attempt ended by OutOfMemory"}
