"""Runs one stage's fragment for one task, in an engine of its own that sees nothing else."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from crossdock.errors import CrossdockError
from crossdock.executor.carriers import check_columns
from crossdock.executor.damage import with_damaged_file
from crossdock.executor.engine import Furnishing, PlanEngine, Spare
from crossdock.executor.failures import (
    FragmentFailed,
    FragmentInterrupted,
    SourceChanged,
    classify,
    without_places,
)
from crossdock.executor.inputs import (
    OpenSlice,
    Reading,
    count_read,
    exchange_query,
    in_users_words,
    open_slices,
    slices_of,
    slices_of_plan,
)
from crossdock.executor.interrupt import Interrupt
from crossdock.executor.memory_advice import with_advice
from crossdock.executor.outputs import check_types, source_of, write_edge, write_result
from crossdock.executor.scans import scan_query
from crossdock.executor.sources import LocalSources, Sources
from crossdock.executor.types import quote
from crossdock.executor.writing import OutputFile, write_files
from crossdock.planner.plan import FileSlice, ScanInput, Stage, StagePlan
from crossdock.process_memory import peak_resident
from crossdock.remedies import LOCAL, Remedies
from crossdock.remote_files import Check
from crossdock.shuffle.spec import SectionFile


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutput:
    """What a fragment made, as files in ``folder``, and what it took.

    For the result stage ``sections`` is one file of edge ``RESULT_EDGE``. Bytes are those of table
    column chunks read and of Parquet written; exchanged input is counted by the collector.
    """

    folder: Path
    sections: tuple[SectionFile, ...]
    files: tuple[OutputFile, ...] = ()  # of the last stage of a statement that writes
    rows_in: int
    bytes_in: int
    rows_out: int
    bytes_out: int
    seconds: float
    peak_memory: int  # bytes, resident, of this process so far

    def discard(self) -> None:
        """Delete the files; call when they are uploaded or not wanted."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Executor:
    """Runs fragments with a worker's memory (bytes) and threads, in folders below ``scratch``.

    Fragments of one plan share a locked engine instance, which sees the plan's files and
    ``scratch``; each fragment has a connection, views and temporary tables of its own. Another
    plan, or any failure, gets a new instance.
    """

    def __init__(
        self,
        scratch: Path,
        memory_bytes: int,
        threads: int,
        *,
        sources: Sources | None = None,
        spare: Spare | None = None,
        remedies: Remedies = LOCAL,
    ) -> None:
        """``spare`` has an instance open early; ``remedies`` is what errors advise."""
        self._scratch = scratch.absolute()
        self._memory = memory_bytes
        self._threads = threads
        self._sources = sources or LocalSources()
        self._spare = spare
        self._remedies = remedies
        self._engine: PlanEngine | None = None

    def close(self) -> None:
        """Close the instance; the next fragment opens another."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def run(
        self,
        plan: StagePlan,
        stage: int,
        task_index: int,
        files: Mapping[int, Sequence[Path]],
        *,
        interrupt: Interrupt | None = None,
    ) -> TaskOutput:
        """Run the fragment of ``stage`` once; ``files`` are the sections of each inbound edge.

        Raises ``FragmentFailed`` with the record of the error, ``FragmentInterrupted`` if stopped.
        Nothing is left on disk when it raises.
        """
        run = _Run(plan, plan.stages[stage], task_index, files, self._sources)
        interrupt = interrupt or Interrupt()
        self._scratch.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{stage}-{task_index}-", dir=self._scratch))
        try:
            return self._run(run, folder, interrupt)
        except BaseException as error:
            # Whatever the engine was in the middle of must not reach the next fragment.
            self.close()
            try:
                failure = self._failure(error, run, interrupt)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            if failure is None:
                raise
            raise failure from error

    def _failure(
        self, error: BaseException, run: _Run, interrupt: Interrupt
    ) -> FragmentInterrupted | FragmentFailed | None:
        """What to raise instead of ``error``; None if it is not the fragment's."""
        if not isinstance(error, (duckdb.Error, CrossdockError, OSError, MemoryError)):
            return None
        if interrupt.fired:
            return FragmentInterrupted("the fragment was stopped")
        # A file that went away meanwhile is the reason, whatever the engine made of it.
        record = classify(run.moved_source() or error, run.inputs)
        if not run.plan.one_task:
            record = without_places(record)
        record = with_damaged_file(record, run.readings)
        record = with_advice(record, run.readings, self._memory, self._remedies)
        return FragmentFailed(in_users_words(record, run.readings))

    def _run(self, run: _Run, folder: Path, interrupt: Interrupt) -> TaskOutput:
        interrupt.check()
        engine = self._engine_of(run, run.open_sources(folder, interrupt.check))
        with engine.cursor() as connection:
            interrupt.bind(connection)
            try:
                return run.output(connection, engine, folder, interrupt)
            finally:
                interrupt.bind(None)

    def _engine_of(self, run: _Run, paths: Sequence[Path]) -> PlanEngine:
        """The instance for ``run``, which reads ``paths``."""
        engine = self._engine
        sequential = run.plan.one_task or run.stage.sequential
        if engine is not None and engine.serves(run.plan, paths, sequential=sequential):
            return engine
        self.close()
        furnishing = Furnishing(
            folder=self._scratch,
            memory_bytes=self._memory,
            threads=self._threads,
            ordered=sequential,
            session=run.plan.session,
        )
        resident = map(self._sources.resident, slices_of_plan(run.plan))
        allowed = {*paths, *(path for path in resident if path is not None)}
        self._engine = PlanEngine(run.plan, furnishing, allowed, self._spare)
        return self._engine


