"""Every handler under the AWS Runtime Interface Emulator, from its built layers alone."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from coordinator_state.ids import QueryId
from coordinator_state.records import TaskRecord, TaskStatus
from crossdock.shuffle.layout import exchange_key, result_key
from tests.runtime_interface import Environment
from tests.runtime_stand import PATIENCE, Stand, standing

pytestmark = [pytest.mark.emulator, pytest.mark.xdist_group("infra")]

#: Seconds of a worker's invocation; longer than the tasks here, shorter than a lease.
WORKER_TIMEOUT = 15
JOIN = (
    "SELECT n_name, count(*) AS orders, sum(o_totalprice) AS total FROM orders "
    "JOIN customer ON o_custkey = c_custkey JOIN nation ON c_nationkey = n_nationkey "
    "GROUP BY n_name ORDER BY n_name"
)
#: Long enough to be met in the middle.
LONG = (
    "SELECT sum(hash(a.o_comment || b.n_name || c.n_name) % 7) AS s "
    "FROM orders a, nation b, nation c"
)
TABLES = ("customer", "nation", "orders")


@pytest.fixture(scope="module")
def stand(
    emulator: str, tmp_path_factory: pytest.TempPathFactory, tpch_tiny: Path
) -> Iterator[Stand]:
    folder = tmp_path_factory.mktemp("functions")
    with standing(emulator, folder, "rie", worker_timeout=WORKER_TIMEOUT) as made:
        for table in TABLES:
            key = f"{table}.parquet"
            made.s3.put_object(
                Bucket=made.data_bucket, Key=key, Body=(tpch_tiny / key).read_bytes()
            )
            sources = {"sources": [f"s3://{made.data_bucket}/{key}"]}
            made.ok("PUT", f"/v1/tables/{table}", sources)
        yield made


@pytest.fixture(scope="module")
def reference(tpch_tiny: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for table in TABLES:
            connection.execute(f"CREATE VIEW {table} AS FROM '{tpch_tiny / table}.parquet'")
        yield connection


def submitted(stand: Stand, sql: str, **settings: int) -> str:
    return str(stand.ok("POST", "/v1/queries", {"sql": sql, "settings": settings})["query_id"])


def rows(stand: Stand, query_id: str) -> list[list[object]]:
    document = stand.ended(query_id)
    assert document["status"] == "SUCCEEDED", document
    found: list[list[object]] = stand.ok("GET", f"/v1/queries/{query_id}/results")["rows"]
    return found


def test_a_query_passes_through_every_function(
    stand: Stand, reference: duckdb.DuckDBPyConnection
) -> None:
    joined = reference.execute(JOIN).fetchall()
    expected = [[name, count, str(total)] for name, count, total in joined]
    assert rows(stand, submitted(stand, JOIN)) == expected
    assert {"api", "coordinator", "producer-0", "consumer-0"} <= set(stand.service.invoked)
    assert stand.service.errors == [], stand.service.told


def test_the_janitor_does_its_round(stand: Stand) -> None:
    stand.s3.put_object(Bucket=f"{stand.name}-exchange", Key="plan/00/gone.json", Body=b"x")
    assert stand.service.invoke("janitor", {"part": "revive"}).json.keys() == {"revived"}
    round_ = stand.service.invoke("janitor", {"part": "all"})
    assert not round_.error, round_.told
    assert round_.json["removed"] == 0  # it is young


def running(stand: Stand, query_id: str) -> Iterator[TaskRecord]:
    for stage in stand.store.stages(QueryId(query_id)):
        for task in stand.store.tasks(QueryId(query_id), stage.stage):
            if task.status is TaskStatus.RUNNING:
                yield task


def still_at(stand: Stand, task: TaskRecord) -> bool:
    """Whether the attempt, whose process stands still, runs and has not sent its commit.

    It sends that when it was told that its object is written; then the object would be there.
    """
    place = (task.query_id, task.stage, task.index, task.attempt)
    for bucket, key in (("exchange", exchange_key(*place)), ("results", result_key(*place))):
        found = stand.s3.list_objects_v2(Bucket=f"{stand.name}-{bucket}", Prefix=key)
        if found["KeyCount"]:
            return False
    attempts = [
        (other.stage, other.index, other.attempt) for other in running(stand, task.query_id)
    ]
    return place[1:] in attempts


def stopped_in_the_middle(stand: Stand, query_id: str) -> Environment:
    """A function's environment, stopped (SIGSTOP) at a task that it can no longer commit."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for task in running(stand, query_id):
            environment = stand.service.serving(task.worker_id)
            if environment is None:
                continue
            process = environment.handler_process()
            process.suspend()
            if still_at(stand, task):
                return environment
            process.resume()
        time.sleep(0.02)
    raise AssertionError(f"no task of {query_id} was met in the middle")


@pytest.mark.parametrize(
    ("signal_", "kind"),
    [(signal.SIGKILL, "Runtime.ExitError"), (signal.SIGSTOP, "Timeout")],
    ids=["crash", "timeout"],
)
def test_a_query_outlives_a_function_that_ends_badly(
    stand: Stand, reference: duckdb.DuckDBPyConnection, signal_: signal.Signals, kind: str
) -> None:
    query_id = submitted(stand, LONG)
    environment = stopped_in_the_middle(stand, query_id)
    environment.handler_process().send_signal(signal_)
    document = stand.ended(query_id)
    assert document["status"] == "SUCCEEDED", document
    (found,) = stand.ok("GET", f"/v1/queries/{query_id}/results")["rows"]
    assert [int(found[0])] == [int(row[0]) for row in reference.execute(LONG).fetchall()]
    assert (environment.function.name, kind) in stand.service.errors
    tasks = [(stage["attempts"], stage["tasks"]) for stage in document["stages"]]
    assert any(attempts > count for attempts, count in tasks), tasks
