"""A deployment without Lambda: handlers run in this process, over an emulator's services."""

from __future__ import annotations

import io
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import boto3

from coordinator_state.dynamodb import create_table
from crossdock.platform.aws import clients
from tests import api_server

REGION = "us-east-1"
KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": REGION}
#: Seconds of a function's life.
LIFE = 120.0


def context(name: str, life: float = LIFE) -> Any:
    ends = time.monotonic() + life
    return SimpleNamespace(
        **{
            **vars(api_server.CONTEXT),
            "function_name": name,
            "get_remaining_time_in_millis": lambda: int(1000 * (ends - time.monotonic())),
        }
    )


class Functions:
    """Stands in for the Lambda client: invocations run in threads of this process."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(32, thread_name_prefix="function")
        self._lock = threading.Lock()
        self.invocations: list[str] = []
        self.failures: list[Exception] = []

    def invoke(self, **call: Any) -> dict[str, Any]:
        name, event = call["FunctionName"], json.loads(call["Payload"])
        self.invocations.append(name)
        if call.get("InvocationType") == "Event":
            self._threads.submit(self._run_event, name, event)
            return {"StatusCode": 202}
        try:
            return {"Payload": io.BytesIO(json.dumps(self._run(name, event)).encode())}
        except Exception as error:  # noqa: BLE001 - what Lambda does with it
            payload = json.dumps({"errorType": type(error).__name__, "errorMessage": str(error)})
            return {"FunctionError": "Unhandled", "Payload": io.BytesIO(payload.encode())}

    def _run_event(self, name: str, event: Any) -> None:
        try:
            self._run(name, event)
        except Exception as error:  # noqa: BLE001 - asserted on by tests
            self.failures.append(error)

    def _run(self, name: str, event: Any) -> Any:
        from functions.consumer import handler as consumer
        from functions.coordinator import handler as coordinator
        from functions.producer import handler as producer

        handlers = {"coordinator": coordinator, "producer": producer, "consumer": consumer}
        # Below the decorators: Powertools' logger and metrics belong to one invocation at a time.
        handler = handlers[name.split("-")[0]].lambda_handler
        while hasattr(handler, "__wrapped__"):
            handler = handler.__wrapped__
        return handler(event, context(name))

    def close(self) -> None:
        self._threads.shutdown(wait=True)


class Pump:
    """Carries control messages to the coordinator's handler, as an event source does."""

    def __init__(self, sqs: Any, url: str, functions: Functions) -> None:
        self._sqs, self._url, self._functions = sqs, url, functions
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(3)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            got = self._sqs.receive_message(
                QueueUrl=self._url, MaxNumberOfMessages=10, WaitTimeSeconds=1
            )
            messages = got.get("Messages", [])
            if not messages:
                continue
            records = [{"messageId": m["MessageId"], "body": m["Body"]} for m in messages]
            answer = self._functions._run("coordinator", {"Records": records})
            failed = {one["itemIdentifier"] for one in answer["batchItemFailures"]}
            for message in messages:
                if message["MessageId"] not in failed:
                    self._sqs.delete_message(
                        QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"]
                    )

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def _fresh_folder(scratch: Path) -> Path:
    scratch.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=scratch))


@contextmanager
def in_process_deployment(endpoint: str, folder: Path, name: str) -> Iterator[SimpleNamespace]:
    """Table, buckets, queues on the emulator; handlers here. Gives the API's event handler."""
    session = boto3.Session(**KEYS)
    s3, sqs, table = (session.client(s, endpoint_url=endpoint) for s in ("s3", "sqs", "dynamodb"))
    create_table(table, f"{name}-state")
    for bucket in ("exchange", "results", "data"):
        s3.create_bucket(Bucket=f"{name}-{bucket}")
    for number in range(4):
        sqs.create_queue(QueueName=f"{name}-pool-{number:04d}")
    control = sqs.create_queue(QueueName=f"{name}-control")["QueueUrl"]
    environment = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769",
        "CROSSDOCK_TABLE": f"{name}-state",
        "CROSSDOCK_EXCHANGE_BUCKET": f"{name}-exchange",
        "CROSSDOCK_RESULT_BUCKET": f"{name}-results",
        "CROSSDOCK_CONTROL_QUEUE_URL": control,
        "CROSSDOCK_POOL_PREFIX": f"{name}-pool-",
        "CROSSDOCK_POOL_SIZE": "4",
        "CROSSDOCK_QUEUE_PREFIX": f"{name}-q-",
        "CROSSDOCK_PRODUCER_FUNCTIONS": "producer-0",
        "CROSSDOCK_CONSUMER_FUNCTIONS": "consumer-0",
        "CROSSDOCK_COORDINATOR_FUNCTION": "coordinator",
        "CROSSDOCK_CONCURRENCY": "8",
        "CROSSDOCK_QUERY_WORKERS": "4",
        "CROSSDOCK_SINGLE_TASK_BYTES": "0",
        "CROSSDOCK_BROADCAST_BYTES": "0",
        "CROSSDOCK_SCRATCH": str(folder / "scratch"),
        "POWERTOOLS_METRICS_DISABLED": "true",
    }
    functions = Functions()
    real = clients.make_clients

    def make_clients(**options: Any) -> clients.Clients:
        made = real(**options)
        return clients.Clients(
            dynamodb=made.dynamodb, s3=made.s3, sqs=made.sqs, functions=functions
        )

    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, environment))
        stack.enter_context(patch("crossdock.aws.make_clients", make_clients))
        from crossdock.aws import workers

        # Real functions are processes of their own, and so are their scratch folders.
        stack.enter_context(patch.object(workers, "_own_scratch", _fresh_folder))
        from functions import wiring

        stack.enter_context(patch.object(wiring, "make_clients", make_clients))
        stack.callback(functions.close)
        pump = Pump(sqs, control, functions)
        stack.callback(pump.close)
        yield SimpleNamespace(
            name=name, s3=s3, sqs=sqs, functions=functions, wiring=wiring, environment=environment
        )
