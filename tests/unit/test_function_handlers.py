"""Handlers without any AWS: shapes of events and answers, who is let in, what faults tell."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from crossdock.api.api import Request, Response
from crossdock.api.messages import Done, Refusal, RefusalKind
from crossdock.api.ports import Caller, Others
from crossdock.api.routes import Route
from crossdock.aws.control import ControlDesk
from crossdock.coordinator import TurnResult
from crossdock.errors import PlatformUnavailable, SettingError
from crossdock.platform.clock import SystemClock
from functions import gateway, wiring
from functions.api import handler as api
from functions.coordinator import handler as coordinator
from functions.janitor import handler as janitor
from functions.observability import Fault
from tests.api_server import CONTEXT, event

ROOT = Path(__file__).resolve().parents[2]
SECRET = "SELECT 'the secret literal'"


RULES = wiring.Rules()


class EchoApi:
    """Answers with what it was asked, or raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[tuple[str, Request]] = []

    def answer(self, route: Route, request: Request) -> Response:
        self.asked.append((route.name, request))
        if self.error is not None:
            raise self.error
        if route.status == 204:
            return Response(status=204)
        return Response(status=route.status, body=b'{"ok":true}', headers={"Retry-After": "3"})


def call(echo: EchoApi, given: dict[str, Any], rules: wiring.Rules = RULES) -> Any:
    with (
        patch.object(wiring, "api", lambda: echo),
        patch.object(wiring, "rules", lambda: rules),
    ):
        return api.lambda_handler(given, CONTEXT)


# -- the API -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "route", "parameters"),
    [
        ("POST", "/v1/queries", "submit", {}),
        ("GET", "/v1/queries", "list", {}),
        ("GET", "/v1/queries/01-a", "get", {"query_id": "01-a"}),
        ("DELETE", "/v1/queries/01-a", "cancel", {"query_id": "01-a"}),
        ("GET", "/v1/queries/01-a/results", "results", {"query_id": "01-a"}),
        ("POST", "/v1/explain", "explain", {}),
        ("GET", "/v1/tables", "tables", {}),
        ("GET", "/v1/tables/line-item", "table", {"name": "line-item"}),
        ("PUT", "/v1/tables/t", "put_table", {"name": "t"}),
        ("DELETE", "/v1/tables/t", "drop_table", {"name": "t"}),
    ],
)
def test_every_address_reaches_its_route(
    method: str, path: str, route: str, parameters: dict[str, str]
) -> None:
    echo = EchoApi()
    answer = call(echo, event(method, path, query={"wait": "1"}, body='{"a":1}'))
    name, request = echo.asked[0]
    assert (name, request.parameters) == (route, parameters)
    assert (request.query, request.body) == ({"wait": "1"}, b'{"a":1}')
    assert answer["statusCode"] == {"submit": 202, "drop_table": 204}.get(route, 200)
    assert answer["headers"]["Cache-Control"] == "no-store"


def test_headers_of_an_answer_reach_the_gateway() -> None:
    answer = call(EchoApi(), event("GET", "/v1/queries"))
    assert answer["headers"]["Retry-After"] == "3"
    assert answer["headers"]["Content-Type"] == "application/json"
    assert json.loads(answer["body"]) == {"ok": True}


def test_binary_body_is_decoded() -> None:
    echo = EchoApi()
    given = event("POST", "/v1/queries", body=base64.b64encode(b"\xff{}").decode())
    call(echo, {**given, "isBase64Encoded": True})
    assert echo.asked[0][1].body == b"\xff{}"


@pytest.mark.parametrize(("method", "path"), [("GET", "/v2/queries"), ("PATCH", "/v1/queries")])
def test_unknown_address_is_a_problem(method: str, path: str) -> None:
    answer = call(EchoApi(), event(method, path))
    assert answer["statusCode"] == 404
    assert answer["headers"]["Content-Type"] == "application/problem+json"
    assert json.loads(answer["body"])["type"] == "urn:crossdock:problem:unknown-route"


