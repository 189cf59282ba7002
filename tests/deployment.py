"""A deployment without functions: its resources on the emulator, its invocations on threads."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import msgspec

from coordinator_state.dynamodb import create_table
from coordinator_state.ids import QueryId
from coordinator_state.records import QueryRecord, QueryStatus
from crossdock.aws import AwsConfig, Deployment, build
from crossdock.catalog import Catalog
from crossdock.planner.binder import Binder
from crossdock.planner.options import PlannerOptions
from crossdock.planner.plan import StagePlan
from crossdock.planner.planning import plan_query
from crossdock.platform.aws.clients import make_clients
from crossdock.platform.ports import Launch
from crossdock.submit import QueryOptions, submit

LIFE_SECONDS = 60.0


def session() -> boto3.Session:
    return boto3.Session(
        region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )


class Functions:
    """Stands in for the Lambda client: an invocation is a worker on a thread."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self._pool = ThreadPoolExecutor(16, thread_name_prefix="function")
        self._lock = threading.Lock()
        self.invoked: list[tuple[str, Launch]] = []
        self.at_once = 0
        self.most_at_once = 0

    def invoke(self, *, FunctionName: str, InvocationType: str, Payload: bytes) -> dict[str, Any]:
        assert InvocationType == "Event"
        launch = msgspec.json.decode(Payload, type=Launch)
        with self._lock:
            self.invoked.append((FunctionName, launch))
        self._pool.submit(self._run, launch)
        return {"StatusCode": 202}

    def _run(self, launch: Launch) -> None:
        with self._lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            self._make().worker(lambda: LIFE_SECONDS).run(launch)
        finally:
            with self._lock:
                self.at_once -= 1

    def close(self) -> None:
        self._pool.shutdown(wait=True)


class Stand:
    """One deployment of a test, with its own names on the shared emulator."""

    def __init__(self, url: str, folder: Path, *, pool: int, concurrency: int = 8) -> None:
        self.name = f"t{uuid.uuid4().hex[:8]}"
        self._folder = folder
        self._numbers = iter(range(10_000))
        clients = make_clients(self._session(url))
        # Of the event source, which is the service's own: faults of our clients are not its.
        self._event_source = make_clients(self._session(url)).sqs
        self.functions = Functions(self.deployment)
        self.clients = replace(clients, functions=self.functions)
        self.config = self._make(pool, concurrency)
        self.front = self.deployment()
        self._stop = threading.Event()
        self._pump = threading.Thread(target=self._turn, daemon=True)

    def _session(self, url: str) -> Any:
        made = session()

        class At:
            def client(self, name: str, **options: Any) -> Any:
                return made.client(name, endpoint_url=url, **options)

        return At()

    def _make(self, pool: int, concurrency: int) -> AwsConfig:
        dynamodb, s3, sqs = self.clients.dynamodb, self.clients.s3, self.clients.sqs
        create_table(dynamodb, self.name)
        for bucket in ("exchange", "results", "data"):
            s3.create_bucket(Bucket=f"{self.name}-{bucket}")
        for number in range(pool):
            sqs.create_queue(QueueName=f"{self.name}-pool-{number:04d}")
        return AwsConfig(
            table=self.name,
            exchange_bucket=f"{self.name}-exchange",
            result_bucket=f"{self.name}-results",
            control_queue_url=sqs.create_queue(QueueName=f"{self.name}-control")["QueueUrl"],
            pool_prefix=f"{self.name}-pool-",
            pool_size=pool,
            queue_prefix=f"{self.name}-",
            producer_functions=("producer-0", "producer-1"),
            consumer_functions=("consumer-0",),
            concurrency=concurrency,
            query_workers=4,
            scratch=self._folder,
        )

    def deployment(self) -> Deployment:
        """As a process of its own has it: other caches, another meter, another folder."""
        folder = self._folder / str(next(self._numbers))
        return build(replace(self.config, scratch=folder), self.clients)

    def upload(self, files: Mapping[str, Path]) -> dict[str, str]:
        urls = {}
        for name, path in files.items():
            self.clients.s3.put_object(
                Bucket=f"{self.name}-data", Key=f"{name}.parquet", Body=path.read_bytes()
            )
            urls[name] = f"s3://{self.name}-data/{name}.parquet"
        return urls

    def plan(self, sql: str, tables: Mapping[str, str], **options: Any) -> StagePlan:
        catalog = Catalog(remote=self.front.table_files, local=False)
        for name, url in tables.items():
            catalog.add(name, url)
        chosen = {"workers": 4, "partitions": None, "single_task_limit": 0, "broadcast_bytes": 0}
        return plan_query(Binder(catalog).bind(sql), PlannerOptions(**{**chosen, **options}))

    def submit(self, plan: StagePlan, **options: Any) -> QueryId:
        medium, front = self.front.medium, self.front
        query_id = submit(
            medium.store,
            medium.objects,
            plan,
            QueryOptions(**options),
            clock=front.clock,
            ids=front.ids,
        )
        front.control.tick(query_id, 0, delay=0.0)
        return query_id

    def wait(self, query_id: QueryId, *, closed: bool = False, seconds: float = 60) -> QueryRecord:
        deadline = self.front.clock.now() + seconds
        while True:
            record = self.front.medium.store.get_query(query_id)
            if record.closed if closed else record.status is not QueryStatus.RUNNING:
                return record
            assert self.front.clock.now() < deadline, f"{query_id} is still {record.status}"
            self._stop.wait(0.02)

    def _turn(self) -> None:
        """What the control queue's event source does."""
        sqs, url = self._event_source, self.config.control_queue_url
        while not self._stop.is_set():
            found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
            messages = found.get("Messages", [])
            if not messages:
                continue
            records = [{"messageId": m["MessageId"], "body": m["Body"]} for m in messages]
            answer = self.front.desk.handle(records)
            failed = {item["itemIdentifier"] for item in answer["batchItemFailures"]}
            for message in messages:
                if message["MessageId"] not in failed:
                    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    def start(self) -> None:
        self._pump.start()

    def close(self) -> None:
        self._stop.set()
        if self._pump.is_alive():
            self._pump.join()
        self.functions.close()


@contextmanager
def standing(url: str, folder: Path, *, pool: int = 0, **options: Any) -> Iterator[Stand]:
    stand = Stand(url, folder, pool=pool, **options)
    stand.start()
    try:
        yield stand
    finally:
        stand.close()


def result_rows(stand: Stand, record: QueryRecord, folder: Path) -> Sequence[Path]:
    """The answer's files, fetched."""
    from crossdock import cleanup

    objects = stand.front.medium.objects
    paths = []
    for number, key in enumerate(cleanup.result_keys(objects, record)):
        path = folder / f"result-{number}.parquet"
        objects.fetch(key, path)
        paths.append(path)
    return paths
