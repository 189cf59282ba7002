"""One fault at a time, and every place it can strike: what the seeds only meet by chance."""

from __future__ import annotations

import random

import pytest

from crossdock.planner.plan import StagePlan
from crossdock.settings import Exchange
from crossdock.submit import QueryOptions
from tests.simulation.plans import SHAPES, plan_of
from tests.simulation.seeds import Outcome, run_seed
from tests.simulation.weather import Fault, Forecast, Rate, Strike
from tests.simulation.world import LEASE, Case, Setting

#: Calls of the coordinators of one undisturbed three-stage query, rounded up.
MOST_CALLS = 150


def run(
    shape: str,
    weather: Forecast,
    *,
    seed: int = 1,
    workers: int = 3,
    queries: int = 1,
    exchange: Exchange = Exchange.S3QS,
) -> Outcome:
    cases = [_case(shape, exchange, seed + n) for n in range(queries)]
    setting = Setting(cases=cases, weather=weather, concurrency=workers, query_workers=workers)
    return run_seed(seed, setting)


def _case(shape: str, exchange: Exchange, seed: int) -> Case:
    plan: StagePlan = plan_of(random.Random(seed), shape=shape, volatile=True)
    return Case(plan=plan, options=QueryOptions(exchange=exchange, lease_seconds=LEASE))


def require_success(outcome: Outcome) -> None:
    assert not outcome.wrong, "\n".join((*outcome.wrong, *outcome.struck, outcome.story))
    assert set(outcome.statuses) == {"SUCCEEDED"}


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_every_message_comes_twice(shape: str) -> None:
    twice = {Rate.REPEAT_MESSAGE: 1.0, Rate.REPEAT_CONTROL: 1.0, Rate.MESSAGE_STAYS: 1.0}
    require_success(run(shape, Forecast(rates=twice)))


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_every_message_is_lost(shape: str) -> None:
    require_success(run(shape, Forecast(rates={Rate.LOSE_MESSAGE: 1.0})))


@pytest.mark.parametrize("part", range(4))
def test_coordinator_dies_after_each_of_its_calls(part: int) -> None:
    struck = 0
    for nth in range(1 + part, MOST_CALLS, 4):
        strike = Strike("coordinator", "any", nth, Fault.KILL_AFTER)
        outcome = run("three", Forecast(strikes=(strike,)))
        require_success(outcome)
        struck += bool(outcome.struck)
    assert struck > 20


@pytest.mark.parametrize("part", range(2))
def test_worker_dies_after_each_of_its_calls(part: int) -> None:
    struck = 0
    for nth in range(1 + part, 80, 2):
        strike = Strike("worker", "any", nth, Fault.KILL_AFTER)
        outcome = run("three", Forecast(strikes=(strike,)), seed=2)
        require_success(outcome)
        struck += bool(outcome.struck)
    assert struck > 20


@pytest.mark.parametrize("exchange", [Exchange.S3QS, Exchange.BATCH])
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("queries", [1, 2])
def test_five_stages_end_with_any_number_of_workers(
    workers: int, queries: int, exchange: Exchange
) -> None:
    outcome = run("five", Forecast(), workers=workers, queries=queries, exchange=exchange)
    require_success(outcome)


# -- what the seeds found ------------------------------------------------------------------------
@pytest.mark.parametrize("hours", [-2.0, 2.0])
def test_clocks_of_workers_may_be_wrong_by_hours(hours: float) -> None:
    dead = Strike("worker", "MOVE_CURSOR", 1, Fault.KILL)
    outcome = run(
        "three", Forecast(strikes=(dead,), worker_skew=abs(hours) * 3600), seed=int(hours) + 9
    )
    require_success(outcome)
    assert outcome.seconds < 130.0  # closing waits for the longest life of the dead one


def test_alarms_that_ring_twice_do_not_multiply() -> None:
    rates = {Rate.REPEAT_CONTROL: 1.0, Rate.SLOW_FRAGMENT: 1.0}
    outcome = run("five", Forecast(rates=rates))
    require_success(outcome)
    assert outcome.tally["coordinator tick"] < outcome.seconds


def test_a_plan_that_was_put_twice_is_one() -> None:
    require_success(run("two", Forecast(strikes=(Strike("client", "put", 1, Fault.REPEAT),))))


def test_a_turn_that_slept_finds_its_query_purged() -> None:
    strikes = [Strike("coordinator", "QUERY", n, Fault.STALL, 40.0) for n in range(3, 12)]
    for each in strikes:
        require_success(run("two", Forecast(strikes=(each,))))


def test_a_query_that_waits_for_others_looks_again_before_long() -> None:
    outcome = run("three", Forecast(), workers=1, queries=2)
    require_success(outcome)
    assert outcome.seconds < 15.0
