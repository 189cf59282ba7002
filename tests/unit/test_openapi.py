"""The checked-in description is what the code generates, and describes what the code does."""

from __future__ import annotations

import json
from pathlib import Path

from crossdock.api import openapi
from crossdock.api.problems import KINDS
from crossdock.api.routes import COMMON, ROUTES

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"


def test_checked_in_document_is_the_generated_one() -> None:
    assert DOCUMENT.read_text() == openapi.text(), (
        "run: python -m crossdock.api.openapi > docs/openapi.json"
    )


def test_every_route_is_described() -> None:
    paths = json.loads(DOCUMENT.read_text())["paths"]
    described = {(m.upper(), p) for p, methods in paths.items() for m in methods}
    assert described == {(route.method, route.template) for route in ROUTES}


def test_every_kind_of_problem_belongs_to_a_route_or_to_all() -> None:
    named = {kind for route in ROUTES for kind in (*route.problems, *COMMON)}
    unnamed = {kind.name for kind in KINDS if kind not in named}
    assert unnamed == set()


def test_no_reference_leads_nowhere() -> None:
    document = DOCUMENT.read_text()
    schemas = json.loads(document)["components"]["schemas"]
    for part in document.split('"#/components/schemas/')[1:]:
        assert part.split('"')[0] in schemas
