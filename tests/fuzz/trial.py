"""One seed from beginning to end: tables, questions, DuckDB's answers, and another engine's."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Protocol

import duckdb

import crossdock
from crossdock.catalog import Catalog
from crossdock.client.statements import result_query
from crossdock.executor import Executor
from crossdock.planner.binder import Binder
from crossdock.planner.changes import Changes
from crossdock.planner.optimizer_rules import WHITELIST
from crossdock.planner.options import PlannerOptions
from crossdock.planner.plan import ShuffleMode, StagePlan
from crossdock.planner.planning import plan_query
from tests.fuzz.data import Table, make_tables
from tests.fuzz.forms import Forms
from tests.fuzz.queries import Question
from tests.oracle import Answer, assert_same

#: Rows beyond which a question is too dear to ask of several engines.
_MOST_ROWS = 200_000
_EXACT = ("TIMESTAMP", "TIME", "DATE")


@dataclass(frozen=True)
class Options:
    """How a query is to be cut."""

    partitions: int
    broadcast_bytes: int
    exchange: str = "s3qs"
    workers: int = 2
    rules: float = 1.0  # share of the optimizer's rules that are on, in process
    rules_seed: int = 0

    @staticmethod
    def choose(random: Random) -> Options:
        return Options(
            partitions=random.choice((1, 2, 3, 7)),
            broadcast_bytes=random.choice((0, 0, 64 * 1024 * 1024)),
            exchange=random.choice(("s3qs", "batch")),
            workers=random.choice((1, 2, 5)),
            rules=random.choice((1.0, 1.0, 1.0, 0.5, 0.0)),
            rules_seed=random.randrange(1000),
        )

    @property
    def chosen_rules(self) -> frozenset[str]:
        rules = sorted(WHITELIST)
        count = round(len(rules) * self.rules)
        return frozenset(Random(self.rules_seed).sample(rules, k=count))


class Engine(Protocol):
    """What is compared with DuckDB."""

    def open(self, tables: list[Table]) -> None: ...

    def ask(self, question: Question, options: Options) -> Answer:
        """Raises ``crossdock.Error``."""
        ...


@dataclass(frozen=True)
class Difference:
    """A question that was answered otherwise, and what came instead."""

    seed: int
    question: Question
    options: Options
    complaint: str

    def __str__(self) -> str:
        asked = "\n".join([*self.question.setup, self.question.sql])
        given = f"\nparameters {self.question.parameters}" if self.question.parameters else ""
        return f"seed {self.seed}, {self.options}:\n{asked}{given}\n{self.complaint}"


class InProcess:
    """Planner and executor without workers, queues and state: fast."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._executor = Executor(home / "scratch", 512_000_000, 1)
        self._catalog = Catalog(home)
        self._binders: dict[frozenset[str], Binder] = {}
        #: Of plans with every rule on: how many there were, and why some are one task.
        self.planned = 0
        self.whole: Counter[str] = Counter()

    def open(self, tables: list[Table]) -> None:
        for table in tables:
            self._catalog.add(table.name, [str(path) for path in table.files])

    def ask(self, question: Question, options: Options) -> Answer:
        binder = self._binder(options.chosen_rules)
        for made in question.setup:
            Changes(self._catalog, binder, sessions=True).prepare(made).apply()
        planned = PlannerOptions(
            workers=options.workers,
            partitions=options.partitions,
            single_task_limit=0,
            broadcast_bytes=options.broadcast_bytes,
        )
        plan = plan_query(binder.bind(question.sql, question.parameters or None), planned)
        if options.rules == 1.0 and any(stage.scans for stage in plan.stages):
            self.planned += 1
            self.whole.update(plan.notes if plan.one_task else ())
        try:
            return self._run(plan)
        finally:
            shutil.rmtree(self._home / "scratch", ignore_errors=True)

    def _binder(self, rules: frozenset[str]) -> Binder:
        """One for all rules, one for none, and one for the last choice of some."""
        if rules not in self._binders:
            for old in [old for old in self._binders if old not in (frozenset(), WHITELIST)]:
                self._binders.pop(old).close()
            self._binders[rules] = Binder(self._catalog, timezone="UTC", rules=rules)
        return self._binders[rules]

    def _run(self, plan: StagePlan) -> Answer:
        made: dict[tuple[int, int], list[Path]] = {}  # by edge and partition
        final: list[Path] = []
        for stage in plan.stages:
            for task in range(stage.tasks):
                files = {
                    given.edge: made.get((given.edge, _partition(plan, given.edge, task)), [])
                    for given in stage.exchanges
                }
                for section in self._executor.run(plan, stage.stage, task, files).sections:
                    if section.path is None:
                        continue
                    made.setdefault((section.edge, section.partition), []).append(section.path)
                    if not stage.outputs:
                        final.append(section.path)
        with duckdb.connect() as reader:
            reader.execute("SET TimeZone = 'UTC'")
            return answer(reader, result_query(plan.columns, final))


def _partition(plan: StagePlan, edge: int, task: int) -> int:
    hashed = plan.edges[edge].mode is ShuffleMode.HASH and plan.edges[edge].partitions > 1
    return task if hashed else 0


