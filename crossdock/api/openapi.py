"""The API's OpenAPI 3.1 document, made from the routes and the types of their bodies."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import msgspec

from crossdock.api.api import JSON, PROBLEM
from crossdock.api.models import Problem
from crossdock.api.routes import COMMON, ROUTES, Route

_REF = "#/components/schemas/{name}"


def document() -> dict[str, Any]:
    """The whole description, as JSON-ready values in a fixed order."""
    bodies: set[type[msgspec.Struct]] = {Problem}
    for route in ROUTES:
        bodies.update(route.answers, [route.body] if route.body else [])
    components = _schemas(sorted(bodies, key=_name))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.template, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Crossdock",
            "version": "1",
            "summary": "SQL over Parquet in S3 on AWS Lambda",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "iam": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "AWS Signature Version 4, service execute-api.",
                },
                "jwt": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            },
        },
        "security": [{"iam": []}, {"jwt": []}],
    }


def text() -> str:
    """What ``docs/openapi.json`` holds."""
    encoded = msgspec.json.encode(document())
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def _schemas(types: Iterable[type[msgspec.Struct]]) -> dict[str, Any]:
    _, components = msgspec.json.schema_components(types, schema_hook=_any, ref_template=_REF)
    return components


def _any(_: type) -> dict[str, Any]:
    """``object``."""
    return {"description": "Any JSON value."}


def _name(type: type[msgspec.Struct]) -> str:
    return type.__name__


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": route.name, "summary": route.summary}
    parameters = [*map(_path_parameter, route.parameters), *_query_parameters(route)]
    if parameters:
        operation["parameters"] = parameters
    if route.body:
        content = {JSON: {"schema": _reference(route.body)}}
        operation["requestBody"] = {"required": True, "content": content}
    operation["responses"] = _responses(route)
    return operation


def _path_parameter(name: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(route: Route) -> Iterable[dict[str, Any]]:
    _, components = msgspec.json.schema_components([route.query], ref_template=_REF)
    for name, schema in components[route.query.__name__].get("properties", {}).items():
        yield {
            "name": name,
            "in": "query",
            "required": False,
            "schema": _inlined(schema, components),
        }


def _inlined(schema: Any, components: dict[str, Any]) -> Any:
    """With references resolved and null left out: a query string has no null."""
    if isinstance(schema, list):
        return [_inlined(each, components) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(components[schema["$ref"].rsplit("/", 1)[1]], components)
    options = [each for each in schema.get("anyOf", []) if each != {"type": "null"}]
    rest = {k: _inlined(v, components) for k, v in schema.items() if k not in ("anyOf", "title")}
    if rest.get("default", "") is None:
        del rest["default"]
    return {**_inlined(options[0], components), **rest} if options else rest


def _responses(route: Route) -> dict[str, Any]:
    responses: dict[str, Any] = {str(route.status): _success(route)}
    by_status: dict[int, list[str]] = {}
    for kind in (*COMMON, *route.problems):
        by_status.setdefault(kind.status, []).append(f"`{kind.name}`: {kind.title}.")
    for status, lines in sorted(by_status.items()):
        responses[str(status)] = {
            "description": " ".join(lines),
            "content": {PROBLEM: {"schema": _reference(Problem)}},
        }
        if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
            header = {"description": "Seconds to wait.", "schema": {"type": "integer"}}
            responses[str(status)]["headers"] = {"Retry-After": header}
    return responses


def _success(route: Route) -> dict[str, Any]:
    response: dict[str, Any] = {"description": HTTPStatus(route.status).phrase}
    if route.answers:
        references = [_reference(answer) for answer in route.answers]
        schema = references[0] if len(references) == 1 else {"oneOf": references}
        response["content"] = {JSON: {"schema": schema}}
    return response


def _reference(type: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": _REF.format(name=type.__name__)}


if __name__ == "__main__":
    import sys

    sys.stdout.write(text())
