"""Which stages of the TPC queries are spread over tasks, and which are one task, and why.

    python -m benchmarks.stages            prints the tables of docs/sql.md
    python -m benchmarks.stages --write    puts them there

Every table is planned as if it had many files without statistics, so that no stage is one task for
being small or ruled out; shuffles are forced. Nothing is run.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import click
import duckdb

from crossdock.catalog import Catalog, TableMeta
from crossdock.errors import CrossdockError
from crossdock.planner.binder import Binder
from crossdock.planner.changes import Changes
from crossdock.planner.options import PlannerOptions
from crossdock.planner.plan import Stage, StagePlan
from crossdock.planner.planning import plan_query
from tests.clickbench import generate as generate_clickbench
from tests.datasets import benchmark_queries, generate
from tests.fuzz.data import make_tables
from tests.fuzz.forms import Forms

PAGE = Path(__file__).resolve().parent.parent / "docs" / "sql.md"
BEGIN, END = "<!-- made by: python -m benchmarks.stages --write -->", "<!-- end -->"
#: Files each table seems to have.
_FILES = 8
_OPTIONS = PlannerOptions(workers=4, partitions=4, broadcast_bytes=0)
_SORTS = frozenset({"order", "top n", "limit"})
#: What one task may do by rule: all else has a distributed form.
ALLOWED = frozenset(
    {
        "final sort or limit",
        "aggregate without groups",
        "a window over all rows",
        "rows of one-task stages",
        "constants",
    }
)


class SpreadCatalog(Catalog):
    """Tables seem to have many files, of which nothing is known but their size."""

    def get(self, name: str) -> TableMeta:
        table = super().get(name)
        files = [
            replace(
                file,
                path=f"{file.path}.{number}",
                row_groups=tuple(replace(group, stats={}) for group in file.row_groups),
            )
            for file in table.files
            for number in range(_FILES)
        ]
        return replace(table, files=tuple(files))


@dataclass(frozen=True)
class Survey:
    """One query's stages."""

    suite: str
    number: str
    stages: int
    one_task: tuple[str, ...]  # why, of each stage that is one task
    whole: str = ""  # why the whole statement is one task


def surveyed(suite: str, number: str, plan: StagePlan) -> Survey:
    if plan.one_task:
        return Survey(suite, number, 1, (), "; ".join(plan.notes) or "reads no table")
    reasons = [_why(plan, stage) for stage in plan.stages if stage.tasks == 1]
    return Survey(suite, number, len(plan.stages), tuple(reasons))


def _why(plan: StagePlan, stage: Stage) -> str:
    """Why a stage is one task."""
    if stage.reasons:
        return "; ".join(stage.reasons)
    producers = [plan.stages[plan.edges[given.edge].producer] for given in stage.exchanges]
    if not producers and not stage.scans:
        return "constants"
    if producers and all(producer.tasks == 1 for producer in producers):
        return "rows of one-task stages"
    steps = stage.label.split(", ")
    if steps[0] == "final aggregate" and "GROUP BY" not in stage.fragment:
        return "aggregate without groups"
    if steps[0] in _SORTS:
        return "final sort or limit"
    return f"no rule: {stage.label}"


def suites() -> Iterator[Survey]:
    """Every query of TPC-H, TPC-DS and ClickBench."""
    folders = {"TPC-H": generate("tpch"), "TPC-DS": generate("tpcds")}
    for suite, folder in folders.items():
        tables = {path.stem: str(path) for path in folder.glob("*.parquet")}
        yield from _suite(suite, tables, benchmark_queries(suite.replace("-", "").lower()))
    hits = {"hits": str(generate_clickbench())}
    yield from _suite("ClickBench", hits, benchmark_queries("clickbench"))


def _suite(suite: str, tables: dict[str, str], queries: list[tuple[str, str]]) -> Iterator[Survey]:
    catalog = SpreadCatalog()
    for name, source in sorted(tables.items()):
        catalog.add(name, source)
    binder = Binder(catalog, timezone="UTC")
    for number, sql in queries:
        yield surveyed(suite, number, plan_query(binder.bind(sql), _OPTIONS))
    binder.close()


def generated(first: int, seeds: int, questions: int = 20) -> Iterator[Survey]:
    """Random queries that DuckDB takes and that read tables."""
    for seed in range(first, first + seeds):
        with tempfile.TemporaryDirectory(prefix="crossdock-stages-") as folder:
            yield from _of_seed(seed, Path(folder), questions)


def _of_seed(seed: int, folder: Path, questions: int) -> Iterator[Survey]:
    random, catalog = Random(seed), Catalog()
    with duckdb.connect(config={"threads": 1}) as oracle:
        oracle.execute("SET TimeZone = 'UTC'")
        tables = make_tables(random, oracle, folder)
        for table in tables:
            catalog.add(table.name, [str(path) for path in table.files])
        binder = Binder(catalog, timezone="UTC")
        forms = Forms(random, oracle, tables)
        for number in range(questions):
            question = forms.question()
            try:
                for made in question.setup:
                    Changes(catalog, binder, sessions=True).prepare(made).apply()
                bound = binder.bind(question.sql, question.parameters or None)
            except CrossdockError:
                continue  # wrong on purpose
            if bound.tables:
                yield surveyed(str(seed), str(number), plan_query(bound, _OPTIONS))
        binder.close()


# -- the page --------------------------------------------------------------------------------------


def page_part(found: list[Survey], random: list[Survey]) -> str:
    """The tables of docs/sql.md."""
    lines = ["| queries | plans | decoded | one task as a whole |", "|---|---|---|---|"]
    for suite in ("TPC-H", "TPC-DS", "ClickBench"):
        lines.append(_counted(suite, [each for each in found if each.suite == suite]))
    if random:
        lines.append(_counted("random queries (`make fuzz`)", random))
    lines += _reasons(random)
    lines += ["", "| query | stages | one-task stages | what they do |", "|---|---|---|---|"]
    for each in found:
        listed = ", ".join(_times(kind, n) for kind, n in Counter(each.one_task).items())
        cells = (f"{each.suite} {each.number}", each.stages, len(each.one_task) or "", listed)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _counted(name: str, plans: list[Survey]) -> str:
    whole = sum(bool(each.whole) for each in plans)
    return f"| {name} | {len(plans)} | {len(plans) - whole} | {whole} |"


def _reasons(random: list[Survey]) -> list[str]:
    reasons = Counter(each.whole for each in random if each.whole)
    listed = [f"- {reason}: {count}" for reason, count in reasons.most_common()]
    return ["", "Reasons among the random ones:", "", *listed] if listed else []


def _times(kind: str, count: int) -> str:
    return kind if count == 1 else f"{kind} ({count})"


def random_part(text: str) -> list[str]:
    """The lines of the page about random queries, which are too many to count in every test."""
    return re.findall(r"^\| random queries.*$", text, re.MULTILINE)


@click.command()
@click.option("--write", is_flag=True, help="put the tables into docs/sql.md")
@click.option("--seeds", default=100, help="of random queries, 20 each")
def main(write: bool, seeds: int) -> None:
    part = page_part(list(suites()), list(generated(0, seeds)))
    if not write:
        click.echo(part)
        return
    text = PAGE.read_text()
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{part}\n\n{END}{after}")


if __name__ == "__main__":
    main()
