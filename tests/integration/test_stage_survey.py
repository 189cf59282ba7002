"""docs/sql.md says what the planner does: which stages are one task, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import stages

SEEDS = 8


@pytest.fixture(scope="module")
def found(tpch_tiny: Path, tpcds_tiny: Path) -> list[stages.Survey]:
    return list(stages.suites())


def test_the_page_has_the_planners_own_table(found: list[stages.Survey]) -> None:
    text = stages.PAGE.read_text()
    lines = [line for line in stages.page_part(found, []).splitlines() if line.startswith("| ")]
    assert len(lines) > len(found)
    missing = [line for line in lines if line not in text.splitlines()]
    assert not missing, "make it again: python -m benchmarks.stages --write"


def test_no_benchmark_query_is_one_task_as_a_whole(found: list[stages.Survey]) -> None:
    assert len(found) == 22 + 99 + 43
    assert [(each.suite, each.number, each.whole) for each in found if each.whole] == []


def test_only_sorts_windows_and_single_rows_are_gathered(found: list[stages.Survey]) -> None:
    others = {
        (each.suite, each.number): set(each.one_task) - stages.ALLOWED
        for each in found
        if set(each.one_task) - stages.ALLOWED
    }
    assert others == {}
    windows = {
        (each.suite, each.number) for each in found if "a window over all rows" in each.one_task
    }
    assert windows == {("TPC-DS", "44"), ("TPC-DS", "49")}


def test_less_than_two_in_a_hundred_random_queries_are_one_task_as_a_whole() -> None:
    random = list(stages.generated(0, SEEDS))
    whole = [each for each in random if each.whole]
    assert len(random) > 15 * SEEDS
    assert len(whole) < len(random) * 0.02, [each.whole for each in whole]
