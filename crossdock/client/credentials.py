"""How requests to an endpoint prove who sends them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import urlsplit

from crossdock.errors import SettingError

#: The environment's bearer token.
TOKEN_VARIABLE = "CROSSDOCK_TOKEN"
#: What ``connect`` takes: "iam", "none", "Bearer <token>", or a function that gives a fresh token.
Auth = str | Callable[[], str]
_REGION = re.compile(r"\.execute-api\.([a-z0-9-]+)\.")


class Signer(Protocol):
    """Adds what a request needs to be let in."""

    def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Headers for this one request. Raises ``SettingError`` without credentials."""
        ...


def signer(auth: Auth | None, environment: Mapping[str, str]) -> Signer:
    """The signer of ``auth``; None: a bearer token if the environment has one, else IAM.

    Raises ``SettingError`` for anything else.
    """
    if auth is None:
        token = environment.get(TOKEN_VARIABLE)
        return Bearer(lambda: token) if token else Signature()
    if callable(auth):
        return Bearer(auth)
    if auth == "iam":
        return Signature()
    if auth == "none":
        return Unsigned()
    if auth.startswith("Bearer "):
        return Bearer(lambda: auth.removeprefix("Bearer "))
    raise SettingError("auth: must be 'iam', 'none', 'Bearer <token>' or a function of no argument")


class Unsigned:
    """For an endpoint that asks nobody, such as an emulator's."""

    def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        return {}


class Bearer:
    """A token of the deployment's issuer, asked for with every request: tokens expire."""

    def __init__(self, token: Callable[[], str]) -> None:
        self._token = token

    def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self._token()}"}


class Signature:
    """Signature Version 4 with credentials and region as the SDK finds them."""

    def __init__(self) -> None:
        import botocore.session

        self._session = botocore.session.get_session()

    def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        credentials = self._session.get_credentials()
        if credentials is None:
            raise SettingError(
                "no AWS credentials were found to sign with; configure them, or pass auth="
            )
        request = AWSRequest(method=method, url=url, data=body, headers={"host": _host(url)})
        frozen = credentials.get_frozen_credentials()
        SigV4Auth(frozen, "execute-api", self._region(url)).add_auth(request)
        return dict(request.headers.items())

    def _region(self, url: str) -> str:
        named = _REGION.search(url)
        if named:
            return named[1]
        return str(self._session.get_config_variable("region") or "us-east-1")


def _host(url: str) -> str:
    return urlsplit(url).netloc
