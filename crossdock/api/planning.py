"""Planning for requests: the deployment's settings, what a request may choose, the binder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

from crossdock.api.messages import Parameters, RefusalKind
from crossdock.api.refusals import Refused
from crossdock.catalog import Catalog
from crossdock.errors import SettingError
from crossdock.planner.binder import Binder
from crossdock.planner.changes import Changes, Prepared
from crossdock.planner.options import PlannerOptions
from crossdock.planner.plan import StagePlan
from crossdock.planner.planning import plan_query
from crossdock.settings import SETTABLE, Settings, with_values
from crossdock.writes.outbox import Outbox
from crossdock.writes.planning import WritePlanner

#: Binders kept, one for each time zone asked for.
_MOST_BINDERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """Rules of a deployment."""

    settings: Settings  # defaults of every query; ``workers`` is the most one may have
    open_queries: int = 100  # beyond, submissions are refused for now
    max_scanned_bytes: int | None = None  # of any query
    token_seconds: float = 86_400.0  # a client token means its query so long


class Planning:
    """Plans statements over one catalog. Threads may share it."""

    def __init__(self, catalog: Catalog, house: House, outbox: Outbox) -> None:
        """``outbox`` says what is there already where a COPY is to go."""
        self._catalog = catalog
        self._outbox = outbox
        self._house = house
        self._binders: dict[str | None, Binder] = {}
        self._lock = Lock()

    def chosen(self, given: Mapping[str, object]) -> Settings:
        base = self._house.settings
        for name in given:
            if name not in SETTABLE:
                known = ", ".join(sorted(SETTABLE))
                raise SettingError(f"setting {name!r} cannot be chosen here; these can: {known}")
        chosen = with_values(base, given)
        if chosen.worker_count > base.worker_count:
            raise SettingError(
                f"workers = {chosen.worker_count}: a query may have {base.worker_count} at most"
            )
        return chosen

    def plan(self, sql: str, parameters: Parameters, settings: Settings) -> StagePlan:
        options = PlannerOptions(
            workers=settings.worker_count,
            partitions=settings.partitions,
            single_task_limit=settings.single_task_limit,
            broadcast_bytes=settings.broadcast_bytes,
        )
        with self._lock:  # one binder's tables serve one statement at a time
            binder = self._binder(settings.timezone)
            writes = WritePlanner(self._catalog, binder, self._outbox, local=False)
            plan = writes.plan(sql, parameters, options)
            return plan or plan_query(binder.bind(sql, parameters), options)

    def prepare(
        self, sql: str, parameters: Parameters, settings: Settings, *, again: bool
    ) -> Prepared:
        """What ``sql`` changes in the catalog, if anything, and the query to run.

        ``again``: an earlier request may have made the change.
        """
        with self._lock:
            changes = Changes(self._catalog, self._binder(settings.timezone), sessions=False)
            return changes.prepare(sql, parameters, again=again)

    def _binder(self, timezone: str | None) -> Binder:
        if timezone not in self._binders:
            if len(self._binders) >= _MOST_BINDERS:
                self._binders.pop(next(iter(self._binders))).close()
            self._binders[timezone] = Binder(self._catalog, timezone=timezone)
        return self._binders[timezone]

    def check_scan(self, plan: StagePlan, wanted: int | None) -> None:
        limits = [each for each in (wanted, self._house.max_scanned_bytes) if each is not None]
        if limits and plan.scanned_bytes > min(limits):
            raise Refused(
                RefusalKind.SCAN_LIMIT,
                f"the query would read {plan.scanned_bytes:,} bytes, allowed are {min(limits):,}; "
                "name fewer columns, or filter by a column that the files are sorted by",
            )
