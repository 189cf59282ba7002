"""What goes wrong in one seed: strikes at chosen calls, and rates of what goes wrong with messages.

A forecast is drawn from the seed whole, before anything runs, or written by hand for a test of one
fault. Each seed has few kinds of fault in it: all at once would hide each other.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tests.simulation.kernel import Process


class Fault(StrEnum):
    """What a strike does to the call it meets."""

    KILL = "kill"  # the process dies before the call
    KILL_AFTER = "kill after"  # ... once it has landed
    KILL_GHOST = "kill ghost"  # ... and the call lands a while later
    STALL = "stall"  # the process freezes before the call: a zombie when it wakes
    STALL_AFTER = "stall after"
    ERROR = "error"  # fails, without effect
    LOST = "lost"  # lands, but the answer is an error
    GHOST = "ghost"  # the answer is an error, and it lands a while later
    REPEAT = "repeat"  # lands, answers 500, and is sent again below the caller
    CONFLICT = "conflict"  # another transaction holds the item


class Rate(StrEnum):
    """What happens by chance; the value is the key in ``Forecast.rates``."""

    LOSE_MESSAGE = "lose message"
    REPEAT_MESSAGE = "repeat message"
    DELAY_MESSAGE = "delay message"
    STRAY_MESSAGE = "stray message"
    EMPTY_RECEIVE = "empty receive"
    MESSAGE_STAYS = "message stays"  # deleted, it comes again all the same
    SHORT_VISIBILITY = "short visibility"
    REPEAT_CONTROL = "repeat control"
    DELAY_CONTROL = "delay control"
    LOSE_CONTROL = "lose control"  # a batch that fails as often as the dead-letter rule allows
    LAUNCH_TWICE = "launch twice"
    LAUNCH_NEVER = "launch never"
    LAUNCH_REFUSED = "launch refused"
    LAUNCH_LATE = "launch late"
    HEART_STOPS = "heart stops"
    OBJECT_LOST = "object lost"
    OBJECT_DAMAGED = "object damaged"
    FRAGMENT_FAILS = "fragment fails"  # retryable
    FRAGMENT_DIES = "fragment dies"  # the process with it, as for want of memory
    LISTING_LAGS = "listing lags"
    SLOW_FRAGMENT = "slow fragment"


#: Faults of these are bounded by the budget; the others may strike without end.
_UNBOUNDED = frozenset(
    {
        Rate.LOSE_MESSAGE,
        Rate.REPEAT_MESSAGE,
        Rate.DELAY_MESSAGE,
        Rate.STRAY_MESSAGE,
        Rate.EMPTY_RECEIVE,
        Rate.MESSAGE_STAYS,
        Rate.SHORT_VISIBILITY,
        Rate.REPEAT_CONTROL,
        Rate.DELAY_CONTROL,
        Rate.LAUNCH_TWICE,
        Rate.SLOW_FRAGMENT,
        Rate.LISTING_LAGS,
    }
)

#: Faults of the shuffle's queues alone.
MESSAGES = frozenset(
    {
        Rate.LOSE_MESSAGE,
        Rate.REPEAT_MESSAGE,
        Rate.DELAY_MESSAGE,
        Rate.STRAY_MESSAGE,
        Rate.EMPTY_RECEIVE,
        Rate.MESSAGE_STAYS,
        Rate.SHORT_VISIBILITY,
    }
)

_STATE = tuple(Fault)
_OBJECT = (
    Fault.KILL, Fault.KILL_AFTER, Fault.KILL_GHOST, Fault.STALL, Fault.STALL_AFTER, Fault.ERROR,
    Fault.LOST, Fault.GHOST, Fault.REPEAT,
)  # fmt: skip
_STOPS = (Fault.KILL, Fault.KILL_AFTER, Fault.STALL, Fault.STALL_AFTER)

#: Calls worth striking, by role; names in capitals are conditions of state writes.
CALLS: Mapping[str, Sequence[str]] = {
    "worker": (
        "REGISTER_WORKER", "TAKE_OFFER", "MOVE_CURSOR", "CLAIM_TASK", "HEARTBEAT", "COMMIT_TASK",
        "COMMIT_TASK", "REQUEUE_TASK", "HAND_BACK_TASK", "FAIL_TASK", "LEAVE_WORKER", "OFFER_AGAIN",
        "put", "put", "part", "fetch", "get", "send", "receive", "delete message", "notify", "run",
        "QUERY", "BATCH_GET", "GET", "any",
    ),
    "coordinator": (
        "BEGIN_TURN", "KNOCK", "END_TURN", "TRANSACT", "ACTIVATE_STAGE", "RAISE_ADMITTED",
        "COMPLETE_STAGE", "END_QUERY", "MARK_SWEPT", "CLOSE_QUERY", "PURGE_QUERY", "BATCH_WRITE",
        "ADVANCE_TICK", "tick", "invoke", "create", "drop", "list", "delete object", "put",
        "LEASE_QUEUE", "REQUEUE_TASK", "REQUEUE_SILENT_TASK", "LOSE_WORKER", "DRAIN_WORKER",
        "OBSERVE_BEAT", "OFFER_AGAIN", "BEGIN_GENERATION", "UNMOVED_TASK", "RESET_STAGE",
        "RERUN_TASK", "REOPEN_STAGE", "RETURN_QUEUE", "QUERY", "GET", "any", "any", "any",
    ),
    "client": ("put", "ABSENT", "BATCH_WRITE", "MY_DRAFT", "tick", "END_QUERY", "any"),
    "janitor": (
        "LIST", "GET", "list", "names", "drop", "delete object", "tick", "FORGET_QUERY",
        "PURGE_QUERY", "BATCH_WRITE", "RETURN_QUEUE", "any",
    ),
}  # fmt: skip
_LOCAL = frozenset({"run", "part"})  # within the process: it can only stop there
_MEDIA = frozenset(
    {
        "put", "fetch", "get", "list", "delete object", "send", "receive", "delete message",
        "create", "drop", "names", "invoke", "notify", "tick",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Strike:
    """The ``nth`` call of that name by any process of that role."""

    role: str
    call: str
    nth: int
    fault: Fault
    seconds: float = 0.0  # of a stall, or until a ghost lands


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """One seed's weather."""

    strikes: tuple[Strike, ...] = ()
    rates: Mapping[Rate, float] = field(default_factory=dict)
    budget: int = 0  # bounded faults by chance
    latency: float = 0.005  # seconds, mean of a call
    worker_skew: float = 0.0  # seconds a worker's clock may be wrong
    coordinator_skew: float = 0.0

    @property
    def faults(self) -> int:
        """Bounded faults at most."""
        return len(self.strikes) + self.budget

    @property
    def stalled(self) -> float:
        """Seconds that stalls and ghosts may take together."""
        return sum(strike.seconds for strike in self.strikes)


