"""A DuckDB instance for one fragment: its limits, its session, and the doors that are shut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb

from crossdock.executor.types import quote

_MIB = 1024 * 1024
#: Resident bytes of a worker before any row: interpreter, engine, libraries (measured: 105 MiB).
BASE_MEMORY = 110 * _MIB
#: The engine's limit counts its buffers, not every allocation; the rest is for those.
_MEMORY_SHARE = 0.8
_LEAST_MEMORY = 64 * _MIB


def text(value: str) -> str:
    """An SQL string literal."""
    return "'" + value.replace("'", "''") + "'"


def connect(
    folder: Path,
    *,
    memory_bytes: int,
    threads: int,
    ordered: bool,
    session: Sequence[tuple[str, str]],
) -> duckdb.DuckDBPyConnection:
    """A fresh in-memory instance that spills into ``folder``; about 20 ms.

    Fresh for every task: a reused one would keep the last task's settings locked, its views and its
    memory. ``memory_bytes`` is all the worker has.
    """
    memory = max(_LEAST_MEMORY, int((memory_bytes - BASE_MEMORY) * _MEMORY_SHARE))
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": threads,
            "memory_limit": f"{memory}B",
            "temp_directory": str(folder / "spill"),
            "preserve_insertion_order": ordered,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
        },
    )
    for name, value in session:
        connection.execute(f"SET {quote(name)} = {text(value)}")
    return connection


def lock(connection: duckdb.DuckDBPyConnection, paths: Iterable[Path], folder: Path) -> None:
    """From here on: reads of ``paths``, use of ``folder``, no other file and no network."""
    listed = ", ".join(text(str(path)) for path in paths)
    connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute(f"SET allowed_directories = [{text(str(folder) + '/')}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
