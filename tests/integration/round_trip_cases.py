"""Reads the queries of ``tests/fixtures/round_trip.sql``."""

from __future__ import annotations

from tests.datasets import FIXTURES

SCHEMA = (FIXTURES / "round_trip_schema.sql").read_text()


def _read_cases() -> dict[str, list[str]]:
    cases: dict[str, list[str]] = {}
    topic = ""
    for line in (FIXTURES / "round_trip.sql").read_text().splitlines():
        if line.startswith("-- ["):
            topic = line.removeprefix("-- [").removesuffix("]")
            cases[topic] = []
        elif line and not line.startswith("--"):
            cases[topic].append(line)
    return cases


#: Queries by topic.
CASES = _read_cases()