def test_fault_is_500_and_quotes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    answer = call(EchoApi(ValueError(SECRET)), event("GET", "/v1/queries"))
    assert answer["statusCode"] == 500
    assert "secret" not in answer["body"]
    assert [record.__dict__["error"] for record in caplog.records] == ["ValueError"]
    assert "secret" not in repr([vars(record) for record in caplog.records])


# -- who calls ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("authorizer", "auth", "owner"),
    [
        ({"iam": {"userArn": "arn:aws:iam::1:user/a"}}, gateway.Auth.IAM, "arn:aws:iam::1:user/a"),
        ({"jwt": {"claims": {"sub": "u1"}}}, gateway.Auth.JWT, "u1"),
        ({"jwt": {"claims": {"sub": "u1"}}}, gateway.Auth.IAM, None),
        ({"iam": {"userArn": "a"}}, gateway.Auth.JWT, None),
        ({"iam": {"userArn": None}}, gateway.Auth.IAM, None),
        ({"jwt": {"claims": {}}}, gateway.Auth.JWT, None),
        (None, gateway.Auth.IAM, None),
        ({}, gateway.Auth.JWT, None),
    ],
)
def test_only_the_deployments_kind_of_identity_counts(
    authorizer: Any, auth: gateway.Auth, owner: str | None
) -> None:
    given = {"requestContext": {"authorizer": authorizer}}
    assert gateway.caller_of(given, auth) == (Caller(owner) if owner else None)


def test_rules_are_read_from_the_environment() -> None:
    rules = wiring.Rules.of({"CROSSDOCK_AUTH": "jwt", "CROSSDOCK_OTHER_OWNERS": "shared"})
    assert (rules.auth, rules.others) == (gateway.Auth.JWT, Others.SHARED)
    assert wiring.Rules.of({}) == wiring.Rules(auth=gateway.Auth.IAM, others=Others.HIDDEN)
    with pytest.raises(SettingError, match="CROSSDOCK_AUTH"):
        wiring.Rules.of({"CROSSDOCK_AUTH": "open"})


# -- the coordinator ---------------------------------------------------------------------------


class Turns:
    """A coordinator that fails for some queries."""

    def __init__(self, *bad: str) -> None:
        self.bad = bad
        self.turns: list[str] = []

    def is_late(self, until: float) -> bool:
        return time.time() >= until

    def on_tick(self, query_id: str, number: int, *, until: float) -> TurnResult | None:
        return self.on_knock(query_id, until=until)

    def on_knock(self, query_id: str, *, until: float) -> TurnResult:
        self.turns.append(query_id)
        if query_id in self.bad:
            raise PlatformUnavailable("not now")
        return TurnResult(query=None)


def messages(*bodies: str) -> dict[str, Any]:
    return {"Records": [{"messageId": str(n), "body": body} for n, body in enumerate(bodies)]}


def handled(turns: Turns, given: dict[str, Any]) -> Any:
    desk = ControlDesk(turns)  # type: ignore[arg-type]
    parts = SimpleNamespace(desk=desk, clock=SystemClock())
    with patch.object(wiring, "deployment", lambda: parts):
        return coordinator.lambda_handler(given, CONTEXT)


@pytest.mark.parametrize(
    ("bodies", "bad", "failed"),
    [
        (['{"query":"a"}', '{"query":"b","tick":1}'], [], []),
        (['{"query":"a"}', '{"query":"b"}'], ["b"], ["1"]),
        (['{"query":"a"}', '{"query":"a"}'], ["a"], ["0", "1"]),
        (["not JSON", '{"query":"a"}'], [], ["0"]),
        (['{"query":"unknown"}'], [], []),
        (["{}"], [], ["0"]),
        ([], [], []),
    ],
)
def test_batch_answer_names_exactly_the_failed_messages(
    bodies: list[str], bad: list[str], failed: list[str]
) -> None:
    answer = handled(Turns(*bad), messages(*bodies))
    assert answer == {"batchItemFailures": [{"itemIdentifier": one} for one in failed]}
    json.dumps(answer)


