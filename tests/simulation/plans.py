"""Small queries as real stage plans."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from crossdock.planner.plan import (
    CarriedColumn,
    Edge,
    ExchangeInput,
    ResultColumn,
    ShuffleMode,
    Stage,
    StagePlan,
)

_BIGINT = CarriedColumn(type="BIGINT")


class Fragment(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a stage does; its JSON is the stage's fragment text."""

    does: str  # scan | sum | join | total | rows
    seed: int = 0
    rows: int = 0  # of a scan, over all its tasks
    volatile: bool = False
    fails: str = ""  # the final error every attempt of it meets


@dataclass(frozen=True, slots=True)
class _Draft:
    fragment: Fragment
    tasks: int
    reads: tuple[tuple[int, ShuffleMode], ...] = ()


HASH, BROADCAST, GATHER = ShuffleMode.HASH, ShuffleMode.BROADCAST, ShuffleMode.GATHER


def plan_of(rng: random.Random, *, shape: str = "", volatile: bool | None = None) -> StagePlan:
    """A plan of some shape; ``volatile``: whether its scans differ from attempt to attempt."""
    shape = shape or rng.choice(sorted(SHAPES))
    if volatile is None:
        volatile = rng.random() < 0.5
    end = "total" if volatile else rng.choice(("rows", "total"))
    return built(SHAPES[shape](rng, volatile, end), shape)


def _scan(rng: random.Random, volatile: bool, tasks: int = 0) -> _Draft:
    rows = rng.choice((0, 3, 12, 30))
    fragment = Fragment("scan", seed=rng.randrange(10**6), rows=rows, volatile=volatile)
    return _Draft(fragment, tasks or rng.randint(1, 3))


def _two(rng: random.Random, volatile: bool, end: str) -> list[_Draft]:
    return [_scan(rng, volatile), _Draft(Fragment(end), 1, ((0, GATHER),))]


def _three(rng: random.Random, volatile: bool, end: str) -> list[_Draft]:
    return [
        _scan(rng, volatile),
        _Draft(Fragment("sum"), rng.randint(1, 3), ((0, HASH),)),
        _Draft(Fragment(end), 1, ((1, GATHER),)),
    ]


def _wide(rng: random.Random, volatile: bool, end: str) -> list[_Draft]:
    return [
        _scan(rng, volatile, rng.randint(2, 4)),
        _Draft(Fragment(end if end == "rows" else "sum"), rng.randint(2, 4), ((0, HASH),)),
        *([_Draft(Fragment("total"), 1, ((1, GATHER),))] if end == "total" else []),
    ]


def _join(rng: random.Random, volatile: bool, end: str) -> list[_Draft]:
    return [
        _scan(rng, volatile),
        _Draft(Fragment("keys"), 1),
        _Draft(Fragment("join"), rng.randint(1, 3), ((0, HASH), (1, HASH))),
        _Draft(Fragment(end), 1, ((2, GATHER),)),
    ]


def _broadcast(rng: random.Random, volatile: bool, end: str) -> list[_Draft]:
    return [
        _Draft(Fragment("keys"), 1),
        _scan(rng, volatile),
        _Draft(Fragment("join"), rng.randint(1, 3), ((1, HASH), (0, BROADCAST))),
        _Draft(Fragment(end), 1, ((2, GATHER),)),
    ]


def _five(rng: random.Random, volatile: bool, end: str) -> list[_Draft]:
    return [
        _scan(rng, volatile),
        _Draft(Fragment("sum"), rng.randint(1, 2), ((0, HASH),)),
        _Draft(Fragment("sum"), rng.randint(1, 2), ((1, HASH),)),
        _Draft(Fragment("sum"), rng.randint(1, 2), ((2, HASH),)),
        _Draft(Fragment(end), 1, ((3, GATHER),)),
    ]


def _shared(rng: random.Random, volatile: bool, end: str) -> list[_Draft]:
    """One scan feeds two stages, which meet again."""
    return [
        _scan(rng, volatile),
        _Draft(Fragment("sum"), rng.randint(1, 2), ((0, HASH),)),
        _Draft(Fragment("sum"), 1, ((0, HASH),)),
        _Draft(Fragment(end), 1, ((1, GATHER), (2, GATHER))),
    ]


_Shape: TypeAlias = Callable[[random.Random, bool, str], list[_Draft]]
SHAPES: Mapping[str, _Shape] = {
    "two": _two,
    "three": _three,
    "wide": _wide,
    "join": _join,
    "broadcast": _broadcast,
    "five": _five,
    "shared": _shared,
}


def built(drafts: Sequence[_Draft], name: str) -> StagePlan:
    """The stage plan of drafts, producers first."""
    edges: list[Edge] = []
    for consumer, draft in enumerate(drafts):
        for producer, mode in draft.reads:
            hashed = mode is HASH
            edges.append(
                Edge(
                    edge=len(edges),
                    producer=producer,
                    consumer=consumer,
                    mode=mode,
                    partitions=draft.tasks if hashed else 1,
                    keys=("c0",) if hashed else (),
                    columns=(_BIGINT,) * 3,
                )
            )
    stages = tuple(
        Stage(
            stage=number,
            fragment=msgspec.json.encode(draft.fragment).decode(),
            columns=(_BIGINT,) * 3,
            tasks=draft.tasks,
            exchanges=tuple(
                ExchangeInput(name=f"edge_{e.edge}", edge=e.edge)
                for e in edges
                if e.consumer == number
            ),
            outputs=tuple(e.edge for e in edges if e.producer == number),
            deterministic=not draft.fragment.volatile,
        )
        for number, draft in enumerate(drafts)
    )
    columns = tuple(ResultColumn(name=c, type="BIGINT") for c in ("key", "value", "noise"))
    return StagePlan(
        engine="simulation", sql=name, columns=columns, stages=stages, edges=tuple(edges)
    )


def failing(plan: StagePlan, stage: int, kind: str) -> StagePlan:
    """The same plan with a stage that always fails for good."""
    stages = list(plan.stages)
    fragment = fragment_of(stages[stage])
    broken = msgspec.structs.replace(fragment, fails=kind)
    text = msgspec.json.encode(broken).decode()
    stages[stage] = msgspec.structs.replace(stages[stage], fragment=text)
    return msgspec.structs.replace(plan, stages=tuple(stages))


def fragment_of(stage: Stage) -> Fragment:
    return msgspec.json.decode(stage.fragment, type=Fragment)
