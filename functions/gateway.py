"""HTTP API events (payload 2.0) as requests, and who makes them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from crossdock.api.api import Request
from crossdock.api.ports import Caller


class Auth(StrEnum):
    """How the gateway authenticates callers."""

    IAM = "iam"  # Signature Version 4
    JWT = "jwt"  # a bearer token of one issuer


def request_of(event: Mapping[str, Any], parameters: Mapping[str, str], auth: Auth) -> Request:
    """The request of a route; ``parameters`` are those of its path."""
    body = event.get("body") or ""
    return Request(
        caller=caller_of(event, auth),
        parameters=parameters,
        query=event.get("queryStringParameters") or {},
        body=base64.b64decode(body) if event.get("isBase64Encoded") else body.encode(),
    )


def caller_of(event: Mapping[str, Any], auth: Auth) -> Caller | None:
    """The caller as the authorizer found; None without an identity of that kind.

    An IAM caller is its ARN: of an assumed role, role and session name. An unknown caller is
    nobody, never everybody.
    """
    authorizer = event.get("requestContext", {}).get("authorizer") or {}
    if auth is Auth.JWT:
        subject = (authorizer.get("jwt") or {}).get("claims", {}).get("sub")
        return Caller(str(subject)) if subject else None
    arn = (authorizer.get("iam") or {}).get("userArn")
    return Caller(str(arn)) if arn else None