class Whole:
    """A connection with workers, as a user has it."""

    def __init__(self, home: Path) -> None:
        self._connections = {
            exchange: crossdock.connect(
                home=home / exchange,
                workers=2,
                exchange=exchange,
                single_task_bytes=0,
                worker_memory="512MB",
                timezone="UTC",
            )
            for exchange in ("s3qs", "batch")
        }

    def open(self, tables: list[Table]) -> None:
        for connection in self._connections.values():
            for table in tables:
                connection.tables.add(table.name, [str(path) for path in table.files])

    def ask(self, question: Question, options: Options) -> Answer:
        connection = self._connections[options.exchange]
        connection.settings = replace(
            connection.settings,
            partitions=options.partitions,
            broadcast_bytes=options.broadcast_bytes,
        )
        for made in question.setup:
            connection.execute(made)
        parameters = question.parameters or None
        with connection.cursor(as_text=_is_exact).execute(question.sql, parameters) as cursor:
            rows = tuple(cursor.fetchall())
            return Answer(tuple((each[0], each[1]) for each in cursor.description or ()), rows)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


def _is_exact(kind: str) -> bool:
    """Types whose Python values lose digits or ends; they are compared as text."""
    return kind.startswith(_EXACT) and "[" not in kind


def answer(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: tuple[Any, ...] = ()
) -> Answer:
    """Names, types and rows."""
    given = list(parameters) or None
    relation = connection.sql(sql, params=given)
    columns = tuple(zip(relation.columns, map(str, relation.types), strict=True))
    names = ", ".join(f"c{i}" for i in range(len(columns)))
    items = ", ".join(
        f"c{i}::VARCHAR" if _is_exact(kind) else f"c{i}" for i, (_, kind) in enumerate(columns)
    )
    rows = connection.execute(f"SELECT {items} FROM ({sql}\n) AS q({names})", given).fetchall()
    return Answer(columns, tuple(rows))


class Trial:
    """Questions of one seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.oracle = duckdb.connect(config={"threads": 1})
        self.oracle.execute("SET TimeZone = 'UTC'")
        self.tables = make_tables(self.random, self.oracle, folder)

    def run(self, engine: Engine, questions: int) -> Iterator[Difference | None]:
        """Ask; None for each answer that is right."""
        engine.open(self.tables)
        queries = Forms(self.random, self.oracle, self.tables)
        for _ in range(questions):
            question, options = queries.question(), Options.choose(self.random)
            complaint = self.compare(engine, question, options)
            yield Difference(self.seed, question, options, complaint) if complaint else None

    def compare(self, engine: Engine, question: Question, options: Options) -> str:
        """What is wrong; "" if nothing is."""
        try:
            expected: Answer | duckdb.Error = self._ask_oracle(question)
        except duckdb.Error as error:
            expected = error
        except _TooMany:
            return ""
        try:
            found = engine.ask(question, options)
        except crossdock.Error as error:
            return self._complaint_of(error, expected, question)
        if isinstance(expected, Answer):
            try:
                assert_same(found, expected, ordered=question.ordered)
            except AssertionError as difference:
                return str(difference)[:2000]
            return ""
        if _is_late(expected):
            return ""  # the row that fails need not be looked at
        return f"answered, although DuckDB refuses: {expected}"

    def _ask_oracle(self, question: Question) -> Answer:
        for made in question.setup:
            self.oracle.execute(made)
        given = list(question.parameters) or None
        counted = self.oracle.execute(f"SELECT count(*) FROM ({question.sql}\n)", given)
        (rows,) = counted.fetchone() or (0,)
        if rows > _MOST_ROWS:
            raise _TooMany
        return answer(self.oracle, question.sql, question.parameters)

    def _complaint_of(
        self, error: crossdock.Error, expected: Answer | duckdb.Error, question: Question
    ) -> str:
        if isinstance(expected, Answer):
            return "" if self._fails_unoptimized(question) else f"refused: {error!r}"
        reason = str(expected).split("\n")[0].partition("Error: ")[2]
        if reason[:12] in str(error) or _is_late(expected):
            return ""
        return f"refused with {error!r} instead of {expected}"

    def _fails_unoptimized(self, question: Question) -> bool:
        """Whether it is chance that DuckDB did not meet the row that fails."""
        self.oracle.execute("PRAGMA disable_optimizer")
        try:
            self._ask_oracle(question)
        except duckdb.Error as error:
            return _is_late(error)
        finally:
            self.oracle.execute("PRAGMA enable_optimizer")
        return False


class _TooMany(Exception):
    pass


def _is_late(error: duckdb.Error) -> bool:
    """An error that depends on the rows evaluated."""
    return isinstance(error, (duckdb.ConversionException, duckdb.OutOfRangeException)) or (
        "Invalid Input" in str(error)
    )


def run_seed(engine: Engine, seed: int, questions: int) -> list[Difference]:
    """Every difference of one seed."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        found = Trial(seed, folder).run(engine, questions)
        return [difference for difference in found if difference is not None]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
