"""Random tables and queries give DuckDB's answer; `make fuzz SECONDS=600` asks other seeds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.trial import Engine, InProcess, Trial, Whole

QUESTIONS = 12


def check(engine: Engine, seed: int, folder: Path) -> None:
    trial = Trial(seed, folder)
    differences = [str(each) for each in trial.run(engine, QUESTIONS) if each is not None]
    assert not differences, "\n\n".join(differences)


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    whole = Whole(tmp_path_factory.mktemp("home"))
    yield whole
    whole.close()


@pytest.mark.parametrize("seed", range(6))
def test_planner_and_executor_answer_otherwise_than_duckdb(seed: int, tmp_path: Path) -> None:
    check(InProcess(tmp_path / "home"), seed, tmp_path / "data")


@pytest.mark.parametrize("seed", range(100, 103))
def test_workers_answer_otherwise_than_duckdb(seed: int, workers: Whole, tmp_path: Path) -> None:
    check(workers, seed, tmp_path / "data")