def test_messages_of_one_query_are_one_turn() -> None:
    turns = Turns()
    handled(turns, messages(*['{"query":"a"}'] * 5, '{"query":"b"}'))
    assert sorted(turns.turns) == ["a", "b"]


def test_action_and_answer_cross_as_plain_json() -> None:
    desk = SimpleNamespace(perform=lambda action: Done())
    with patch.object(wiring, "desk", lambda: desk):
        assert coordinator.lambda_handler({"action": "drop_table", "name": "t"}, CONTEXT) == {
            "answer": "done"
        }


def test_refusal_is_an_answer() -> None:
    refusal = Refusal(kind=RefusalKind.BUSY, message="later", retry_after=5.0)
    with patch.object(wiring, "desk", lambda: SimpleNamespace(perform=lambda action: refusal)):
        answer = coordinator.lambda_handler({"action": "tables"}, CONTEXT)
    assert (answer["answer"], answer["kind"]) == ("refusal", "busy")


def test_fault_leaves_a_handler_by_its_kind_alone(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> None:
        raise ValueError(SECRET)

    with (
        patch.object(wiring, "desk", lambda: SimpleNamespace(perform=fail)),
        pytest.raises(Fault, match=r"^ValueError$"),
    ):
        coordinator.lambda_handler({"action": "tables"}, CONTEXT)
    assert "secret" not in repr([vars(record) for record in caplog.records])


def test_unknown_action_is_a_fault_not_a_success() -> None:
    with pytest.raises(Fault, match="ValidationError"):
        coordinator.lambda_handler({"action": "format_disk"}, CONTEXT)


# -- all ---------------------------------------------------------------------------------------


def test_handlers_are_thin() -> None:
    handlers = sorted((ROOT / "functions").glob("*/handler.py"))
    assert len(handlers) == 5
    for path in handlers:
        assert len(path.read_text().splitlines()) <= 60, path


@pytest.mark.parametrize("name", ["api", "janitor"])
def test_light_handlers_import_no_engine(name: str) -> None:
    heavy = (
        "duckdb",
        "pyarrow",
        "pydantic",
        "numpy",
        "aws_xray_sdk",
        "nanoarrow",
    )
    program = (
        f"import sys, functions.{name}.handler; "
        f"print([each for each in {heavy!r} if each in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["api", "coordinator", "producer", "consumer", "janitor"])
def test_clients_are_made_while_the_environment_starts(name: str, tmp_path: Path) -> None:
    program = (
        f"import functions.{name}.handler, functions.wiring as w; "
        "print(w._api.cache_info().currsize + w._deployment.cache_info().currsize)"
    )
    environment = {
        "AWS_LAMBDA_FUNCTION_NAME": name,
        "AWS_DEFAULT_REGION": "us-east-1",
        "CROSSDOCK_TABLE": "t",
        "CROSSDOCK_EXCHANGE_BUCKET": "e",
        "CROSSDOCK_RESULT_BUCKET": "r",
        "CROSSDOCK_CONTROL_QUEUE_URL": "https://sqs/control",
        "CROSSDOCK_PRODUCER_FUNCTIONS": "p",
        "CROSSDOCK_SCRATCH": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.stdout.strip() == "1"


def test_janitor_answers_with_what_it_did() -> None:
    from crossdock.aws.janitor import Round

    done = Round(revived=1, purged=0, drafts=0, forgotten=2, removed=3, uploads=0)
    parts = SimpleNamespace(janitor=SimpleNamespace(run=lambda: done))
    with patch.object(wiring, "deployment", lambda: parts):
        answer = janitor.lambda_handler({"source": "aws.events"}, CONTEXT)
    assert (answer["revived"], answer["forgotten"], answer["removed"]) == (1, 2, 3)
