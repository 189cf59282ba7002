"""Reads result objects a page at a time, and turns them into files of other forms."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from crossdock.errors import InternalError
from crossdock.executor.engine import Furnishing, connect, lock, text
from crossdock.executor.remote import Rows
from crossdock.planner.plan import ResultColumn
from crossdock.platform.ports import Objects
from crossdock.results.decoding import as_text, renamed_query, result_query, rows_query
from crossdock.results.fetched import Fetched
from crossdock.results.text import write_csv
from crossdock.results.values import is_text, row_encoder

#: Rows taken from the engine at a time.
_BLOCK = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A result: its objects in order, and what its columns are."""

    keys: Sequence[str]
    columns: Sequence[ResultColumn]
    session: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """``lines`` are rows as JSON arrays; ``next`` is the part and row that follow."""

    lines: Sequence[bytes]
    next: tuple[int, int] | None
    too_large: bool = False  # its first row alone is larger than a page may be


class ResultReader:
    """Reads results; threads may share one. ``memory`` in bytes."""

    def __init__(self, objects: Objects, scratch: Path, *, memory: int, threads: int = 1) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self._fetched = Fetched(objects, scratch)
        self.scratch = scratch
        self._memory = memory
        self._threads = threads

    def page(self, answer: Answer, place: tuple[int, int], *, limit: int, max_bytes: int) -> Page:
        """Up to ``limit`` rows, whose JSON is up to ``max_bytes`` long, from a part's row on.

        Raises ``ObjectNotFound`` when the result was removed.
        """
        lines: list[bytes] = []
        part, row = place
        size = 0
        while part < len(answer.keys) and len(lines) < limit:
            wanted = limit - len(lines)
            got = 0
            rows = Rows(row, row + wanted - 1)
            with (
                self._fetched.rows(answer.keys[part], rows) as file,
                self._engine(answer, file) as engine,
            ):
                for line in _lines(engine, answer, file, row, wanted):
                    if size + len(line) > max_bytes:
                        return Page(lines=lines, next=(part, row + got), too_large=not lines)
                    lines.append(line)
                    size += len(line) + 1
                    got += 1
            part, row = (part, row + got) if got == wanted else (part + 1, 0)
        return Page(lines=lines, next=(part, row) if part < len(answer.keys) else None)

    def export(self, answer: Answer, part: int, form: str, target: Path) -> None:
        """Write one part as ``parquet``, ``csv`` or ``arrow`` (an IPC stream).

        Parquet has no form of some types: their columns stay in their carriers (a HUGEINT as
        text), so no digit is lost. Raises ``ObjectNotFound``, ``KeyError`` for another form.
        """
        write = {"parquet": _parquet, "csv": _csv, "arrow": _arrow}[form]
        with self._fetched.whole(answer.keys[part]) as file, self._engine(answer, file) as engine:
            write(engine, answer, file, target)

    @contextmanager
    def _engine(self, answer: Answer, file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
        folder = Path(tempfile.mkdtemp(prefix="read-", dir=self.scratch)).absolute()
        try:
            engine = connect(
                Furnishing(
                    folder=folder,
                    memory_bytes=self._memory,
                    threads=self._threads,
                    ordered=True,
                    session=answer.session,
                )
            )
            with engine:
                lock(engine, [file], self.scratch.absolute())
                yield engine
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _lines(
    engine: duckdb.DuckDBPyConnection, answer: Answer, file: Path, first: int, count: int
) -> Iterator[bytes]:
    sql = as_text(rows_query(answer.columns, file, first, count), answer.columns, is_text)
    encode = row_encoder([column.type for column in answer.columns])
    for rows in _blocks(engine, sql):
        yield from map(encode, rows)


def _blocks(engine: duckdb.DuckDBPyConnection, sql: str) -> Iterator[list[tuple[object, ...]]]:
    engine.execute(sql)
    while rows := engine.fetchmany(_BLOCK):
        yield rows


def _parquet(engine: duckdb.DuckDBPyConnection, answer: Answer, file: Path, target: Path) -> None:
    sql = renamed_query(answer.columns, file)
    engine.execute(f"COPY ({sql}) TO {text(str(target))} (FORMAT parquet, COMPRESSION zstd)")


def _csv(engine: duckdb.DuckDBPyConnection, answer: Answer, file: Path, target: Path) -> None:
    sql = as_text(result_query(answer.columns, [file]), answer.columns, is_text)
    columns = [(column.name, column.type) for column in answer.columns]
    with target.open("wb") as stream:
        write_csv(columns, _blocks(engine, sql), stream)


def _arrow(engine: duckdb.DuckDBPyConnection, answer: Answer, file: Path, target: Path) -> None:
    import pyarrow as pa  # heavy: only for this form

    engine.execute(result_query(answer.columns, [file]))
    with warnings.catch_warnings():
        # The engine advises a lazy relation, which the ordinary statement is as good as.
        warnings.simplefilter("ignore", UserWarning)
        reader = engine.to_arrow_reader(_BLOCK * 100)
    if reader is None:
        raise InternalError("the engine gave no reader of its result")
    with pa.OSFile(str(target), "wb") as sink, pa.ipc.new_stream(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
