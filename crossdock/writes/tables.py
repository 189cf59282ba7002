"""Tables that statements wrote, as the catalog reads them: the record, then the manifest."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import msgspec

from coordinator_state.errors import TableMoved
from coordinator_state.records import TableChange, TableRecord
from coordinator_state.store import StateStore
from crossdock.errors import ObjectNotFound, TableError
from crossdock.platform.ports import Objects
from crossdock.tables import TableManifest, WrittenTable

#: Manifests kept in memory: they never change.
_KEPT = 200


class StoredTables:
    """``tables.WrittenTables`` of a state store. Threads may share it."""

    def __init__(
        self,
        store: StateStore,
        objects: Objects,
        locate: Callable[[str], str],
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """``locate`` gives the path or URL of an object."""
        self._store = store
        self._objects = objects
        self._locate = locate
        self._now = now
        self._manifests: dict[str, TableManifest] = {}

    def names(self) -> Mapping[str, str]:
        return {
            record.name.lower(): record.name for record in self._store.tables() if record.manifest
        }

    def get(self, name: str) -> WrittenTable | None:
        record = self._store.find_table(name)
        if record is None or not record.manifest:
            return None
        manifest = self._manifest(record)
        return WrittenTable(
            name=record.name,
            columns=manifest.columns,
            paths=tuple(self._locate(file.key) for file in manifest.files),
        )

    def drop(self, name: str) -> bool:
        """The files go a day later (``writes.retire``)."""
        while (record := self._store.find_table(name)) is not None and record.manifest:
            retired = (*record.retired, (record.manifest, self._now()))
            dropped = TableRecord(name=record.name, changed_at=self._now(), retired=retired)
            try:
                self._store.change_table(TableChange(record=dropped, expected=record.manifest))
            except TableMoved:
                continue  # a commit came first: its rows are dropped too
            return True
        return False

    def _manifest(self, record: TableRecord) -> TableManifest:
        known = self._manifests.get(record.manifest)
        if known is not None:
            return known
        try:
            data = self._objects.get(record.manifest)
        except ObjectNotFound:
            newer = self._store.find_table(record.name)
            if newer is None or newer.manifest in ("", record.manifest):
                raise TableError(
                    f"table {record.name} is damaged: its manifest {record.manifest} is gone"
                ) from None
            return self._manifest(newer)  # it was changed, and changed again, since it was read
        manifest = msgspec.json.decode(data, type=TableManifest)
        if len(self._manifests) >= _KEPT:
            self._manifests.clear()
        self._manifests[record.manifest] = manifest
        return manifest
