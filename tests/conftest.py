"""Fixtures for every tier: a scrubbed environment, data sets, options."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.datasets import tpcds_tiny, tpch_tenth, tpch_tiny
from tests.emulator import emulator

__all__ = ["emulator", "tpcds_tiny", "tpch_tenth", "tpch_tiny"]

#: Whatever the developer's shell says of these must not reach a test.
SCRUBBED_PREFIXES = ("CROSSDOCK_", "AWS_", "BOTO_")
SCRUBBED = ("TZ", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "PYTHONWARNINGS")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full-matrix",
        action="store_true",
        help="run sampled matrices whole (the SQL cases over every configuration: half an hour)",
    )
    parser.addoption(
        "--random-ends",
        type=int,
        default=20,
        help="queries of tests/integration/test_random_ends.py",
    )


@pytest.fixture(autouse=True, scope="session")
def scrubbed_environment() -> Iterator[None]:
    """No settings and no credentials of the outside; child processes inherit it."""
    removed = {
        name: os.environ.pop(name)
        for name in tuple(os.environ)
        if name.startswith(SCRUBBED_PREFIXES) or name in SCRUBBED
    }
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    yield
    os.environ.update(removed)
