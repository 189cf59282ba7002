"""Each protective rule is needed: switched off, the simulation finds that something is wrong.

``Mutation.seed`` is where the rule was found to be missed when this was written, so that the search
is short; it goes on from there through all of the seeds that ``test_seeds`` runs.
"""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS
from tests.simulation.seeds import run_seed
from tests.simulation.test_seeds import SEEDS


@pytest.mark.parametrize("rule", sorted(MUTATIONS))
def test_a_rule_that_is_off_is_missed(rule: str) -> None:
    mutation = MUTATIONS[rule]
    with mutation.off():
        for seed in (*range(mutation.seed, SEEDS), *range(mutation.seed)):
            found = [wrong for wrong in run_seed(seed).wrong if mutation.finds in wrong]
            if found:
                return
    pytest.fail(f"{SEEDS} seeds do not need the rule: {rule}")
