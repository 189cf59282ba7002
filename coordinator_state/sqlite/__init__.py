"""The state store in one SQLite file, for one machine."""

from coordinator_state.sqlite.store import SqliteStateStore

__all__ = ["SqliteStateStore"]
