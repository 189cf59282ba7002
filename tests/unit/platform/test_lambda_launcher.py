"""Launches as asynchronous invocations, and what an answer means."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from crossdock.errors import PlatformDenied, PlatformError
from crossdock.platform.aws.clients import invoke_config
from crossdock.platform.aws.launcher import LambdaLauncher
from crossdock.platform.ports import Launch

FUNCTIONS = {"producer": ["p0", "p1"], "consumer": ["c0"]}


class Client:
    """Answers by worker id: an exception, or success."""

    def __init__(self, **answers: Exception) -> None:
        self.answers = answers
        self.calls: list[dict[str, Any]] = []

    def invoke(self, **request: Any) -> dict[str, int]:
        self.calls.append(request)
        worker = json.loads(request["Payload"])["worker_id"]
        if worker in self.answers:
            raise self.answers[worker]
        return {"StatusCode": 202}


def refusal(code: str, status: int) -> ClientError:
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "Invoke")


def launches(count: int, worker_class: str = "producer") -> list[Launch]:
    return [
        Launch(query_id="q", worker_id=f"w{number}", worker_class=worker_class)
        for number in range(count)
    ]


def test_a_class_s_functions_take_turns() -> None:
    client = Client()
    launcher = LambdaLauncher(client, FUNCTIONS)  # type: ignore[arg-type]
    for launch in launches(10):
        launcher.launch([launch])
    assert Counter(call["FunctionName"] for call in client.calls) == {"p0": 5, "p1": 5}
    launcher.launch(launches(2, "consumer"))
    assert [call["FunctionName"] for call in client.calls[10:]] == ["c0", "c0"]


def test_nobody_waits_for_an_invocation_and_its_payload_is_small() -> None:
    client = Client()
    LambdaLauncher(client, FUNCTIONS).launch(launches(1))  # type: ignore[arg-type]
    (call,) = client.calls
    assert call["InvocationType"] == "Event"
    assert len(call["Payload"]) < 200


@pytest.mark.parametrize(
    "error",
    [
        refusal("TooManyRequestsException", 429),
        refusal("ServiceException", 500),
        refusal("EC2ThrottledException", 502),
        ReadTimeoutError(endpoint_url="https://lambda"),
    ],
)
def test_what_is_throttled_or_not_answered_is_not_accepted(error: Exception) -> None:
    client = Client(w1=error)
    accepted = LambdaLauncher(client, FUNCTIONS).launch(launches(3))  # type: ignore[arg-type]
    assert [launch.worker_id for launch in accepted] == ["w0", "w2"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (refusal("AccessDeniedException", 403), PlatformDenied),
        (refusal("ResourceNotFoundException", 404), PlatformError),
    ],
)
def test_what_waiting_cannot_mend_is_raised(error: Exception, kind: type[Exception]) -> None:
    client = Client(w0=error)
    with pytest.raises(kind, match=r"function p\d"):
        LambdaLauncher(client, FUNCTIONS).launch(launches(1))  # type: ignore[arg-type]


def test_an_invocation_is_asked_for_once_and_waited_for_longer_than_it_may_take() -> None:
    config: Any = invoke_config()
    assert config.retries["total_max_attempts"] == 1
    assert config.read_timeout > 60
