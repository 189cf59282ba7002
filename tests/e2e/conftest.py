"""One deployment for all tests of this folder, made with the CDK command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.deploying import Deployed, deployed
from tests.e2e.stand import Stand, running_stand

#: A bucket of the "user", which no deployment may write to or empty.
DATA_BUCKET = "warehouse"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests in one process: they share one emulator and one deployment."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("e2e"))
            item.add_marker(pytest.mark.emulator)


@pytest.fixture(scope="session")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    with running_stand(tmp_path_factory.mktemp("stand")) as found:
        yield found


@pytest.fixture(scope="session")
def deployment(stand: Stand, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """The app on the emulator; it may read the bucket ``DATA_BUCKET``, which is there."""
    stand.session().client("s3").create_bucket(Bucket=DATA_BUCKET)
    with deployed(stand, tmp_path_factory.mktemp("deploy"), data=DATA_BUCKET) as found:
        yield found
