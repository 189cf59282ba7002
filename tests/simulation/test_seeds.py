"""Seeds of the simulation: whatever the weather, the answer is right and nothing stays behind."""

from __future__ import annotations

import pytest

from tests.simulation.seeds import run_seed


@pytest.mark.parametrize("seed", range(3))
def test_a_seed_runs_twice_alike(seed: int) -> None:
    first, second = run_seed(seed), run_seed(seed)
    assert (first.steps, first.seconds) == (second.steps, second.seconds)
    assert first.statuses == second.statuses
    assert not first.wrong
