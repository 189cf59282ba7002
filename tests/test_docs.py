"""The documentation names what there is, and what it names is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from coordinator_state import conditions
from crossdock.cli.commands import cli
from crossdock.settings import FIELDS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def commands(group: click.Group, prefix: str) -> Iterator[str]:
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}"


@pytest.mark.parametrize("command", list(commands(cli, "crossdock")))
def test_every_command_stands_in_the_readme(command: str) -> None:
    assert f"`{command}" in README


@pytest.mark.parametrize("name", [field.name for field in FIELDS])
def test_every_setting_stands_in_the_table(name: str) -> None:
    assert re.search(rf"^\| `{name}` \| .+ \| .+ \|$", README, re.MULTILINE)


def test_the_settings_table_invents_nothing() -> None:
    table = README.partition("| setting |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == {f.name for f in FIELDS}


@pytest.mark.parametrize("option", ["--table", "--param", "--format", "-o", "--quiet", "--receipt"])
def test_options_of_query_stand_in_the_readme(option: str) -> None:
    declared = {name for parameter in cli.commands["query"].params for name in parameter.opts}
    assert option in declared
    assert f"`{option}" in README


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    local = [target for target in targets if target and "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


def names_of_tests() -> set[str]:
    found = (re.findall(r"^def (test_\w+)", path.read_text(), re.M) for path in TESTS)
    return {name for names in found for name in names}


TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
RACES = {
    "task-states.md": r"^\| `[A-Z_]+` \| (.+) \|$",
    "shuffle-protocol.md": r"^\| [^|]+ \| [^|]+ \| (`test_.+) \|$",
}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_tests_named_in_docs_exist(page: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", page.read_text()))
    assert named - names_of_tests() == set()


@pytest.mark.parametrize("name", RACES)
def test_every_race_on_the_page_is_named_by_a_test(name: str) -> None:
    page = (ROOT / "docs" / name).read_text()
    rows = re.findall(RACES[name], page, re.MULTILINE)
    assert len(rows) >= 20
    assert [row for row in rows if not re.fullmatch(r"`test_\w+`(, `test_\w+`)*", row)] == []


def test_every_condition_of_a_write_has_a_test_of_its_race() -> None:
    page = (ROOT / "docs" / "task-states.md").read_text()
    proven = set(re.findall(r"^\| `([A-Z_]+)` \| `test_", page, re.MULTILINE))
    named = {
        name
        for name, text in vars(conditions).items()
        if name.isupper() and not name.startswith("_") and isinstance(text, str) and "#" in text
    }
    assert proven == named


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_modules_named_in_docs_exist(page: Path) -> None:
    named = set(re.findall(r"`((?:crossdock|coordinator_state|tests)/[\w/.]+)`", page.read_text()))
    assert {name for name in named if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize("target", ["demo", "test", "check", "bench", "clean"])
def test_make_targets_of_the_readme_exist(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert f"make {target}" in README
