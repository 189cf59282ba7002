"""DuckDB instances: opened ahead, furnished for one plan, and locked before its SQL runs."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import duckdb

from crossdock.executor.types import quote
from crossdock.planner.plan import StagePlan

_MIB = 1024 * 1024
#: Resident bytes of a worker before any row: interpreter, engine, libraries (measured: 105 MiB).
BASE_MEMORY = 110 * _MIB
#: The engine's limit counts its buffers, not every allocation; the rest is for those.
_MEMORY_SHARE = 0.8
_LEAST_MEMORY = 64 * _MIB
#: Levels of expressions and subqueries. The planner's engine takes 1,000, as every DuckDB does; the
#: text of a fragment has more of them than the user's.
_NESTING = 5_000
#: Rows that a partitioned write gathers before it writes: few enough to stay in a cache (the
#: default, 524,288, took 10 % longer).
_FLUSH_ROWS = 65_536
#: Where memory is scarce, they are fewer: packing a batch takes about thrice its bytes, and rows
#: may be wide.
_MEMORY_PER_ROW = 8 << 10


def text(value: str) -> str:
    """An SQL string literal."""
    return "'" + value.replace("'", "''") + "'"


def _open() -> duckdb.DuckDBPyConnection:
    """A fresh in-memory instance; 14 ms of processor time, whatever it is used for."""
    return duckdb.connect(
        ":memory:",
        config={
            "threads": 1,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
        },
    )


class Spare:
    """At most one instance opened ahead of need, by a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opening: Future[duckdb.DuckDBPyConnection] | None = None

    def prepare(self, retired: duckdb.DuckDBPyConnection | None = None) -> None:
        """In the background: close ``retired``; open an instance, if none is waiting."""
        with self._lock:
            opening: Future[duckdb.DuckDBPyConnection] | None = None
            if self._opening is None:
                self._opening = opening = Future()
        # Not a daemon: an interpreter that ends while the engine opens would abort.
        threading.Thread(
            target=_renew, args=(retired, opening), name="spare-engine", daemon=False
        ).start()

    def take(self) -> duckdb.DuckDBPyConnection:
        """The instance that waits, or a new one. It has run nothing yet."""
        with self._lock:
            opening, self._opening = self._opening, None
        return _open() if opening is None else opening.result()

    def close(self) -> None:
        """Close the instance that waits, if any."""
        with self._lock:
            opening, self._opening = self._opening, None
        if opening is not None:
            opening.add_done_callback(_dispose)


def _renew(
    retired: duckdb.DuckDBPyConnection | None, opening: Future[duckdb.DuckDBPyConnection] | None
) -> None:
    try:
        if retired is not None:
            retired.close()
    finally:
        if opening is not None:
            _fulfil(opening)


def _fulfil(opening: Future[duckdb.DuckDBPyConnection]) -> None:
    try:
        opening.set_result(_open())
    except BaseException as error:  # noqa: BLE001 - raised where the instance is taken
        opening.set_exception(error)


def _dispose(opening: Future[duckdb.DuckDBPyConnection]) -> None:
    if opening.exception() is None:
        opening.result().close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Furnishing:
    """What an instance may use, and its session. Memory in bytes: all its process has."""

    folder: Path
    memory_bytes: int
    threads: int
    ordered: bool  # rows keep the order of their input
    session: Sequence[tuple[str, str]] = ()


def connect(furnishing: Furnishing, spare: Spare | None = None) -> duckdb.DuckDBPyConnection:
    """An instance that spills into the folder, not locked yet."""
    connection = spare.take() if spare is not None else _open()
    memory = max(_LEAST_MEMORY, int((furnishing.memory_bytes - BASE_MEMORY) * _MEMORY_SHARE))
    settings = {
        "threads": str(furnishing.threads),
        "memory_limit": text(f"{memory}B"),
        "temp_directory": text(str(furnishing.folder / "spill")),
        "partitioned_write_flush_threshold": str(min(_FLUSH_ROWS, memory // _MEMORY_PER_ROW)),
        "max_expression_depth": str(_NESTING),
        "preserve_insertion_order": str(furnishing.ordered).lower(),
        **{name: text(value) for name, value in furnishing.session},
    }
    # GLOBAL: for every connection to the instance.
    sql = "; ".join(f"SET GLOBAL {quote(name)} = {value}" for name, value in settings.items())
    try:
        connection.execute(sql)
    except BaseException:
        connection.close()
        raise
    return connection


def lock(connection: duckdb.DuckDBPyConnection, paths: Iterable[Path], folder: Path) -> None:
    """From here on: reads of ``paths``, use of ``folder``, no other file and no network."""
    listed = ", ".join(text(str(path)) for path in paths)
    connection.execute(
        f"SET allowed_paths = [{listed}]; "
        f"SET allowed_directories = [{text(str(folder) + '/')}]; "
        "SET enable_external_access = false; "
        "SET lock_configuration = true"
    )


class PlanEngine:
    """The locked instance that runs fragments of one plan."""

    def __init__(
        self,
        plan: StagePlan,
        furnishing: Furnishing,
        allowed: Iterable[Path],
        spare: Spare | None = None,
    ) -> None:
        """``allowed`` are the files it may read besides those in the folder."""
        self.checked: set[int] = set()  # stages whose types were compared with the plan's
        self._plan = plan
        self._furnishing = furnishing
        self._allowed = frozenset(allowed)
        self._spare = spare
        self._connection = connect(furnishing, spare)
        lock(self._connection, sorted(self._allowed), furnishing.folder)

    def serves(self, plan: StagePlan, paths: Iterable[Path], *, sequential: bool) -> bool:
        """Whether a fragment of ``plan`` that reads ``paths`` can run here."""
        return (
            plan is self._plan
            and self._furnishing.ordered == sequential
            and all(self._may_read(path) for path in paths)
        )

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection with temporary views and tables of its own; close it after use."""
        return self._connection.cursor()

    def close(self) -> None:
        if self._spare is None:
            self._connection.close()
        else:
            self._spare.prepare(retired=self._connection)

    def _may_read(self, path: Path) -> bool:
        return path in self._allowed or path.is_relative_to(self._furnishing.folder)
