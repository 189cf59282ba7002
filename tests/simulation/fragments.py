"""What fragments do to small rows, and the right answers.

A row is (key, value, noise). A fragment that is not deterministic draws keys and noise anew in
every attempt; its noise sums to 0 over all it writes. So when a consumer mixes two attempts, or
takes a row twice, sums at the end are wrong.
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
    StagePlan,
)
from crossdock.shuffle.spec import RESULT_EDGE, SectionFile
from tests.simulation.kernel import Kernel, process_of
from tests.simulation.plans import HASH, Fragment, fragment_of
from tests.simulation.weather import Rate, Weather

Row: TypeAlias = tuple[int, int, int]
_BIGINT = CarriedColumn(type="BIGINT")
_KEYS = 7


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
