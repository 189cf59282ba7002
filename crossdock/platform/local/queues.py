"""Queues of one machine: an SQLite file that any number of processes share."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from crossdock.errors import OutOfSpace, PlatformDenied, PlatformUnavailable, QueueNotFound
from crossdock.platform import bodies as rules
from crossdock.platform.clock import SystemClock
from crossdock.platform.ports import Clock, Message

#: Pause between two looks at ``data_version`` while waiting, in seconds; 500 looks a second cost
#: 1.5 % of a processor.
POLL_SECONDS = 0.002
#: The same once a wait has lasted a second.
SLOW_POLL_SECONDS = 0.005
#: How long a write may wait for another process's write, in seconds.
BUSY_SECONDS = 30.0

# AUTOINCREMENT: a number never comes back, so neither an old receipt nor an old queue's messages
# can match something made later.
_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA journal_size_limit = 16777216;
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS queues (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE
);
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue INTEGER NOT NULL,
    visible_at REAL NOT NULL,
    receives INTEGER NOT NULL DEFAULT 0,
    body BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS messages_by_time ON messages (queue, visible_at);
COMMIT;
"""
_CREATE = "INSERT INTO queues (name) VALUES (?) ON CONFLICT DO NOTHING"
_LOOK = """
SELECT id, (SELECT min(visible_at) FROM messages WHERE queue = queues.id)
FROM queues WHERE name = ?
"""
_SEND = "INSERT INTO messages (queue, visible_at, body) VALUES (?, ?, ?)"
_TAKE = """
UPDATE messages SET receives = receives + 1, visible_at = ?
WHERE id IN (
    SELECT id FROM messages WHERE queue = ? AND visible_at <= ? ORDER BY visible_at LIMIT ?
)
RETURNING id, receives, body
"""
_DELETE = "DELETE FROM messages WHERE id = ? AND receives = ? AND queue = ?"
_DROP_MESSAGES = "DELETE FROM messages WHERE queue = (SELECT id FROM queues WHERE name = ?)"
_DROP = "DELETE FROM queues WHERE name = ?"
_NAMES = "SELECT name FROM queues WHERE substr(name, 1, length(?1)) = ?1 ORDER BY name"


class _Session:
    """One thread's connection: ``data_version`` tells only of writes by *other* connections."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(
            path,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            # ``close`` runs in whichever thread ends the owner.
            check_same_thread=False,
        )
        # A queue only hints: after a power cut the state store and the commits heal what is lost.
        self.connection.execute("PRAGMA synchronous = NORMAL")

    def version(self) -> int:
        row: tuple[int] = self.connection.execute("PRAGMA data_version").fetchone()
        return row[0]


class SqliteQueues:
    """At-least-once queues with visibility timeouts (``ports.Queues``).

    Threads and processes may share the file; a send wakes a waiting receiver in another process
    within a few milliseconds.
    """

    def __init__(self, path: Path, *, visibility: float = 30.0, clock: Clock | None = None) -> None:
        """``visibility``: seconds for which a received message is hidden from other receivers."""
        self._path = path
        self._visibility = visibility
        self._clock = clock or SystemClock()
        self._local = threading.local()
        self._sessions: weakref.WeakSet[_Session] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._closed = False
        with self._translated():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._session().connection.executescript(_SCHEMA)

    def create(self, *names: str) -> None:
        with self._transaction() as connection:
            connection.executemany(_CREATE, [(name,) for name in names])

    def send(self, name: str, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            rules.text_of(body)
        now = self._clock.now()
        with self._transaction() as connection:
            queue = self._queue_id(connection, name)
            connection.executemany(_SEND, [(queue, now, body) for body in bodies])

    def receive(self, name: str, *, limit: int = 10, wait: float = 0.0) -> Sequence[Message]:
        deadline = self._clock.now() + wait
        limit = min(limit, rules.MAX_ENTRIES)
        while True:
            with self._translated():
                version = self._session().version()
                visible_at = self._look(name)
                if visible_at is not None and visible_at <= self._clock.now():
                    taken = self._take(name, limit)
                    if taken:
                        return taken
                    continue  # another receiver was quicker
                if self._clock.now() >= deadline:
                    return ()
                self._sleep(version, deadline if visible_at is None else min(deadline, visible_at))

    def delete(self, name: str, receipts: Sequence[str]) -> None:
        with self._transaction() as connection:
            queue = self._queue_id(connection, name)
            for receipt in receipts:
                message, _, receives = receipt.partition(".")
                connection.execute(_DELETE, (message, receives, queue))

    def drop(self, *names: str) -> None:
        with self._transaction() as connection:
            for name in names:
                connection.execute(_DROP_MESSAGES, (name,))
                connection.execute(_DROP, (name,))

    def names(self, prefix: str) -> Sequence[str]:
        with self._translated():
            rows = self._session().connection.execute(_NAMES, (prefix,)).fetchall()
        return [name for (name,) in rows]

    def close(self) -> None:
        """Close every thread's connection. The queues stay in the file."""
        with self._lock:
            self._closed = True
            for session in list(self._sessions):
                session.connection.close()

    def _look(self, name: str) -> float | None:
        """When the next message is visible; None when there is none. Takes no write lock."""
        row: tuple[int, float | None] | None = (
            self._session().connection.execute(_LOOK, (name,)).fetchone()
        )
        if row is None:
            raise _no_queue(name)
        return row[1]

    def _take(self, name: str, limit: int) -> Sequence[Message]:
        with self._transaction() as connection:
            now = self._clock.now()
            queue = self._queue_id(connection, name)
            rows = connection.execute(_TAKE, (now + self._visibility, queue, now, limit)).fetchall()
        return [
            Message(body=body, receipt=f"{message}.{receives}", receives=receives)
            for message, receives, body in rows
        ]

    def _sleep(self, version: int, until: float) -> None:
        """Until another connection wrote something, or ``until``."""
        session = self._session()
        started = self._clock.now()
        while session.version() == version:
            now = self._clock.now()
            if now >= until:
                return
            pause = POLL_SECONDS if now - started < 1.0 else SLOW_POLL_SECONDS
            self._clock.sleep(min(pause, until - now))

    def _queue_id(self, connection: sqlite3.Connection, name: str) -> int:
        row: tuple[int, float | None] | None = connection.execute(_LOOK, (name,)).fetchone()
        if row is None:
            raise _no_queue(name)
        return row[0]

    def _session(self) -> _Session:
        session: _Session | None = getattr(self._local, "session", None)
        if session is None:
            with self._lock:
                if self._closed:
                    raise PlatformUnavailable(f"the queues in {self._path} are closed")
                session = _Session(self._path)
                self._sessions.add(session)
            self._local.session = session
        return session

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One write transaction; rolled back when the body raises."""
        with self._translated():
            connection = self._session().connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                # Some failures (a full disk) have rolled back already.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """The one place where SQLite's errors become the platform's."""
        try:
            yield
        except sqlite3.Error as error:
            raise _translate(error, self._path) from error


def _no_queue(name: str) -> QueueNotFound:
    return QueueNotFound(f"no queue {name!r}; its query has probably ended")


def _translate(error: sqlite3.Error, path: Path) -> Exception:
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith("SQLITE_FULL"):
        return OutOfSpace(f"the disk that holds {path} is full; free space or move the home folder")
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH", "SQLITE_CANTOPEN")):
        return PlatformDenied(f"cannot write {path}: {error}; check the folder's permissions")
    return PlatformUnavailable(f"the queues in {path} did not answer: {error}")
