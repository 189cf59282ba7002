"""Schemathesis over the API's description: requests of its making, right ones and wrong ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from crossdock.api.openapi import document

#: What must hold of every answer. That a well-formed request is accepted is not among it: a
#: statement of random letters is well-formed.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)
#: By default 413 is no refusal.
SETTINGS = """
[checks]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 409, 410, 413, 422, 429]
"""


def conformance(
    url: str,
    folder: Path,
    *,
    query_id: str,
    examples: int,
    phases: str = "examples,coverage,fuzzing",
) -> str:
    """What the tool found, empty if nothing; ``query_id`` is one that has a result."""
    described = document()
    for operations in described["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", []):
                if parameter["name"] == "query_id":
                    parameter["example"] = query_id
    schema = folder / "openapi.json"
    schema.write_text(json.dumps(described))
    (folder / "schemathesis.toml").write_text(SETTINGS)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", str(schema), f"--url={url}"),
            f"--checks={','.join(CHECKS)}",
            f"--phases={phases}",
            f"--max-examples={examples}",
            # The same requests every time.
            *("--seed=1", "--generation-deterministic"),
            *("--continue-on-failure", "--no-color", "--warnings=off", "--max-redirects=0"),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout[-8_000:] + done.stderr[-2_000:]
