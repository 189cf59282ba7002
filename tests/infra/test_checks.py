"""cdk-nag and cfn-lint over the synthesized templates; synth needs nothing from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.infra.conftest import ROOT, USUAL, Assembly

pytestmark = pytest.mark.xdist_group("infra")

SCRIPTS = Path(sysconfig.get_path("scripts"))
#: W3005: CDK writes dependencies that a reference already implies.
IGNORED = "W3005"


def test_every_finding_of_cdk_nag_is_accepted_with_a_reason(
    assembly: Assembly, variant: Assembly
) -> None:
    for each in (assembly, variant):
        report = json.loads((each.folder / "validation-report.json").read_text())
        packs = {plugin["pluginName"] for plugin in report["pluginReports"]}
        assert {"AwsSolutions", "Serverless"} <= packs
        assert [plugin["violations"] for plugin in report["pluginReports"]].count([]) == len(
            report["pluginReports"]
        )


def test_a_finding_that_nobody_accepted_stops_synth(tmp_path: Path) -> None:
    import aws_cdk as cdk
    from aws_cdk import aws_sqs as sqs

    from infra.checks import add_checks

    app = cdk.App(outdir=str(tmp_path), analytics_reporting=False)
    sqs.Queue(cdk.Stack(app, "Careless"), "Open")
    add_checks(app)
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()


@pytest.mark.parametrize("which", ["assembly", "variant"])
def test_cfn_lint_finds_nothing(which: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(which).folder
    templates = sorted(map(str, folder.glob("*.template.json")))
    assert len(templates) == 4
    result = subprocess.run(
        [SCRIPTS / "cfn-lint", "--ignore-checks", IGNORED, "--", *templates],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_templates_are_the_same_every_time(assembly: Assembly, synth: object) -> None:
    again = synth(**USUAL)  # type: ignore[operator]
    assert again.templates == assembly.templates


def test_app_needs_nothing_but_its_build_and_says_so(tmp_path: Path) -> None:
    output = _app(tmp_path, {"crossdock:layers": "nowhere"})
    assert "nowhere/engine is not there; run `make layers` first" in output


def _app(folder: Path, context: dict[str, str]) -> str:
    """What ``app.py`` says, without credentials, home folder or proxy."""
    result = subprocess.run(
        [SCRIPTS / "python", str(ROOT / "app.py")],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "CDK_OUTDIR": str(folder / "cdk.out"),
            "CDK_CONTEXT_JSON": json.dumps(context),
            **{name: value for name, value in os.environ.items() if name.startswith("JSII_")},
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode != 0
    return result.stderr
