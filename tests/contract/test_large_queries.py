"""Items stay far below 400 KB whatever a query's size: what is long is an object, or is cut.

Case c13: 10,000 files, 200 partitions, an error of 500 KB, a plan of more than 600 KB.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from coordinator_state import schema
from coordinator_state.dynamodb import DynamoDbStateStore
from coordinator_state.ids import Nonce, StageId, WorkerId
from coordinator_state.records import ErrorRecord, QueryStatus, WorkerRecord
from crossdock.planner.plan import FileSlice, StagePlan, decode_plan, encode_plan
from crossdock.platform.clock import SystemClock
from crossdock.platform.ids import RandomIds
from crossdock.platform.memory import MemoryObjects
from crossdock.platform.ports import Launch
from crossdock.submit import QueryOptions, submit
from tests.contract.state_setup import TABLE
from tests.integration.handmade import two_stages

FILES = 10_000
PARTITIONS = 200
#: A tenth of what DynamoDB takes.
LARGEST_ITEM = 40_000


def large_plan() -> StagePlan:
    files = tuple(
        FileSlice(
            path=f"s3://bucket/some/folder/year=2026/part-{n:06d}.parquet", size=n, version="e"
        )
        for n in range(FILES)
    )
    plan = two_stages(files[:64], partitions=PARTITIONS)
    (scan,) = plan.stages[0].scans
    split = tuple(files[n::64] for n in range(64))
    first = msgspec.structs.replace(
        plan.stages[0], scans=(msgspec.structs.replace(scan, splits=split),)
    )
    sql = "SELECT k, sum(v) FROM t WHERE k IN (" + ", ".join(map(str, range(5000))) + ") GROUP BY k"
    return msgspec.structs.replace(plan, stages=(first, plan.stages[1]), sql=sql)


def largest_item(client: Any) -> int:
    pages = client.get_paginator("scan").paginate(TableName=TABLE)
    return max(len(json.dumps(item)) for page in pages for item in page["Items"])


def test_c13_ten_thousand_files_fit_because_the_plan_is_an_object(
    dynamodb: DynamoDbStateStore, state_client: Any
) -> None:
    plan, objects = large_plan(), MemoryObjects()
    query_id = submit(dynamodb, objects, plan, QueryOptions(), clock=SystemClock(), ids=RandomIds())
    query = dynamodb.get_query(query_id)
    assert len(encode_plan(plan)) > 600_000
    assert decode_plan(objects.get(query.plan_key)) == plan
    worker = WorkerId("w")
    dynamodb.activate_stage(query_id, StageId(0))
    dynamodb.set_capacity(query_id, StageId(0), admitted=64, desired=1)
    dynamodb.add_worker(WorkerRecord(query_id=query_id, worker_id=worker))
    dynamodb.register_worker(query_id, worker, now=1.0, life_until=2.0)
    task = dynamodb.claim_task(query_id, StageId(0), worker, Nonce("n"), now=1.0)
    assert task is not None
    error = ErrorRecord(kind="InvalidInput", message="x" * 500_000)
    failed = dynamodb.fail_task(task, error)
    dynamodb.end_query(query_id, QueryStatus.FAILED, now=3.0, error=error)
    assert failed.error is not None
    assert len(failed.error.message) == schema.MAX_ERROR_CHARS
    assert largest_item(state_client) < LARGEST_ITEM


def test_d11_launch_says_where_the_plan_is_and_not_what_it_is() -> None:
    launch = Launch(query_id=RandomIds().query_id(), worker_id=RandomIds().worker_id())
    assert len(msgspec.json.encode(launch)) < 200
