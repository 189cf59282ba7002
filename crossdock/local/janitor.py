"""The janitor of a home folder: queries whose client died, and things that no query owns."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence

from coordinator_state.errors import NotFound
from coordinator_state.ids import QueryId, WorkerId
from coordinator_state.records import ErrorRecord, WorkerStatus
from crossdock import cleanup
from crossdock.cleanup import Medium
from crossdock.local.home import Home
from crossdock.owner import is_dead, is_of_living_client
from crossdock.writes.retire import sweep_tables

#: Why an orphan ends.
ORPHANED = ErrorRecord(kind="Orphaned", message="the client that ran it died", scope="query")


def orphans(medium: Medium) -> tuple[QueryId, ...]:
    """Open queries whose client process is dead for certain."""
    found = []
    for query_id in medium.store.open_queries():
        try:
            if is_dead(medium.store.get_query(query_id).owner):
                found.append(query_id)
        except NotFound:
            continue  # closed and forgotten since it was listed
    return tuple(found)


def unsettled_workers(medium: Medium, query_id: QueryId) -> tuple[WorkerId, ...]:
    """Workers that did not say goodbye."""
    workers = medium.store.workers(query_id)
    return tuple(w.worker_id for w in workers if w.status is not WorkerStatus.LEFT)


def sweep_home(
    medium: Medium, home: Home, *, now: float, grace_seconds: float, keep_seconds: float
) -> int:
    """Forget old answers, delete what no query owns; how many things went.

    ``grace_seconds``: ownerless objects younger than that are left alone, their query may come.
    ``keep_seconds``: answers and receipts of queries that ended longer ago go.
    """
    cleanup.purge_closed(medium)
    old = cleanup.expired(medium, older_than=now - keep_seconds)
    for query_id in old:
        cleanup.forget(medium, query_id)
    removed = cleanup.ownerless(medium, older_than=now - grace_seconds)
    removed += sweep_tables(medium, now=now, older_than=now - grace_seconds)
    return len(old) + removed + _drop_scratch(home, medium.store.open_queries)


def _drop_scratch(home: Home, open_queries: Callable[[], Sequence[QueryId]]) -> int:
    """Scratch folders of dead clients, and of queries that are not open.

    Folders are listed before queries are.
    """
    if not home.scratch.is_dir():
        return 0
    folders = list(home.scratch.iterdir())
    open_now = open_queries()
    old = [
        folder
        for folder in folders
        if folder.name not in open_now and not is_of_living_client(folder.name)
    ]
    for folder in old:
        shutil.rmtree(folder, ignore_errors=True)
    return len(old)
