"""Deployment settings: texts of the command line, JSON of cdk.json, and every refusal."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from infra.settings import NAMES, Architecture, Auth, Settings, SettingsError

PAGE = Path(__file__).resolve().parents[3] / "docs" / "operations.md"


def of(**given: Any) -> Settings:
    return Settings.from_context({f"crossdock:{name}": value for name, value in given.items()})


def test_nothing_given_is_a_deployment_that_needs_a_signature() -> None:
    assert Settings.from_context({"@aws-cdk/some:flag": True}) == Settings()
    assert Settings().auth is Auth.IAM


def test_texts_of_the_command_line_are_read() -> None:
    settings = of(
        architecture="X86_64", concurrency="2_000", tracing="no", data="lake, warehouse/sales"
    )
    assert settings.architecture is Architecture.X86_64
    assert (settings.concurrency, settings.tracing) == (2000, False)
    assert settings.data == ("lake", "warehouse/sales")


def test_types_of_json_are_read() -> None:
    settings = of(concurrency=200, dashboard=False, data=["lake"])
    assert (settings.concurrency, settings.dashboard, settings.data) == (200, False, ("lake",))


def test_layers_follow_the_architecture() -> None:
    assert of(architecture="x86_64").layer_folder == "build/layers/x86_64"
    assert of(layers="elsewhere").layer_folder == "elsewhere"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"memory": 1}, "crossdock:memory is no setting"),
        ({"concurency": 5}, "did you mean 'concurrency'?"),
        ({"concurrency": "many"}, "concurrency must be a whole number, not 'many'"),
        ({"concurrency": True}, "concurrency must be a whole number, not True"),
        ({"concurrency": 0}, "concurrency must be 1 to 10,000, not 0"),
        ({"producer_memory_mb": 10_241}, "producer_memory_mb must be 512 to 10,240, not 10,241"),
        ({"worker_timeout_seconds": 901}, "worker_timeout_seconds must be 60 to 900, not 901"),
        ({"tracing": "maybe"}, "tracing must be true or false, not 'maybe'"),
        ({"architecture": "sparc"}, "architecture must be one of arm64, x86_64, not 'sparc'"),
        ({"architecture": 64}, "architecture must be a text, not 64"),
        ({"data": 5}, "data must be a list of texts, not 5"),
        ({"data": "s3://lake"}, "data must name a bucket or bucket/prefix without s3://"),
        ({"data": "*"}, "data must name a bucket or bucket/prefix without s3:// and wildcards"),
        ({"data": "lake/2*"}, "not 'lake/2*'"),
        ({"data_key_arns": "alias/key"}, "data_key_arns must be ARNs of keys, not 'alias/key'"),
        ({"name": "Crossdock"}, "name must be 3 to 24 lower-case letters and digits"),
        ({"name": "my-dock"}, "name must be 3 to 24 lower-case letters and digits"),
        ({"query_workers": 200}, "query_workers (200) is more than concurrency (100)"),
        ({"concurrency": 64, "worker_copies": 20, "query_workers": 65}, "more than concurrency"),
        ({"concurrency": 2, "query_workers": 2, "worker_copies": 3}, "a copy would have no worker"),
        ({"log_days": 31}, "log_days must be one of 1, 3, 5"),
        ({"auth": "none"}, "auth must be one of iam, jwt, not 'none'"),
        ({"auth": ""}, "auth must be one of iam, jwt, not ''"),
        ({"auth": "jwt"}, "auth=jwt needs jwt_issuer and jwt_audience"),
        ({"auth": "jwt", "jwt_issuer": "https://a"}, "auth=jwt needs jwt_issuer and jwt_audience"),
        (
            {"auth": "jwt", "jwt_issuer": "http://a", "jwt_audience": "b"},
            "jwt_issuer must be an https:// URL",
        ),
        ({"jwt_issuer": "https://a"}, "have no effect with auth=iam"),
        ({"cors_origins": "*"}, "cors_origins must name origins"),
    ],
)
def test_what_is_refused_and_why(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(reason)):
        of(**given)


def test_every_reason_is_told_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        Settings(concurrency=0, log_days=2, name="x")
    reasons = str(caught.value).split("; ")
    assert {reason.split()[0] for reason in reasons} >= {"concurrency", "log_days", "name"}


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_stands_in_operations(name: str) -> None:
    assert re.search(rf"^\| `{name}` \| .+ \| .+ \|$", PAGE.read_text(), re.MULTILINE)
