"""The API's handler behind a real socket, with gateway events (payload 2.0) between."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qsl, unquote, urlsplit

os.environ.setdefault("POWERTOOLS_METRICS_DISABLED", "true")

CONTEXT = SimpleNamespace(
    function_name="api",
    function_version="1",
    memory_limit_in_mb=512,
    invoked_function_arn="arn:aws:lambda:us-east-1:000000000000:function:api",
    aws_request_id="00000000-0000-0000-0000-000000000000",
    get_remaining_time_in_millis=lambda: 60_000,
)
#: Looks at each request and may answer it instead: (status, body), or None.
Interposer = Callable[[str, str], tuple[int, bytes] | None]


def event(
    method: str,
    path: str,
    *,
    query: dict[str, str] | None = None,
    body: str | bytes | None = None,
    arn: str | None = "alice",
) -> dict[str, Any]:
    """What API Gateway hands to a function; bytes that are no text come in base 64."""
    authorizer = {"iam": {"userArn": arn}} if arn else {}
    text, encoded = _text(body)
    return {
        "version": "2.0",
        "routeKey": f"ANY {path}",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json"},
        "queryStringParameters": query,
        "requestContext": {
            "http": {"method": method, "path": path, "sourceIp": "127.0.0.1"},
            "stage": "$default",
            "requestId": "r",
            "authorizer": authorizer,
        },
        "body": text,
        "isBase64Encoded": encoded,
    }


def _query(text: str) -> dict[str, str]:
    """A parameter that is given twice has both values, with a comma between."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def _text(body: str | bytes | None) -> tuple[str | None, bool]:
    if not isinstance(body, bytes):
        return body, False
    try:
        return body.decode(), False
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), True


class Server:
    """Serves one API, and objects of a folder as presigned addresses would."""

    def __init__(self, objects: Path) -> None:
        self.requests: list[tuple[str, str]] = []
        self.interpose: Interposer = lambda method, path: None
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                url = urlsplit(self.path)
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                server.requests.append((self.command, self.path))
                if url.path.startswith("/objects/"):
                    data = objects.joinpath(*url.path.split("/")[2:]).read_bytes()
                    self._answer(200, data, {})
                    return
                interposed = server.interpose(self.command, self.path)
                answer = server.handle(
                    event(
                        self.command,
                        unquote(url.path),
                        query=_query(url.query) or None,
                        body=body or None,
                        arn=self.headers.get("X-Caller", "alice"),
                    )
                )
                if interposed is not None:
                    self._answer(interposed[0], interposed[1], {})
                    return
                self._answer(answer["statusCode"], answer["body"].encode(), answer["headers"])

            do_GET = do_POST = do_PUT = do_DELETE = _serve
            do_PATCH = do_TRACE = do_OPTIONS = do_QUERY = _serve  # none of ours

            def _answer(self, status: int, data: bytes, headers: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Quiet."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    def handle(self, given: dict[str, Any]) -> dict[str, Any]:
        from functions.api import handler

        # A function serves one request at a time, and Powertools' resolver counts on that.
        with self._lock:
            answer: dict[str, Any] = handler.lambda_handler(given, CONTEXT)
        return answer

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@contextmanager
def served(api: Any, objects: Path, server: Server) -> Iterator[Server]:
    """``api`` behind ``server``."""
    from functions import wiring

    with patch.object(wiring, "api", lambda: api), patch.object(wiring, "rules", wiring.Rules):
        yield server