def theme_of(rng: random.Random) -> str:
    """What a seed is about: a mix of anything, or faults that meet in one place."""
    return rng.choices(("calm", "mixed", *sorted(_THEMES)), (6, 44, *(50 / len(_THEMES),) * 7))[0]


def forecast(rng: random.Random, theme: str) -> Forecast:
    """Draw one."""
    latency = rng.choice((0.002, 0.01, 0.05))
    if theme == "calm":
        return Forecast(latency=latency)
    drawn = _mixed(rng) if theme == "mixed" else _THEMES[theme](rng)
    bounded = bool(set(drawn.rates) - _UNBOUNDED)
    return replace(
        drawn,
        budget=rng.choice((1, 2, 3, 5)) if bounded else 0,
        latency=latency,
        worker_skew=rng.choice((0.0, 0.0, 1.0, 60.0, 7200.0)),
        coordinator_skew=rng.choice((0.0, 0.4, 0.9)),
    )


def _mixed(rng: random.Random) -> Forecast:
    strikes = tuple(_strike(rng) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4, 6))))
    kinds = rng.sample(list(Rate), rng.choice((0, 1, 1, 2, 2, 3, 4)))
    rates = {
        kind: rng.choice((0.02, 0.1, 0.3, 1.0 if kind in _UNBOUNDED else 0.5)) for kind in kinds
    }
    return Forecast(strikes=strikes, rates=rates)


def _claims(rng: random.Random) -> Forecast:
    """Claims and offers whose answers are lost, or whose makers sleep between two writes."""
    calls = ("MOVE_CURSOR", "TAKE_OFFER", "CLAIM_TASK", "REQUEUE_TASK", "OFFER_AGAIN")
    faults = (Fault.REPEAT, Fault.LOST, Fault.GHOST, Fault.STALL, Fault.STALL_AFTER)
    rates = {Rate.FRAGMENT_FAILS: 0.5, Rate.SLOW_FRAGMENT: 0.5}
    return Forecast(strikes=_several(rng, "worker", calls, faults, 4), rates=rates)


def _zombies(rng: random.Random) -> Forecast:
    """Workers that sleep past their lease and go on."""
    calls = ("COMMIT_TASK", "put", "part", "send", "fetch", "receive", "run", "HEARTBEAT")
    return Forecast(strikes=_several(rng, "worker", calls, (Fault.STALL, Fault.STALL_AFTER), 3))


def _answers(rng: random.Random) -> Forecast:
    """Writes of workers that land, or not, whatever they were answered."""
    calls = ("COMMIT_TASK", "put", "REGISTER_WORKER", "LEAVE_WORKER", "CLAIM_TASK", "FAIL_TASK")
    faults = (Fault.REPEAT, Fault.LOST, Fault.GHOST, Fault.ERROR)
    return Forecast(strikes=_several(rng, "worker", calls, faults, 3))


