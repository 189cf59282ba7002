"""One SQLite file shared by threads and processes: connections, transactions, errors, changes.

WAL lets readers run beside the one writer; writers take their lock at BEGIN, so a transaction that
started cannot fail half way for want of it. With ``synchronous=NORMAL`` a killed process loses
nothing; a power cut may lose the last commits, never tear one.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import tenacity

from coordinator_state.errors import StateError, StoreDamaged, StoreUnavailable

SCHEMA_VERSION = 3

_TABLES = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS queries (
    query_id TEXT PRIMARY KEY, status TEXT NOT NULL, listing TEXT NOT NULL, expires_at REAL,
    record BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS queries_by_listing ON queries (listing, query_id);
CREATE TABLE IF NOT EXISTS stages (
    query_id TEXT NOT NULL, stage INTEGER NOT NULL, record BLOB NOT NULL,
    PRIMARY KEY (query_id, stage)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tasks (
    query_id TEXT NOT NULL, stage INTEGER NOT NULL, task INTEGER NOT NULL,
    status TEXT NOT NULL, record BLOB NOT NULL,
    PRIMARY KEY (query_id, stage, task)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS workers (
    query_id TEXT NOT NULL, worker_id TEXT NOT NULL, launched_at REAL NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (query_id, worker_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ledger (
    query_id TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, owned_at REAL NOT NULL,
    PRIMARY KEY (query_id, kind, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leases (
    queue TEXT PRIMARY KEY, record BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tokens (
    token TEXT PRIMARY KEY, expires_at INTEGER NOT NULL, record BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tables (
    name TEXT PRIMARY KEY, record BLOB NOT NULL
) WITHOUT ROWID;
PRAGMA user_version = {version};
COMMIT;
"""

#: Pages in the log before it is copied back; a copy syncs the disk, so it should be seldom.
_CHECKPOINT_PAGES = 4_000
_POLL_SECONDS = 0.001
_SLOW_POLL_SECONDS = 0.002
_SLOW_AFTER_SECONDS = 0.05

#: Connections a forked child inherited. Closing one there could checkpoint a log its parent still
#: uses, and so could collecting it: they are kept, unused, for the life of the child.
_INHERITED: list[sqlite3.Connection] = []
_HELD_OVER_FORK: list[sqlite3.Connection] = []
_DATABASES: weakref.WeakSet[Database] = weakref.WeakSet()


class _Connection(sqlite3.Connection):
    """Closed with the thread that used it, or by ``Database.close``."""

    def __del__(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # one that could not be opened
            self.close()


def _before_fork() -> None:
    for database in _DATABASES:
        _HELD_OVER_FORK.extend(database.connections)


def _after_fork_in_child() -> None:
    _INHERITED.extend(_HELD_OVER_FORK)
    _HELD_OVER_FORK.clear()
    for database in _DATABASES:
        database.forget_connections()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_HELD_OVER_FORK.clear,
    after_in_child=_after_fork_in_child,
)


def translated(error: sqlite3.Error, path: Path) -> StateError:
    """SQLite's errors in the words of the state store."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreUnavailable(f"{path} stayed locked by another process: {error}")
    if code == sqlite3.SQLITE_FULL:
        return StateError(f"no space left for {path}; free some and run the query again")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreDamaged(f"{path} is damaged or no state file; remove it ({error})")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return StateError(f"{path} cannot be opened for writing: {error}")
    if code == sqlite3.SQLITE_IOERR:
        return StoreUnavailable(f"reading or writing {path} failed: {error}")
    return StateError(f"{path}: {error}")


class _Local(threading.local):
    connection: _Connection | None = None
    seen: int = 0


class Database:
    """The file, with one connection per thread of each process, made when first needed."""

    def __init__(self, path: Path, *, busy_seconds: float = 10.0) -> None:
        self.path = path
        self._busy_seconds = busy_seconds
        self._local = _Local()
        self.connections: weakref.WeakSet[_Connection] = weakref.WeakSet()
        _DATABASES.add(self)
        self._prepare()

    def connection(self) -> sqlite3.Connection:
        """This thread's own connection."""
        existing = self._local.connection
        if existing is not None:
            return existing
        try:
            opened = sqlite3.connect(
                self.path,
                timeout=self._busy_seconds,
                isolation_level=None,
                factory=_Connection,
                check_same_thread=False,  # only ``close`` reaches into other threads' connections
            )
            opened.execute("PRAGMA synchronous=NORMAL")
            opened.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
            self._local.seen = opened.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error as error:
            raise translated(error, self.path) from error
        self.connections.add(opened)
        self._local.connection = opened
        return opened

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Each statement sees the last commit; two statements may see two."""
        try:
            yield self.connection()
        except sqlite3.Error as error:
            raise translated(error, self.path) from error

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction, alone in the file; undone if anything is raised."""
        connection = self.connection()
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise translated(error, self.path) from error

    def wait_for_change(self, timeout: float) -> bool:
        """Wait until another connection has committed since this thread's last call.

        Returns at once for a commit made between two calls, so no change is slept through; the
        first call counts from when the thread first used the store. False after ``timeout`` seconds
        without one.
        """
        started = time.monotonic()
        self.connection()
        while (version := self._data_version()) == self._local.seen:
            waited = time.monotonic() - started
            if waited >= timeout:
                return False
            pause = _POLL_SECONDS if waited < _SLOW_AFTER_SECONDS else _SLOW_POLL_SECONDS
            time.sleep(min(pause, timeout - waited))
        self._local.seen = version
        return True

    def close(self) -> None:
        """Close every connection of this process; the next use opens new ones."""
        closing = list(self.connections)
        self.forget_connections()
        for connection in closing:
            connection.close()

    def forget_connections(self) -> None:
        """Leave open connections to whoever still uses them."""
        self.connections = weakref.WeakSet()
        self._local = _Local()

    def _data_version(self) -> int:
        with self.read() as connection:
            version: int = connection.execute("PRAGMA data_version").fetchone()[0]
            return version

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(StoreUnavailable),
        stop=tenacity.stop_after_delay(10),
        wait=tenacity.wait_random(0.005, 0.02),
        reraise=True,
    )
    def _prepare(self) -> None:
        """Make or check the tables. Turning WAL on does not wait for a lock, hence the retry."""
        self._make_tables()
        self._local.seen = self._data_version()

    def _make_tables(self) -> None:
        with self.read() as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == SCHEMA_VERSION:
                return
            if version != 0:
                raise StateError(
                    f"{self.path} was written by another version of this program (layout "
                    f"{version}, not {SCHEMA_VERSION}); finish its queries with that version, or "
                    "remove the file"
                )
            connection.execute("PRAGMA journal_mode=WAL")
            try:
                connection.executescript(_TABLES.format(version=SCHEMA_VERSION))
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
