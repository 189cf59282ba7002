"""Leaving nothing behind: the sweeps of an ended query, its closing, and the janitor's round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from coordinator_state.errors import NotFound
from coordinator_state.ids import QueryId
from coordinator_state.records import LedgerKind, QueryRecord, QueryStatus
from coordinator_state.store import StateStore
from crossdock import summary
from crossdock.errors import ObjectNotFound
from crossdock.platform.ports import Objects, Queues
from crossdock.shuffle import layout
from crossdock.tables import TableManifest
from crossdock.writes.outbox import NO_OUTBOX, Outbox


@dataclass(frozen=True, slots=True)
class Medium:
    """Where a query's state, queues and objects are."""

    store: StateStore
    queues: Queues
    objects: Objects
    outbox: Outbox = NO_OUTBOX


def result_keys(objects: Objects, query: QueryRecord) -> tuple[str, ...]:
    """Keys of a query's result objects, in result order, wherever the manifest is kept."""
    if not query.result_key:
        return query.result
    return msgspec.json.decode(objects.get(query.result_key), type=tuple[str, ...])


def sweep(medium: Medium, query: QueryRecord) -> int:
    """Delete what an ended query owns but its answer; the number of things that were there.

    Queues are dropped by name from the ledger, not from a listing alone: a listing may lag.
    """
    found = leftovers(medium, query)
    ledger = medium.store.owned(query.query_id)
    owned = {entry.name for entry in ledger if entry.kind is LedgerKind.QUEUE}
    medium.queues.drop(*sorted(owned.union(found.queues)))
    if found.objects:
        medium.objects.delete(found.objects)
    staged = sum(
        medium.outbox.discard(query.query_id, entry.name)
        for entry in ledger
        if entry.kind is LedgerKind.MULTIPART
    )
    return len(found.queues) + len(found.objects) + staged


@dataclass(frozen=True, slots=True)
class Leftovers:
    queues: tuple[str, ...]
    objects: tuple[str, ...]


def leftovers(medium: Medium, query: QueryRecord) -> Leftovers:
    """Queues and objects of an ended query that are not its answer."""
    query_id = query.query_id
    try:
        kept = {*result_keys(medium.objects, query), query.result_key, layout.head_key(query_id)}
    except ObjectNotFound:
        kept = {layout.head_key(query_id)}  # the answer was discarded
    objects = [o.key for o in medium.objects.list(layout.exchange_prefix(query_id))]
    objects += [
        o.key for o in medium.objects.list(layout.result_prefix(query_id)) if o.key not in kept
    ]
    if query.writes:
        objects += _uncommitted(medium, query)
    return Leftovers(tuple(medium.queues.names(layout.queue_prefix(query_id))), tuple(objects))


def _uncommitted(medium: Medium, query: QueryRecord) -> list[str]:
    """Objects that a statement wrote, but for what its commit left to a table."""
    kept: set[str] = set()
    prefixes = [layout.data_prefix(query.query_id), layout.staged_prefix(query.query_id)]
    if query.manifest:
        try:
            found = msgspec.json.decode(medium.objects.get(query.manifest), type=TableManifest)
            kept = {query.manifest, *(file.key for file in found.files)}
        except ObjectNotFound:
            # A later commit took its place long ago. What the table still has is the janitor's
            # to tell.
            del prefixes[0]
    listed = [o.key for prefix in prefixes for o in medium.objects.list(prefix)]
    return [key for key in listed if key not in kept]


def close(
    medium: Medium,
    query: QueryRecord,
    *,
    coordinator_usage: Mapping[str, int],
    expires_at: float | None,
) -> bool:
    """The second end. False: the second sweep still found something; call again a little later.

    Only when every worker of the query is known to write no more. Safe to repeat from any point.
    """
    if sweep(medium, query):
        return False
    query_id = query.query_id
    summary.keep(medium.objects, summary.collect(medium.store, query, coordinator_usage))
    if query.plan_key:
        medium.objects.delete([query.plan_key])
    for entry in medium.store.owned(query_id):
        medium.store.release(query_id, entry.kind, entry.name)
    medium.store.close_query(query_id, expires_at=expires_at)
    medium.store.purge_query(query_id)
    return True


def purge_closed(medium: Medium) -> int:
    """Purge queries whose closing died just before it did; how many there were."""
    unpurged = medium.store.unpurged_queries()
    for query_id in unpurged:
        medium.store.purge_query(query_id)
    return len(unpurged)


def forget(medium: Medium, query_id: QueryId) -> None:
    """Remove the answer, the receipt and the last item of a closed query."""
    _delete_answer(medium.objects, query_id)
    medium.objects.delete([layout.receipt_key(query_id)])
    medium.store.purge_query(query_id)
    medium.store.forget_query(query_id)


def ownerless(medium: Medium, *, older_than: float) -> int:
    """The janitor's round over resources that no open query owns; returns how many it deleted.

    It lists resources first, then reads each owner consistently, then deletes: what was made after
    the listing is not in it. Only objects last written before ``older_than`` (seconds since the
    epoch) count, because a plan object is written before its query. Answers and receipts go only
    when nothing is known of their query any more.
    """
    listed = [
        (layout.query_of_key(o.key), o.key, prefix in layout.KEPT_PREFIXES)
        for prefix in (*layout.KEPT_PREFIXES, *layout.OWNED_PREFIXES)
        for o in medium.objects.list(prefix)
        if o.modified_at < older_than
    ]
    queues = [(layout.query_of_queue(q), q) for q in medium.queues.names(layout.QUEUE_NAMESPACE)]
    owners = {name: _owner(medium, QueryId(name)) for name in _names(listed, queues)}
    stale = [key for name, key, kept in listed if not _owns(owners[name], kept=kept)]
    dead = [queue for name, queue in queues if not _owns(owners[name], kept=False)]
    medium.objects.delete(stale)
    medium.queues.drop(*dead)
    return len(stale) + len(dead)


def _names(listed: Iterable[tuple[str, str, bool]], queues: Iterable[tuple[str, str]]) -> set[str]:
    return {name for name, _, _ in listed} | {name for name, _ in queues}


def _owner(medium: Medium, query_id: QueryId) -> QueryRecord | None:
    try:
        return medium.store.get_query(query_id)
    except NotFound:
        return None


def _owns(query: QueryRecord | None, *, kept: bool) -> bool:
    return query is not None and (kept or not query.closed)


def expired(medium: Medium, *, older_than: float, limit: int = 1000) -> tuple[QueryId, ...]:
    """Closed queries that ended before ``older_than``: their answers' time is over."""
    return tuple(
        q.query_id
        for q in medium.store.list_queries(limit=limit)
        if q.closed and q.status is not QueryStatus.RUNNING and (q.ended_at or 0.0) < older_than
    )


def discard_result(objects: Objects, query: QueryRecord) -> None:
    """Delete the answer of an ended query; repeating is no error. The receipt stays."""
    _delete_answer(objects, query.query_id)


def _delete_answer(objects: Objects, query_id: QueryId) -> None:
    for prefix in (layout.result_prefix(query_id), layout.export_prefix(query_id)):
        objects.delete([o.key for o in objects.list(prefix)])