def _objects(rng: random.Random) -> Forecast:
    """Committed objects that go, before some have read them and after others."""
    lost = rng.choice((Rate.OBJECT_LOST, Rate.OBJECT_DAMAGED))
    return Forecast(rates={lost: 0.3, Rate.SLOW_FRAGMENT: rng.choice((0.1, 0.7))})


def _messages(rng: random.Random) -> Forecast:
    """Messages that are lost, late, repeated, not to be deleted."""
    if rng.random() < 0.3:  # some never stop coming, others never come
        return Forecast(rates={Rate.MESSAGE_STAYS: 1.0, Rate.LOSE_MESSAGE: 0.5})
    return Forecast(rates={k: rng.choice((0.3, 0.6, 1.0)) for k in rng.sample(sorted(MESSAGES), 2)})


def _turns(rng: random.Random) -> Forecast:
    """Coordinators that die, sleep, meet, and are woken twice or not at all."""
    calls = [call for call in CALLS["coordinator"] if call not in _MEDIA and call != "any"]
    rates = {
        rng.choice((Rate.REPEAT_CONTROL, Rate.DELAY_CONTROL)): rng.choice((0.3, 1.0)),
        Rate.LAUNCH_NEVER: 0.2,
    }
    return Forecast(strikes=_several(rng, "coordinator", calls, _STATE, 3), rates=rates)


def _endings(rng: random.Random) -> Forecast:
    """What is still under way when a query ends, and what its sweep misses."""
    late = _several(rng, "worker", ("put", "part", "run", "COMMIT_TASK"), (Fault.STALL,), 2)
    ghosts = _several(rng, "worker", ("put",), (Fault.KILL_GHOST, Fault.GHOST), 1)
    sweeps = _several(rng, "coordinator", ("create", "drop", "TRANSACT"), (*_STOPS, Fault.LOST), 2)
    return Forecast(
        strikes=(*late, *ghosts, *sweeps), rates={Rate.LISTING_LAGS: 1.0, Rate.SLOW_FRAGMENT: 0.3}
    )


def _several(
    rng: random.Random, role: str, calls: Sequence[str], faults: Sequence[Fault], most: int
) -> tuple[Strike, ...]:
    return tuple(
        _struck(rng, role, rng.choice(calls), rng.choice(faults))
        for _ in range(rng.randint(1, most))
    )


_THEMES: Mapping[str, Callable[[random.Random], Forecast]] = {
    "claims": _claims,
    "zombies": _zombies,
    "answers": _answers,
    "objects": _objects,
    "messages": _messages,
    "turns": _turns,
    "endings": _endings,
}


def _strike(rng: random.Random) -> Strike:
    role = rng.choices(("worker", "coordinator", "client", "janitor"), (50, 35, 7, 8))[0]
    call = rng.choice(CALLS[role])
    faults: Sequence[Fault] = _STATE
    if call in _LOCAL or call == "any":
        faults = _STOPS
    elif call in _MEDIA:
        faults = _OBJECT
    return _struck(rng, role, call, rng.choice(faults))


def _struck(rng: random.Random, role: str, call: str, fault: Fault) -> Strike:
    nth = rng.randint(1, 250) if call == "any" else min(rng.randint(1, 8), rng.randint(1, 8))
    seconds = rng.choice((1.0, 4.0, 12.0, 25.0, 60.0)) * rng.uniform(0.8, 1.2)
    if fault in (Fault.GHOST, Fault.KILL_GHOST):
        seconds = min(seconds, 30.0)
    return Strike(role, call, nth, fault, seconds)


class Weather:
    """The forecast as it comes true."""

    def __init__(self, given: Forecast, rng: random.Random) -> None:
        self.forecast = given
        self.struck: list[str] = []
        self.calm = False  # nothing strikes any more
        self._random = rng
        self._left = given.budget
        self._counts: Counter[tuple[str, str]] = Counter()
        self._strikes = {(s.role, s.call, s.nth): s for s in given.strikes}
        self._roles = {(s.role, s.call) for s in given.strikes}

    def strike(self, process: Process, call: str) -> Strike | None:
        """What meets this call."""
        found = None
        if self.calm:
            return None
        for name in (call, "any"):
            key = (process.role, name)
            if key in self._roles:
                self._counts[key] += 1
                found = found or self._strikes.get((*key, self._counts[key]))
        if found is not None:
            self.struck.append(f"{found.fault} at {process.role}'s {call}")
        return found

    def chance(self, rate: Rate) -> bool:
        """Whether this happens now."""
        probability = self.forecast.rates.get(rate, 0.0)
        if self.calm or not probability or self._random.random() >= probability:
            return False
        if rate not in _UNBOUNDED:
            if self._left <= 0:
                return False
            self._left -= 1
            self.struck.append(rate.value)
        return True

    def latency(self) -> float:
        """Seconds one call takes."""
        return self._random.expovariate(1.0) * self.forecast.latency

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def skew_of(self, role: str) -> float:
        most = self.forecast.worker_skew if role == "worker" else self.forecast.coordinator_skew
        return self._random.uniform(-most, most) if most else 0.0
