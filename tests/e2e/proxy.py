"""Signs whatever it is sent and passes it on: for programs that cannot sign."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.e2e.deploying import Deployed

#: Of an answer, what is about its content.
KEPT = ("content-type", "retry-after", "cache-control")


@contextmanager
def signing_proxy(deployment: Deployed) -> Iterator[str]:
    """URL under which the deployment's API is reached without credentials."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = deployment.request(self.command, self.path, body)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name.lower() in KEPT:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = do_PUT = do_DELETE = _pass_on
        do_PATCH = do_TRACE = do_OPTIONS = do_QUERY = _pass_on  # none of ours

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
