"""Small queries as real stage plans, what their fragments do to rows, and the right answers.

A row is (key, value, noise). A fragment that is not deterministic draws keys and noise anew in every
attempt; its noise sums to 0 over all it writes. So when a consumer mixes two attempts, or takes a
row twice, sums at the end are wrong.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeAlias

import msgspec

from coordinator_state.records import ErrorRecord
from crossdock.executor import FragmentFailed, FragmentInterrupted, Interrupt, TaskOutput
from crossdock.planner.plan import (
    CarriedColumn,
    Edge,
    ExchangeInput,
    ResultColumn,
    ShuffleMode,
    Stage,
    StagePlan,
)
from crossdock.shuffle.spec import RESULT_EDGE, SectionFile
from tests.simulation.kernel import Kernel, process_of
from tests.simulation.weather import Rate, Weather

Row: TypeAlias = tuple[int, int, int]
_BIGINT = CarriedColumn(type="BIGINT")
_KEYS = 7


class Fragment(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a stage does; its JSON is the stage's fragment text."""

    does: str  # scan | sum | join | total | rows
    seed: int = 0
    rows: int = 0  # of a scan, over all its tasks
    volatile: bool = False
    fails: str = ""  # the final error every attempt of it meets


# -- plans -------------------------------------------------------------------------------------
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


# -- what fragments do ---------------------------------------------------------------------------
def scanned(fragment: Fragment, task: int, tasks: int) -> list[Row]:
    rng = random.Random(fragment.seed)
    rows = [(rng.randrange(_KEYS), rng.randrange(1, 1000), 0) for _ in range(fragment.rows)]
    return rows[task::tasks]


def volatile(rows: Sequence[Row], rng: random.Random) -> list[Row]:
    """Other keys, and noise that sums to 0."""
    noise = [rng.randrange(-(10**6), 10**6) for _ in rows]
    if noise:
        noise[-1] -= sum(noise)
    return [
        (rng.randrange(_KEYS), value, extra)
        for (_, value, _), extra in zip(rows, noise, strict=True)
    ]


def worked(fragment: Fragment, inputs: Sequence[Sequence[Row]]) -> list[Row]:
    """A fragment's rows over its inputs, edge by edge."""
    rows = [row for each in inputs for row in each]
    match fragment.does:
        case "keys":
            return [(key, 1, 0) for key in range(_KEYS)]
        case "sum":
            sums: dict[int, list[int]] = defaultdict(lambda: [0, 0])
            for key, value, noise in rows:
                sums[key][0] += value
                sums[key][1] += noise
            return [((key * 5 + 3) % _KEYS, v, n) for key, (v, n) in sums.items()]
        case "join":
            left, right = inputs
            return [
                (key, value * factor, noise)
                for key, value, noise in left
                for other, factor, _ in right
                if other == key
            ]
        case "total":
            return [(len(rows) * 0, sum(r[1] for r in rows), sum(r[2] for r in rows))]
        case "rows":
            return sorted(rows)
    raise AssertionError(fragment.does)


def oracle(plan: StagePlan) -> list[Row]:
    """The right answer, from running every stage once, as one task."""
    made: list[list[Row]] = []
    for stage in plan.stages:
        fragment = fragment_of(stage)
        if fragment.does == "scan":
            made.append(scanned(fragment, 0, 1))
        else:
            inputs = [made[plan.edges[e.edge].producer] for e in stage.exchanges]
            made.append(worked(fragment, inputs))
    return sorted(made[-1])


# -- sections --------------------------------------------------------------------------------------
class Section(msgspec.Struct, frozen=True, array_like=True):
    """A section file: whose run wrote it, and its rows."""

    run: int
    salt: str
    rows: list[Row]


class Run(msgspec.Struct, frozen=True):
    """One execution of a fragment, and the runs whose rows it read."""

    query: str
    stage: int
    index: int
    reads: dict[tuple[int, int], set[int]]


@dataclass
class Runs:
    """Every execution of every fragment of a seed."""

    known: dict[int, Run] = field(default_factory=dict)
    numbers: Callable[[], int] = field(default_factory=lambda: count(1).__next__)
    count: Callable[[], None] = lambda: None

    def mixed(self, query: str, roots: Iterable[int]) -> list[str]:
        """Tasks of which more than one run was used, somewhere below ``roots``."""
        used: dict[tuple[int, int], set[int]] = defaultdict(set)
        todo, seen = list(roots), set[int]()
        while todo:
            number = todo.pop()
            if number in seen:
                continue
            seen.add(number)
            run = self.known[number]
            if run.query != query:
                return [f"rows of query {run.query}"]
            used[(run.stage, run.index)].add(number)
            for numbers in run.reads.values():
                todo.extend(numbers)
        return [
            f"task {task}: runs {sorted(numbers)}"
            for task, numbers in used.items()
            if len(numbers) > 1
        ]


_DECODE = msgspec.msgpack.Decoder(Section).decode
_ENCODE = msgspec.msgpack.Encoder().encode


