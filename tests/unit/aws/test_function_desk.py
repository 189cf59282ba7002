"""The desk as a function that is called: what its ends mean to a caller of the API."""

from __future__ import annotations

import io
import json
from typing import Any

import msgspec
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from crossdock.api.messages import (
    Done,
    DropTable,
    Explained,
    Refusal,
    TableEntry,
    TableList,
)
from crossdock.aws.api import FunctionDesk
from crossdock.aws.desk import MAX_ANSWER_BYTES, fitting
from crossdock.errors import InternalError, PlatformDenied, PlatformUnavailable


class Client:
    """One answer, whatever is asked."""

    def __init__(self, answer: Any, *, function_error: bool = False) -> None:
        self._answer = answer
        self._function_error = function_error
        self.asked: list[dict[str, Any]] = []

    def invoke(self, **request: Any) -> dict[str, Any]:
        self.asked.append(request)
        if isinstance(self._answer, Exception):
            raise self._answer
        reply: dict[str, Any] = {"Payload": io.BytesIO(self._answer)}
        if self._function_error:
            reply["FunctionError"] = "Unhandled"
        return reply


def perform(client: Client) -> Any:
    return FunctionDesk(client, "coordinator").perform(DropTable(name="t"))  # type: ignore[arg-type]


def refusal(code: str, status: int) -> ClientError:
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "Invoke")


def test_an_action_is_asked_once_and_waited_for() -> None:
    client = Client(msgspec.json.encode(Done()))
    assert perform(client) == Done()
    (request,) = client.asked
    assert request["FunctionName"] == "coordinator"
    assert "InvocationType" not in request
    assert json.loads(request["Payload"])["action"] == "drop_table"


@pytest.mark.parametrize(
    "error",
    [
        refusal("TooManyRequestsException", 429),
        refusal("ServiceException", 500),
        ReadTimeoutError(endpoint_url="https://lambda"),
    ],
)
def test_one_that_is_throttled_or_late_may_be_asked_again(error: Exception) -> None:
    with pytest.raises(PlatformUnavailable, match="coordinator"):
        perform(Client(error))


def test_one_that_may_not_be_called_is_told() -> None:
    with pytest.raises(PlatformDenied, match="coordinator"):
        perform(Client(refusal("AccessDeniedException", 403)))


@pytest.mark.parametrize(
    "payload",
    [
        b'{"errorType": "Sandbox.Timedout", "errorMessage": "Task timed out after 60.00 seconds"}',
        b'{"errorType": "Runtime.ExitError", "errorMessage": "signal: killed"}',
        b'{"errorType": "StoreUnavailable", "errorMessage": "the table does not answer"}',
        b"Task timed out after 60.00 seconds",
    ],
)
def test_one_that_died_or_ran_out_of_time_may_be_asked_again(payload: bytes) -> None:
    with pytest.raises(PlatformUnavailable, match="ask again"):
        perform(Client(payload, function_error=True))


def test_a_fault_is_told_by_its_kind_alone() -> None:
    payload = b'{"errorType": "Fault", "errorMessage": "SELECT \'a secret\'"}'
    with pytest.raises(InternalError) as raised:
        perform(Client(payload, function_error=True))
    assert "secret" not in str(raised.value)


def test_an_answer_larger_than_functions_give_is_refused_in_words() -> None:
    small = Explained(text="scan", plan={})
    assert fitting(small) is small
    table = TableEntry(name="t", sources=tuple(f"s3://bucket/{n:0900d}" for n in range(1_000)))
    answer = fitting(TableList(tables=(table,) * 7))
    assert isinstance(answer, Refusal)
    assert f"{MAX_ANSWER_BYTES:,}" in answer.message
    assert len(msgspec.json.encode(answer)) < 1_000
