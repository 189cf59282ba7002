"""The trial in a real account: wants to be told where, and leaves nothing, also when it fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from tests.e2e.account import PREFIX, SETTINGS, VARIABLES, Place, Trial
from tests.e2e.deploying import SMALL, CommandLine, build
from tests.e2e.stand import ACCOUNT, REGION, Stand, make_bucket, running_stand
from tests.e2e.test_deployment import everything

BUCKET = "mine"
PLACE = Place(account=ACCOUNT, region=REGION, bucket=BUCKET)


def test_it_names_the_variables_it_wants() -> None:
    with pytest.raises(click.UsageError) as refused:
        Place.of({"CROSSDOCK_IT_REGION": "eu-west-1"})
    assert "costs money" in refused.value.message
    for name in VARIABLES:
        assert (name in refused.value.message) is (name != "CROSSDOCK_IT_REGION")
    with pytest.raises(click.UsageError, match="12 digits"):
        Place.of(dict.fromkeys(VARIABLES, "x"))
    given = dict(zip(VARIABLES, (ACCOUNT, REGION, BUCKET), strict=True))
    assert Place.of(given) == PLACE


@pytest.fixture(scope="module")
def empty_stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    with running_stand(tmp_path_factory.mktemp("account")) as stand:
        make_bucket(stand, BUCKET)
        yield stand


def trial(stand: Stand, folder: Path, place: Place = PLACE) -> Trial:
    return Trial(
        place=place,
        session=stand.session(),
        cdk=CommandLine.installed(stand, folder, folder / "cdk.out"),
        endpoint_of=lambda outputs: f"{stand.url}/_aws/execute-api/{outputs['ApiId']}",
        say=lambda text: None,
    )


@pytest.mark.deployment
def test_another_account_than_the_named_one_is_left_alone(
    empty_stand: Stand, tmp_path: Path
) -> None:
    other = Place(account="999999999999", region=REGION, bucket=BUCKET)
    with pytest.raises(click.ClickException, match="nothing was made"):
        trial(empty_stand, tmp_path, other).run([])
    assert everything(empty_stand) == {"buckets": [BUCKET]}


@pytest.mark.deployment
def test_nothing_is_left_of_a_trial_that_fails(
    empty_stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in empty_stand.environment.items():
        monkeypatch.setenv(name, value)
    tried = trial(empty_stand, tmp_path)
    build()
    tried.cdk.synth({**SMALL, **SETTINGS, "data": f"{BUCKET}/{PREFIX}"})
    tried.cdk.bootstrap()
    with pytest.raises(AssertionError):
        # As DuckDB, so far; but it has no shuffle, which is an error of the comparison.
        tried.run([("none", "SELECT 42 AS answer")])
    assert everything(empty_stand) == {"buckets": [BUCKET]}
    s3: Any = empty_stand.session().client("s3")
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0