def read_section(data: bytes) -> Section:
    return _DECODE(data)


class SimulatedExecutor:
    """Runs fragments over small rows (in place of ``executor.Executor``)."""

    def __init__(
        self, folder: Path, kernel: Kernel, weather: Weather, runs: Runs, query: str
    ) -> None:
        self._folder = folder
        self._kernel = kernel
        self._weather = weather
        self._runs = runs
        self._query = query

    def close(self) -> None:
        """Nothing is kept open."""

    def run(
        self,
        plan: StagePlan,
        stage: int,
        task_index: int,
        files: Mapping[int, Sequence[Path]],
        *,
        interrupt: Interrupt | None = None,
    ) -> TaskOutput:
        number = self._runs.numbers()
        process = process_of()
        self._kernel.note(process.name, f"runs {stage}/{task_index} as run {number}")
        self._runs.count()
        self._take_time(process.name, interrupt or Interrupt())
        fragment = fragment_of(plan.stages[stage])
        if fragment.fails:
            raise FragmentFailed(
                ErrorRecord(kind=fragment.fails, message="so it was planned", scope="query")
            )
        inputs, reads = self._inputs(plan, stage, files)
        rng = self._kernel.random
        if fragment.does == "scan":
            rows = scanned(fragment, task_index, plan.stages[stage].tasks)
            rows = volatile(rows, rng) if fragment.volatile else rows
        elif fragment.does == "keys":
            rows = worked(fragment, ())
        else:
            rows = worked(fragment, inputs)
        self._runs.known[number] = Run(self._query, stage, task_index, reads)
        return self._output(plan, stage, rows, number)

    def _take_time(self, who: str, interrupt: Interrupt) -> None:
        weather = self._weather
        slow = weather.chance(Rate.SLOW_FRAGMENT)
        left = weather.uniform(5, 40) if slow else weather.uniform(0.01, 0.4)
        strike = weather.strike(process_of(), "run")
        if strike is not None:
            self._kernel.note(who, f"*** {strike.fault} in its fragment")
            if "kill" in strike.fault:
                process_of().kill()
            else:
                self._kernel.freeze(process_of(), strike.seconds)
        while left > 0:
            self._kernel.pause(min(left, 1.0))
            left -= 1.0
            if interrupt.fired:
                raise FragmentInterrupted("the fragment was stopped")
        if weather.chance(Rate.FRAGMENT_FAILS):
            raise FragmentFailed(
                ErrorRecord(kind="InputError", message="by chance", retryable=True)
            )
        if weather.chance(Rate.FRAGMENT_DIES):
            process_of().kill()
            process_of()

    def _inputs(
        self, plan: StagePlan, stage: int, files: Mapping[int, Sequence[Path]]
    ) -> tuple[list[list[Row]], dict[tuple[int, int], set[int]]]:
        inputs: list[list[Row]] = []
        reads: dict[tuple[int, int], set[int]] = defaultdict(set)
        for exchange in plan.stages[stage].exchanges:
            rows: list[Row] = []
            for path in files.get(exchange.edge, ()):
                section = _DECODE(path.read_bytes())
                run = self._runs.known[section.run]
                reads[(run.stage, run.index)].add(section.run)
                rows += section.rows
            inputs.append(rows)
        return inputs, reads

    def _output(self, plan: StagePlan, stage: int, rows: list[Row], number: int) -> TaskOutput:
        rng = self._kernel.random
        folder = self._folder / f"run-{number}"
        folder.mkdir(parents=True)
        if fragment_of(plan.stages[stage]).does != "rows":
            rng.shuffle(rows)
        salt = "." * rng.randrange(8)
        sections = []
        outputs = plan.stages[stage].outputs
        if not outputs:
            sections.append(self._section(folder, RESULT_EDGE, 0, rows, number, salt))
        for edge in (plan.edges[e] for e in outputs):
            for partition in range(edge.partitions):
                mine = [
                    row
                    for row in rows
                    if edge.mode is not HASH
                    or row[0] * 2654435761 % 97 % edge.partitions == partition
                ]
                sections.append(self._section(folder, edge.edge, partition, mine, number, salt))
        return TaskOutput(
            folder=folder,
            sections=tuple(sections),
            rows_in=0,
            bytes_in=0,
            rows_out=len(rows),
            bytes_out=sum(s.size for s in sections),
            seconds=0.0,
            peak_memory=0,
        )

    def _section(
        self, folder: Path, edge: int, partition: int, rows: list[Row], run: int, salt: str
    ) -> SectionFile:
        if not rows and edge != RESULT_EDGE:
            return SectionFile(edge=edge, partition=partition, path=None, rows=0, size=0)
        path = folder / f"{edge}-{partition}"
        size = path.write_bytes(_ENCODE(Section(run, salt, rows)))
        return SectionFile(edge=edge, partition=partition, path=path, rows=len(rows), size=size)