class _Run:
    """One run of one fragment: its inputs, its connection's views, its output."""

    def __init__(
        self,
        plan: StagePlan,
        stage: Stage,
        task_index: int,
        files: Mapping[int, Sequence[Path]],
        sources: Sources,
    ) -> None:
        self.plan = plan
        self.stage = stage
        self._edges = {edge.edge: edge for edge in plan.edges}
        self._slices: list[tuple[FileSlice, ...]] = [
            slices_of(scan, task_index) for scan in stage.scans
        ]
        self._opened: list[list[OpenSlice]] = []
        self._files = files
        self._sources = sources
        self._rows_in = 0
        self._bytes_in = 0

    @property
    def inputs(self) -> list[str]:
        """Names of the table files read."""
        return [slice.path for slices in self._slices for slice in slices]

    @property
    def readings(self) -> list[Reading]:
        """What is read of each table file."""
        return [
            Reading(each, scan.columns)
            for scan, opened in zip(self.stage.scans, self._opened, strict=False)
            for each in opened
        ]

    def open_sources(self, folder: Path, check: Check) -> list[Path]:
        """Make all input readable; the paths it is read from. ``check`` raises to stop it."""
        scans = list(zip(self.stage.scans, self._slices, strict=True))
        self._opened = open_slices(self._sources, scans, folder, check)
        paths = [path for opened in self._opened for each in opened for path in each.paths]
        for exchange in self.stage.exchanges:
            paths += self._files.get(exchange.edge, ())
        return paths

    def output(
        self,
        connection: duckdb.DuckDBPyConnection,
        engine: PlanEngine,
        folder: Path,
        interrupt: Interrupt,
    ) -> TaskOutput:
        started = time.perf_counter()
        target = folder / "out"
        target.mkdir()
        self._create_views(connection)
        interrupt.check()
        sections, files, rows = self._write(connection, engine, target, interrupt)
        self._confirm_sources()
        return TaskOutput(
            folder=folder,
            sections=sections,
            files=files,
            rows_in=self._rows_in,
            bytes_in=self._bytes_in,
            rows_out=rows,
            bytes_out=sum(section.size for section in sections) + sum(file.size for file in files),
            seconds=time.perf_counter() - started,
            peak_memory=peak_resident(),
        )

    def _create_views(self, connection: duckdb.DuckDBPyConnection) -> None:
        for scan, opened in zip(self.stage.scans, self._opened, strict=True):
            rows, size = count_read(connection, scan, opened)
            self._rows_in += rows
            self._bytes_in += size
            self._create_view(connection, scan, scan_query(connection, scan, opened))
        for exchange in self.stage.exchanges:
            files = self._files.get(exchange.edge, ())
            query = exchange_query(self._edges[exchange.edge].columns, files)
            connection.execute(f"CREATE TEMP VIEW {quote(exchange.name)} AS {query}")

    def _create_view(
        self, connection: duckdb.DuckDBPyConnection, scan: ScanInput, query: str
    ) -> None:
        if not self.plan.one_task:
            connection.execute(f"CREATE TEMP VIEW {quote(scan.name)} AS {query}")
            return
        # The user's own text knows the catalog's names, perhaps as main.name.
        connection.execute(f"CREATE OR REPLACE VIEW {quote(scan.table)} AS {query}")

    def _write(
        self,
        connection: duckdb.DuckDBPyConnection,
        engine: PlanEngine,
        target: Path,
        interrupt: Interrupt,
    ) -> tuple[tuple[SectionFile, ...], tuple[OutputFile, ...], int]:
        """Sections, files, and the rows of both."""
        columns = self.stage.columns
        names = () if self.stage.outputs else tuple(each.name for each in self.plan.columns)
        write = None if self.stage.outputs else self.plan.write
        if write is None:
            check_columns(columns, names)
        source = source_of(self.stage.fragment, columns)
        if self.stage.stage not in engine.checked:
            # Inputs are cast to the plan's types, so every task of the stage makes the same ones.
            check_types(connection, source, columns)
            engine.checked.add(self.stage.stage)
        if write is not None:
            files, rows = write_files(connection, source, write, target)
            return (), tuple(files), rows
        if not self.stage.outputs:
            result = write_result(connection, source, columns, target)
            return result, (), sum(section.rows for section in result)
        if len(self.stage.outputs) > 1:
            # Run once for all edges: two runs need not give the same rows.
            connection.execute(f"CREATE TEMP TABLE crossdock_output AS SELECT * FROM {source}")
            source = "crossdock_output"
        sections: list[SectionFile] = []
        for number in self.stage.outputs:
            interrupt.check()
            sections += write_edge(connection, source, self._edges[number], target)
        return tuple(sections), (), sum(section.rows for section in sections)

    def moved_source(self) -> SourceChanged | None:
        """What is said of a table file that is not the planned one any more, if there is one."""
        try:
            self._confirm_sources()
        except SourceChanged as moved:
            return moved
        except OSError:
            return None  # the engine's own words are as good
        return None

    def _confirm_sources(self) -> None:
        for slices in self._slices:
            for slice in slices:
                self._sources.confirm(slice)
