"""From a seed to a setting, a run and its verdict."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from crossdock.settings import Exchange
from crossdock.submit import QueryOptions
from tests.simulation.checks import Transitions, violations
from tests.simulation.kernel import EPOCH, Stuck
from tests.simulation.plans import failing, plan_of
from tests.simulation.theatre import simulated
from tests.simulation.weather import Forecast, forecast, theme_of
from tests.simulation.world import LEASE, Case, Setting, World


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a seed ended."""

    seed: int
    wrong: tuple[str, ...]
    story: str
    struck: tuple[str, ...]
    statuses: tuple[str, ...]
    seconds: float  # virtual
    steps: int
    tally: Mapping[str, int]  # calls by role and verb


def setting_of(seed: int) -> Setting:
    rng = random.Random(f"setting {seed}")
    theme = theme_of(rng)
    cases = [_case(rng, theme) for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3)))]
    return Setting(
        cases=cases,
        weather=forecast(rng, theme),
        concurrency=rng.choice((1, 2, 3, 4, 6)),
        query_workers=rng.choice((1, 2, 3, 4)),
        pool=rng.choice((0, 2, 5)),
        max_handbacks=rng.choice((1, 2, 16)),
        entries=rng.choice((1, 4000)),
    )


#: Where several tasks read one object, or a fault soon meets the result; else any shape.
_THEME_SHAPES = {"objects": ("wide", "join", "shared", ""), "zombies": ("two", "three", "")}


def _case(rng: random.Random, theme: str) -> Case:
    shapes = _THEME_SHAPES.get(theme, ("",))
    plan = plan_of(rng, shape=rng.choice(shapes), volatile=True if theme == "objects" else None)
    if rng.random() < 0.06:
        plan = failing(plan, rng.randrange(len(plan.stages)), "InvalidInput")
    options = QueryOptions(
        exchange=rng.choice((Exchange.S3QS, Exchange.S3QS, Exchange.S3QS, Exchange.BATCH)),
        workers=rng.choice((0, 1, 2, 3)),
        lease_seconds=LEASE,
        timeout_seconds=rng.choice((None, None, None, None, 15.0, 60.0)),
    )
    cancel_at = rng.uniform(0.0, 8.0) if rng.random() < 0.12 else None
    return Case(plan=plan, options=options, at=rng.uniform(0, 3), cancel_at=cancel_at)


def run_seed(seed: int, setting: Setting | None = None, *, tell: bool = False) -> Outcome:
    """The seed's run; the same every time. ``tell``: keep its story although all went well."""
    setting = setting or setting_of(seed)
    with simulated(seed, setting) as world:
        Transitions(world)
        wrong: tuple[str, ...]
        try:
            world.run()
            seconds = world.ended_after
            world.finish()
            wrong = tuple(violations(world))
        except Stuck as stuck:
            seconds = world.kernel.now - EPOCH
            wrong = (str(stuck),)
        return _outcome(seed, world, wrong, seconds, tell=tell)


def report(outcome: Outcome) -> str:
    """All there is to say of a seed, its story first."""
    lines = [
        outcome.story,
        f"seed {outcome.seed}: queries ended {', '.join(outcome.statuses)} "
        f"after {outcome.seconds:.1f} s",
        *(f"  what struck: {strike}" for strike in outcome.struck),
        *(f"  VIOLATED: {wrong}" for wrong in outcome.wrong),
    ]
    return "\n".join(lines)


def _outcome(
    seed: int, world: World, wrong: tuple[str, ...], seconds: float, *, tell: bool
) -> Outcome:
    return Outcome(
        seed=seed,
        wrong=wrong,
        story=world.kernel.story() if wrong or tell else "",
        struck=tuple(world.weather.struck),
        statuses=tuple(c.record.status if c.record else "-" for c in world.cases),
        seconds=seconds,
        steps=world.kernel.steps,
        tally=dict(world.calls.tally),
    )


__all__ = ["Forecast", "Outcome", "report", "run_seed", "setting_of"]
