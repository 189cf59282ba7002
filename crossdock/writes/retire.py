"""The janitor's round over written tables: files that no table has any more, and has not lately."""

from __future__ import annotations

import logging

import msgspec

from coordinator_state.errors import NotFound, TableMoved
from coordinator_state.ids import QueryId
from coordinator_state.records import TableChange, TableRecord
from crossdock.cleanup import Medium
from crossdock.errors import ObjectNotFound
from crossdock.shuffle import layout
from crossdock.tables import TableManifest

_log = logging.getLogger(__name__)

#: A replaced or dropped table's files stay so long: no query that was planned before runs longer.
KEEP_SECONDS = 86_400.0


def sweep_tables(medium: Medium, *, now: float, older_than: float) -> int:
    """Delete files and manifests that no table has; how many went.

    Objects are listed first, then their queries are read, then the tables: what is committed
    meanwhile is in none of the lists, or in the tables. Objects written after ``older_than``
    (seconds since the epoch) are left alone.
    """
    for record in medium.store.tables():
        _forget_retired(medium, record, before=now - KEEP_SECONDS)
    listed = [o.key for o in medium.objects.list(layout.DATA_PREFIX) if o.modified_at < older_than]
    owners = {layout.query_of_key(key) for key in listed}
    idle = {name for name in owners if _is_closed(medium, QueryId(name))}
    listed = [key for key in listed if layout.query_of_key(key) in idle]
    if not listed:
        return 0
    try:
        live = _live(medium)
    except ObjectNotFound as error:
        _log.error("a table is damaged, so no table's files are removed: %s", error)
        return 0
    dead = [key for key in listed if key not in live]
    medium.objects.delete(dead)
    return len(dead)


def _forget_retired(medium: Medium, record: TableRecord, *, before: float) -> None:
    """Take manifests off the record whose time is over; the record of a dropped table goes last."""
    kept = tuple(entry for entry in record.retired if entry[1] >= before)
    if not kept and not record.manifest:
        medium.store.forget_table(record.name)
    elif kept != record.retired:
        shorter = msgspec.structs.replace(record, retired=kept)
        try:
            medium.store.change_table(TableChange(record=shorter, expected=record.manifest))
        except TableMoved:
            return  # a commit came first; the next round does it


def _is_closed(medium: Medium, query_id: QueryId) -> bool:
    try:
        return medium.store.get_query(query_id).closed
    except NotFound:
        return True


def _live(medium: Medium) -> set[str]:
    """Every object that a table has, or had until lately.

    Raises ``ObjectNotFound`` for a manifest that is gone: nothing is deleted for want of it.
    """
    live: set[str] = set()
    for record in medium.store.tables():
        for key in (record.manifest, *(key for key, _ in record.retired)):
            if key and key not in live:
                live |= {key, *_files(medium, record, key)}
    return live


def _files(medium: Medium, record: TableRecord, key: str) -> list[str]:
    try:
        data = medium.objects.get(key)
    except ObjectNotFound:
        newer = medium.store.find_table(record.name)
        if newer is None or newer.manifest == key:
            raise
        # Changed since it was read, and the manifest removed: what it listed the newer one does.
        return _files(medium, newer, newer.manifest) if newer.manifest else []
    return [file.key for file in msgspec.json.decode(data, type=TableManifest).files]
