"""Calls of a deployment's HTTP API: signed, retried, and told apart when refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlencode

import msgspec
import urllib3

from crossdock.api.documents import VERSION
from crossdock.api.messages import RefusalKind
from crossdock.api.models import Problem
from crossdock.api.problems import FORBIDDEN, UNAUTHENTICATED, refusal_of
from crossdock.client.credentials import Signer
from crossdock.errors import (
    CrossdockError,
    OperationalError,
    PlatformDenied,
    PlatformError,
    PlatformUnavailable,
    ProgrammingError,
    SettingError,
    SqlError,
    TableError,
)

T = TypeVar("T")

#: Answers that say: not now. Every request may be repeated: a submission carries its token.
_LATER = (429, 500, 502, 503, 504)
#: Seconds; the gateway answers within 30.
_TIMEOUT = urllib3.Timeout(connect=5.0, read=35.0)
_CHUNK = 1024 * 1024

_BY_REFUSAL: Mapping[RefusalKind, type[CrossdockError]] = {
    RefusalKind.SQL: SqlError,
    RefusalKind.PARAMETERS: SqlError,
    RefusalKind.SCAN_LIMIT: SqlError,
    RefusalKind.SETTING: SettingError,
    RefusalKind.TABLE: TableError,
    RefusalKind.UNKNOWN_TABLE: TableError,
    RefusalKind.BUSY: PlatformUnavailable,
    RefusalKind.RESULT_GONE: OperationalError,
}


class HttpApi:
    """One endpoint. Threads may share it."""

    def __init__(self, endpoint: str, signer: Signer, *, retries: int = 5) -> None:
        """Raises ``SettingError`` for an endpoint that is no HTTP address."""
        self._endpoint = endpoint.rstrip("/").removesuffix(VERSION)
        if not self._endpoint.startswith(("https://", "http://")):
            raise SettingError(f"endpoint = {endpoint!r}: must be an https:// address")
        self._signer = signer
        patience = urllib3.Retry(
            total=retries,
            allowed_methods=None,
            status_forcelist=_LATER,
            backoff_factor=0.2,
            backoff_jitter=0.2,
            raise_on_status=False,
            respect_retry_after_header=True,
        )
        self._pool = urllib3.PoolManager(
            maxsize=16, retries=patience, timeout=_TIMEOUT, headers={"Accept": "application/json"}
        )

    def call(
        self,
        method: str,
        path: str,
        type: type[T],
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
    ) -> T:
        """The document of one route; ``path`` is below the version, its parts already quoted.

        Raises the errors that local work would: ``SqlError``, ``TableError``, ``SettingError``;
        ``PlatformDenied``, ``PlatformUnavailable`` and ``PlatformError`` for the rest.
        """
        response = self._send(method, path, query or {}, body)
        if response.status >= 400:
            raise _refused(response)
        if not response.data:
            return msgspec.convert(None, type)
        try:
            return msgspec.json.decode(response.data, type=type)
        except msgspec.MsgspecError as error:
            raise PlatformError(f"{self._endpoint} is no endpoint of ours: {error}") from error

    def download(self, url: str, target: Path) -> None:
        """A presigned address's bytes into a file. Raises ``PlatformError``."""
        try:
            response = self._pool.request("GET", url, preload_content=False)
            with response, target.open("wb") as file:
                if response.status != 200:
                    raise PlatformError(f"a result file was answered with {response.status}")
                for chunk in response.stream(_CHUNK):
                    file.write(chunk)
        except urllib3.exceptions.HTTPError as error:
            raise PlatformUnavailable(f"a result file did not come: {_reason(error)}") from error

    def close(self) -> None:
        self._pool.clear()

    def _send(
        self, method: str, path: str, query: Mapping[str, object], body: object
    ) -> urllib3.BaseHTTPResponse:
        # Sorted and percent-encoded as signatures count it: a space is %20, never +.
        text = urlencode(sorted((k, str(v)) for k, v in query.items()), quote_via=quote)
        url = f"{self._endpoint}{VERSION}{path}" + (f"?{text}" if text else "")
        data = b"" if body is None else msgspec.json.encode(body)
        headers = dict(self._signer.headers(method, url, data))
        if data:
            headers["Content-Type"] = "application/json"
        try:
            return self._pool.request(method, url, body=data or None, headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise PlatformUnavailable(
                f"{self._endpoint} does not answer: {_reason(error)}"
            ) from error


def quoted(part: str) -> str:
    """One part of a path."""
    return quote(part, safe="")


class _Message(msgspec.Struct):
    """What the gateway itself says."""

    message: str = ""


def _refused(response: urllib3.BaseHTTPResponse) -> CrossdockError:
    try:
        problem = msgspec.json.decode(response.data, type=Problem)
    except msgspec.MsgspecError:
        return _gateway_refused(response)
    text = f"{problem.title}: {problem.detail}" if problem.detail else problem.title
    refusal = refusal_of(problem)
    if refusal is not None and refusal in _BY_REFUSAL:
        return _BY_REFUSAL[refusal](problem.detail or problem.title)
    if problem.status in (UNAUTHENTICATED.status, FORBIDDEN.status):
        return PlatformDenied(text)
    if problem.status == 503:
        return PlatformUnavailable(text)
    return PlatformError(text) if problem.status >= 500 else ProgrammingError(text)


def _gateway_refused(response: urllib3.BaseHTTPResponse) -> CrossdockError:
    try:
        said = msgspec.json.decode(response.data, type=_Message).message
    except msgspec.MsgspecError:
        said = ""
    text = f"the endpoint answered {response.status} {said}".rstrip()
    if response.status in (401, 403):
        return PlatformDenied(f"{text}; check the credentials, and that they may invoke the API")
    return PlatformUnavailable(text) if response.status in _LATER else PlatformError(text)


def _reason(error: Exception) -> str:
    cause = getattr(error, "reason", None)
    return str(cause or error)
