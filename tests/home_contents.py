"""What lies in a home folder, read from its files directly: nothing here asks the engine."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

#: Rows that no ended query may leave. A query's own item stays, final and PURGED, for its answer.
_ROWS = (
    ("queues.db", "queue", "SELECT name FROM queues"),
    ("queues.db", "message", "SELECT id, queue FROM messages"),
    ("state.db", "stage", "SELECT query_id, stage FROM stages"),
    ("state.db", "task", "SELECT query_id, stage, task FROM tasks"),
    ("state.db", "worker", "SELECT query_id, worker_id FROM workers"),
    ("state.db", "owned", "SELECT query_id, name FROM ledger"),
    (
        "state.db",
        "query",
        "SELECT query_id, status, listing FROM queries WHERE listing <> 'PURGED'"
        " OR status NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED')",
    ),
)


def leftovers(
    home: Path, *, kept: tuple[str, ...] = ("receipt",), connected: bool = False
) -> list[str]:
    """A line for everything that ended queries may not leave; none when all is well.

    ``kept`` names the top folders of objects that may stay: receipts, and results still read.
    ``connected``: a client has the home open, so its own scratch folder may stay.
    """
    scratch = list(_scratch(home / "scratch"))
    if connected:
        scratch = [line for line in scratch if not line.startswith("scratch client-")]
    return [*_objects(home / "objects", kept), *scratch, *_items(home)]


def statuses(home: Path) -> list[str]:
    """The status of every query the home remembers, oldest first."""
    return [status for (status,) in _select(home / "state.db", _STATUSES)]


_STATUSES = "SELECT status FROM queries ORDER BY query_id"


def _objects(folder: Path, kept: tuple[str, ...]) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and name.parts[0] not in kept:
            yield f"object {name}"


def _scratch(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        yield f"scratch {path.relative_to(folder)}"


def _items(home: Path) -> Iterator[str]:
    for file, what, sql in _ROWS:
        for row in _select(home / file, sql):
            yield f"{what} {' '.join(map(str, row))}"


def _select(database: Path, sql: str) -> list[tuple[object, ...]]:
    """No rows where there is no file: the engine makes it with the first query."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(sql).fetchall()
