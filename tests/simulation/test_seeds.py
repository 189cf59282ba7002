"""Seeds of the simulation: whatever the weather, the answer is right and nothing stays behind."""

from __future__ import annotations

import pytest

from tests.simulation.seeds import report, run_seed

SEEDS = 2000
_CHUNK = 50


@pytest.mark.parametrize("first", range(0, SEEDS, _CHUNK))
def test_seeds_violate_nothing(first: int) -> None:
    for seed in range(first, first + _CHUNK):
        outcome = run_seed(seed)
        assert not outcome.wrong, report(outcome)


@pytest.mark.parametrize("seed", range(3))
def test_a_seed_runs_twice_alike(seed: int) -> None:
    first, second = run_seed(seed, tell=True), run_seed(seed, tell=True)
    assert first == second
