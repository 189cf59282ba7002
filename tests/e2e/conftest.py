"""Deployments for the tests of this folder, made with the CDK command line or quickly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.deploying import Deployed, deployed, quick_synth, synth
from tests.e2e.stand import Stand, make_bucket, running_stand

#: A bucket of the "user", which no deployment may write to or empty.
DATA_BUCKET = "warehouse"
#: Another, of which a deployment may read what is below ``open``.
SHARED_BUCKET = "shared"


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


#: What a deployment may read.
DATA = f"{DATA_BUCKET},{SHARED_BUCKET}/open"


@pytest.fixture(scope="session")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The app, synthesized with the command line."""
    return synth(tmp_path_factory.mktemp("synth"), data=DATA)


@pytest.fixture(scope="session")
def quick_assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same app; made without npm."""
    return quick_synth(tmp_path_factory.mktemp("quick"), data=DATA)


@pytest.fixture(scope="session")
def deployment(
    stand: Stand, assembly: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    """The app on the emulator, deployed with the command line, and the bucket ``DATA_BUCKET``."""
    make_bucket(stand, DATA_BUCKET)
    with deployed(stand, assembly, tmp_path_factory.mktemp("deploy")) as found:
        yield found
