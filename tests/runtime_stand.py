"""A deployment whose functions run under the Runtime Interface Emulator; the rest is emulated."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from coordinator_state.dynamodb import DynamoDbStateStore, create_table
from coordinator_state.store import StateStore
from tests.api_server import event as gateway_event
from tests.runtime_interface import Function, Runtime, Service, serving

REGION = "us-east-1"
KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": REGION}
POOL = 4
#: Seconds until a query of a test must have ended.
PATIENCE = 90.0


@dataclass(frozen=True, kw_only=True)
class Stand:
    name: str
    service: Service
    store: StateStore
    s3: Any

    @property
    def data_bucket(self) -> str:
        return f"{self.name}-data"

    def request(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
        """A call of the API's function as the gateway makes it: status, and the document.

        The gateway answers 500 or 503 for a function that failed; here that is never meant, so it
        is told.
        """
        text = None if body is None else json.dumps(body)
        sent = gateway_event(method, path, query=query or None, body=text)
        outcome = self.service.invoke("api", sent)
        assert not outcome.error, outcome.told
        answer = outcome.json
        return answer["statusCode"], json.loads(answer["body"] or "null")

    def ok(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        status, document = self.request(method, path, body, **query)
        assert status < 300, document
        return document

    def ended(self, query_id: str) -> Any:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            document = self.ok("GET", f"/v1/queries/{query_id}", wait="10")
            if document["status"] != "RUNNING":
                return document
        raise AssertionError(f"query {query_id} still runs: {document}")


class Pump:
    """Carries control messages to the coordinator, as an event source does."""

    def __init__(self, sqs: Any, url: str, service: Service) -> None:
        self._sqs, self._url, self._service = sqs, url, service
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(2)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            got = self._sqs.receive_message(
                QueueUrl=self._url, MaxNumberOfMessages=10, WaitTimeSeconds=1
            )
            if messages := got.get("Messages", []):
                self._hand_over(messages)

    def _hand_over(self, messages: list[Any]) -> None:
        records = [{"messageId": m["MessageId"], "body": m["Body"]} for m in messages]
        outcome = self._service.invoke("coordinator", {"Records": records})
        if outcome.error:
            return  # they are visible again later
        failed = {one["itemIdentifier"] for one in outcome.json["batchItemFailures"]}
        for message in messages:
            if message["MessageId"] not in failed:
                self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@contextmanager
def standing(endpoint: str, folder: Path, name: str, *, worker_timeout: int) -> Iterator[Stand]:
    """Table, buckets and queues on the emulator at ``endpoint``; functions here.

    ``worker_timeout``: seconds of a worker's invocation. A cold start counts, unlike on AWS, where
    the first ten seconds of it do not.
    """
    session = boto3.Session(**KEYS)
    s3, sqs, table = (session.client(s, endpoint_url=endpoint) for s in ("s3", "sqs", "dynamodb"))
    create_table(table, f"{name}-state")
    for bucket in ("exchange", "results", "data"):
        s3.create_bucket(Bucket=f"{name}-{bucket}")
    for number in range(POOL):
        sqs.create_queue(QueueName=f"{name}-pool-{number:04d}")
    control = sqs.create_queue(QueueName=f"{name}-control")["QueueUrl"]
    environment = _environment(endpoint, name, control, folder)

    def tell(_: str, launch: Any) -> None:
        body = {"requestContext": {"condition": "RetriesExhausted"}, "requestPayload": launch}
        sqs.send_message(QueueUrl=control, MessageBody=json.dumps(body))

    service = Service(
        runtime=Runtime.prepare(),
        functions=_functions(environment, worker_timeout),
        folder=folder,
        on_failure=tell,
    )
    with ExitStack() as stack:
        # Set before the first function starts, and read by it.
        environment["AWS_ENDPOINT_URL_LAMBDA"] = stack.enter_context(serving(service))
        pump = Pump(sqs, control, service)
        stack.callback(pump.close)
        store = DynamoDbStateStore(table, f"{name}-state")
        yield Stand(name=name, service=service, store=store, s3=s3)


def _functions(environment: Mapping[str, str], worker_timeout: int) -> Mapping[str, Function]:
    made = [
        Function(name="api", folder="api", environment=environment, memory_mb=512),
        Function(name="coordinator", folder="coordinator", environment=environment),
        Function(name="janitor", folder="janitor", environment=environment, memory_mb=512),
    ]
    made += [
        Function(name=f"{kind}-0", folder=kind, environment=environment, timeout=worker_timeout)
        for kind in ("producer", "consumer")
    ]
    return {function.name: function for function in made}


def _environment(endpoint: str, name: str, control: str, folder: Path) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL": endpoint,
        "CROSSDOCK_TABLE": f"{name}-state",
        "CROSSDOCK_EXCHANGE_BUCKET": f"{name}-exchange",
        "CROSSDOCK_RESULT_BUCKET": f"{name}-results",
        "CROSSDOCK_CONTROL_QUEUE_URL": control,
        "CROSSDOCK_POOL_PREFIX": f"{name}-pool-",
        "CROSSDOCK_POOL_SIZE": str(POOL),
        "CROSSDOCK_QUEUE_PREFIX": f"{name}-q-",
        # Workers are alike. Which functions a query's are depends on its pace; here both get some.
        "CROSSDOCK_PRODUCER_FUNCTIONS": "producer-0,consumer-0",
        "CROSSDOCK_CONSUMER_FUNCTIONS": "consumer-0,producer-0",
        "CROSSDOCK_COORDINATOR_FUNCTION": "coordinator",
        "CROSSDOCK_CONCURRENCY": "6",
        "CROSSDOCK_QUERY_WORKERS": "3",
        "CROSSDOCK_SINGLE_TASK_BYTES": "0",
        "CROSSDOCK_BROADCAST_BYTES": "0",
        "CROSSDOCK_SCRATCH": str(folder / "scratch"),
        "POWERTOOLS_SERVICE_NAME": name,
        "POWERTOOLS_METRICS_NAMESPACE": name,
    }
