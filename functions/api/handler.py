"""The HTTP API's function: gateway events in, answers of ``crossdock.api`` out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.metrics import MetricUnit

from crossdock.api import problems
from crossdock.api.api import Response as Answer
from crossdock.api.api import refused
from crossdock.api.problems import ApiError
from crossdock.api.routes import ROUTES, Route
from functions import wiring
from functions.gateway import request_of
from functions.observability import log_fault, logger, metrics, observed

app = APIGatewayHttpResolver()


def _serve(route: Route) -> Callable[..., Response[str]]:
    def serve(**parameters: str) -> Response[str]:
        logger.append_keys(route=route.name, **parameters)
        request = request_of(app.current_event.raw_event, parameters, wiring.rules().auth)
        return _respond(wiring.api().answer(route, request))

    return serve


def _unknown(_: Exception) -> Response[str]:
    return _respond(refused(ApiError(problems.UNKNOWN_ROUTE, "docs/openapi.json lists them")))


def _fault(error: Exception) -> Response[str]:
    log_fault(error)
    return _respond(refused(ApiError(problems.INTERNAL, "the function's log says where")))


def _respond(answer: Answer) -> Response[str]:
    metrics.add_metric(f"Answers{answer.status // 100}xx", MetricUnit.Count, 1)
    headers = {"Cache-Control": "no-store", **answer.headers}
    return Response(answer.status, answer.content_type, answer.body.decode(), headers)


for _route in ROUTES:
    _rule = _route.template.replace("{", "<").replace("}", ">")
    app.route(_rule, method=_route.method)(_serve(_route))
app.not_found(_unknown)
app.exception_handler(Exception)(_fault)
wiring.prepare(wiring.rules, wiring.api)


@observed
def lambda_handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """An HTTP API event (payload 2.0)."""
    return app.resolve(event, context)
