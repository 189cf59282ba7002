"""Tables that statements wrote to a home folder, for whoever plans over them."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from coordinator_state.sqlite import SqliteStateStore
from crossdock.local.home import Home, open_state
from crossdock.platform.local.objects import FolderObjects
from crossdock.tables import WrittenTable
from crossdock.writes.tables import StoredTables


class HomeTables:
    """``tables.WrittenTables`` of a home folder, which is not made by being looked at."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._store: SqliteStateStore | None = None
        self._tables: StoredTables | None = None
        self._lock = Lock()

    def names(self) -> Mapping[str, str]:
        tables = self._opened()
        return tables.names() if tables else {}

    def get(self, name: str) -> WrittenTable | None:
        tables = self._opened()
        return tables.get(name) if tables else None

    def drop(self, name: str) -> bool:
        tables = self._opened()
        return tables.drop(name) if tables else False

    def close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()
            self._store = self._tables = None

    def _opened(self) -> StoredTables | None:
        """None while the home has no state, so no tables either."""
        with self._lock:
            if self._tables is None and self._home.state.exists():
                self._store = open_state(self._home)
                self._tables = StoredTables(
                    self._store,
                    FolderObjects(self._home.objects),
                    lambda key: str(self._home.object_path(key)),
                )
            return self._tables
