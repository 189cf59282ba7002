"""The scheduled round: revive what was forgotten, finish what was begun, remove the ownerless."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coordinator_state.errors import NotFound
from coordinator_state.ids import QueryId
from crossdock import cleanup
from crossdock.writes.retire import sweep_tables

if TYPE_CHECKING:
    from crossdock.aws import Deployment

_log = logging.getLogger(__name__)

#: Ownerless objects, unfinished uploads and drafts younger than this are left alone: their query
#: or their writer may still come. Longer than a function's longest life.
GRACE_SECONDS = 3600.0
_DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round did."""

    revived: int  # open queries whose alarm was set again
    purged: int  # closings that had died half way
    drafts: int  # queries whose making had died half way
    forgotten: int  # closed queries whose time had passed, with their answers
    removed: int  # objects and queues that no query owned
    uploads: int  # unfinished uploads


class Janitor:
    """Each part of a round is safe to repeat, and to die in."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._medium = deployment.medium

    def revive(self) -> int:
        """The cheap part, for every minute: set the alarms of open queries again; how many."""
        return sum(self._revive(query) for query in self._medium.store.open_queries())

    def run(self, *, grace_seconds: float = GRACE_SECONDS) -> Round:
        """One round. It lists every object and reads every owner, so once an hour is enough.

        ``grace_seconds``: see ``GRACE_SECONDS``; less only where nothing runs.
        """
        now = self._deployment.clock.now()
        before = now - grace_seconds
        keep = self._deployment.config.result_days * _DAY
        old = cleanup.expired(self._medium, older_than=now - keep)
        for query_id in old:
            cleanup.forget(self._medium, query_id)
        done = Round(
            revived=self.revive(),
            purged=cleanup.purge_closed(self._medium),
            drafts=self._medium.store.drop_drafts(before=before),
            forgotten=len(old),
            removed=cleanup.ownerless(self._medium, older_than=before)
            + sweep_tables(self._medium, now=now, older_than=before),
            uploads=sum(
                bucket.abort_uploads(older_than=before)
                for bucket in (self._deployment.exchange, self._deployment.results)
            ),
        )
        _log.info("round: %s", done)
        return done

    def _revive(self, query_id: QueryId) -> bool:
        """The live alarm once more: if the first still comes, the second finds itself stale."""
        try:
            number = self._medium.store.get_query(query_id).tick
        except NotFound:
            return False  # closed and forgotten since it was listed
        self._deployment.control.tick(query_id, number, delay=0.0)
        return True
