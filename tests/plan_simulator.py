"""Runs a stage plan in one DuckDB connection: temporary tables in place of exchange objects.

It proves that stages, edges and fragments are right (each task sees its own splits and partitions,
nothing else); it proves nothing about the protocol that moves them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb

from crossdock.planner.plan import FileSlice, ScanInput, ShuffleMode, Stage, StagePlan


@dataclass(frozen=True)
class Answer:
    types: list[str]
    rows: list[tuple]


class PlanSimulator:
    def __init__(self) -> None:
        self.connection = duckdb.connect(config={"threads": 2})

    def run(self, plan: StagePlan) -> Answer:
        """The plan's answer, in the order of the final stage's tasks."""
        for name, value in plan.session:
            self.connection.execute(f"SET {name} = '{value}'")
        try:
            return self._run(plan)
        finally:
            self._clean()

    def _run(self, plan: StagePlan) -> Answer:
        for stage in plan.stages[:-1]:
            for task in range(stage.tasks):
                self._bind(plan, stage, task)
                table = f"out_{stage.stage}_{task}"
                columns = "".join(f", {_partition(plan, e)} AS p{e}" for e in stage.outputs)
                self.connection.execute(
                    f"CREATE TEMP TABLE {table} AS SELECT *{columns} FROM ({stage.fragment})"
                )
        final, types, rows = plan.stages[-1], [], []
        for task in range(final.tasks):
            self._bind(plan, final, task)
            result = self.connection.execute(final.fragment)
            types = [str(column[1]) for column in result.description]
            rows += result.fetchall()
        return Answer(types, rows)

    def _bind(self, plan: StagePlan, stage: Stage, task: int) -> None:
        for scan in stage.scans:
            self._view(scan.name, scan_query(scan, task))
        for given in stage.exchanges:
            edge = plan.edges[given.edge]
            columns = ", ".join(f"c{i}" for i in range(len(edge.columns)))
            wanted = task if edge.mode is ShuffleMode.HASH else 0
            made, kept = f"out_{edge.producer}", f"p{edge.edge} = {wanted}"
            arms = [
                f"SELECT {columns} FROM {made}_{producer} WHERE {kept}"
                for producer in range(plan.stages[edge.producer].tasks)
            ]
            self._view(given.name, " UNION ALL ".join(arms))

    def _view(self, name: str, query: str) -> None:
        quoted = name.replace('"', '""')
        self.connection.execute(f'CREATE OR REPLACE TEMP VIEW "{quoted}" AS {query}')

    def _clean(self) -> None:
        for kind, name in self.connection.execute(
            "SELECT 'VIEW', view_name FROM duckdb_views() WHERE temporary AND NOT internal "
            "UNION ALL SELECT 'TABLE', table_name FROM duckdb_tables() WHERE temporary"
        ).fetchall():
            self.connection.execute(f'DROP {kind} temp."{name}"')


def _partition(plan: StagePlan, number: int) -> str:
    edge = plan.edges[number]
    if edge.mode is not ShuffleMode.HASH:
        return "0"
    return f"((hash({', '.join(edge.keys)}) >> 32) % {edge.partitions})::INTEGER"


def scan_query(scan: ScanInput, task: int) -> str:
    """What ``task`` sees of a table: its slices, columns cast to the planned types."""
    pieces = scan.splits[0] if scan.whole else scan.splits[task]
    columns = [
        f'CAST("{name}" AS {type_text}) AS "{name}"'
        for name, type_text in zip(scan.columns, scan.types, strict=True)
    ] or ["1 AS nothing"]
    arms = [
        f"SELECT {', '.join(columns)} FROM {_file(scan, piece)} WHERE {_range(piece)}"
        for piece in pieces
    ]
    nothing = [
        f'CAST(NULL AS {type_text}) AS "{name}"'
        for name, type_text in zip(scan.columns, scan.types, strict=True)
    ] or ["1 AS nothing"]
    return " UNION ALL ".join(arms) or f"SELECT {', '.join(nothing)} WHERE false"


def _file(scan: ScanInput, piece: FileSlice) -> str:
    path = piece.path.replace("'", "''")
    hive = ", hive_partitioning = true" if scan.hive_types else ""
    return f"read_parquet('{path}', file_row_number = true{hive})"


def _range(piece: FileSlice) -> str:
    if piece.last < 0:
        return "true"
    return f"file_row_number BETWEEN {piece.first} AND {piece.last}"


def comparable(rows: list[tuple], *, ordered: bool) -> list[tuple]:
    """Rows with floats rounded to 9 digits, sorted unless their order is the answer's."""
    rounded = [tuple(map(_comparable_value, row)) for row in rows]
    return rounded if ordered else sorted(rounded, key=repr)


def _comparable_value(value: object) -> object:
    if isinstance(value, float):
        return f"{value + 0.0:.9g}"  # NaN equals itself as text, and so do the two zeros
    return value


def differences(plan: StagePlan, want: Answer, got: Answer) -> Iterator[str]:
    """What is wrong with ``got``, in words; nothing if it is the right answer."""
    planned = [column.type for column in plan.columns]
    if got.types != want.types:
        yield f"types {got.types} instead of {want.types}"
    if planned != want.types:
        yield f"planned types {planned} instead of {want.types}"
    if comparable(got.rows, ordered=False) != comparable(want.rows, ordered=False):
        yield f"{len(got.rows)} rows {got.rows[:3]} instead of {len(want.rows)} {want.rows[:3]}"
