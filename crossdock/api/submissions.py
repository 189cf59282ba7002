"""Submissions: from a request to a query that the coordinator may drive, once for each token."""

from __future__ import annotations

import contextlib
import hashlib

import msgspec
import tenacity

from coordinator_state.errors import AlreadyExists, NotFound
from coordinator_state.ids import QueryId
from coordinator_state.records import QueryRecord, TokenRecord
from crossdock.api import head
from crossdock.api.limits import RETRY_AFTER_SECONDS
from crossdock.api.messages import RefusalKind, Submit, Submitted
from crossdock.api.planning import House, Planning
from crossdock.api.refusals import Refused
from crossdock.cleanup import Medium
from crossdock.errors import ObjectExists, PlatformUnavailable
from crossdock.planner.plan import StagePlan, decode_plan, encode_plan
from crossdock.platform.ports import Clock, Control, Ids
from crossdock.settings import with_values
from crossdock.shuffle.layout import plan_key
from crossdock.submit import QueryOptions, own_target, query_record, stage_records

#: How long a request waits for another one of the same token that is writing the query.
_PATIENCE_SECONDS = 5.0


class Submissions:
    """Starts queries."""

    def __init__(
        self,
        medium: Medium,
        planning: Planning,
        *,
        house: House,
        control: Control,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._medium = medium
        self._planning = planning
        self._house = house
        self._control = control
        self._clock = clock
        self._ids = ids

    def submit(self, request: Submit) -> Submitted:
        """Raises ``Refused``, and ``SqlError``, ``SettingError``, ``TableError``."""
        settings = self._planning.chosen(request.settings)
        known = self._known(request)
        if known is not None and self._exists(known):
            return Submitted(query_id=known, created=False)
        if known is None:
            self._admit()
        prepared = self._planning.prepare(
            request.sql, request.parameters, settings, again=known is not None
        )
        plan = self._planning.plan(prepared.query, request.parameters, settings)
        self._planning.check_scan(plan, request.max_scanned_bytes)
        query_id = known or self._claim(request)
        prepared.apply()
        settings = with_values(settings, {"timeout_seconds": request.timeout_seconds})
        options = QueryOptions.of(settings, owner=request.owner, client_token=request.client_token)
        created = self._create(query_id, plan, options)
        own_target(self._medium.store, query_id, plan, now=self._clock.now())
        self._control.tick(query_id, 0, delay=0.0)
        return Submitted(query_id=query_id, created=created)

    def _known(self, request: Submit) -> QueryId | None:
        """The query an earlier request with this token began."""
        if not request.client_token:
            return None
        found = self._medium.store.find_token(_token(request), now=self._clock.now())
        return None if found is None else _same(found, request)

    def _claim(self, request: Submit) -> QueryId:
        """A new query's id; with a token, the id that the first of its requests drew."""
        query_id = QueryId(self._ids.query_id())
        if not request.client_token:
            return query_id
        now = self._clock.now()
        record = TokenRecord(
            token=_token(request),
            query_id=query_id,
            fingerprint=_fingerprint(request),
            created_at=now,
            expires_at=int(now + self._house.token_seconds),
        )
        return _same(self._medium.store.claim_token(record, now=now), request)

    def _create(self, query_id: QueryId, plan: StagePlan, options: QueryOptions) -> bool:
        """Write head, plan and query. False: a request of the same token did, or is doing, so.

        That request may have died at any point, so each write is taken up where it stands; the
        plan that was written first counts, because tables may have changed since.
        """
        store, objects = self._medium.store, self._medium.objects
        key = plan_key(query_id)
        try:
            objects.put(key, encode_plan(plan))
        except ObjectExists:
            plan = decode_plan(objects.get(key))
        with contextlib.suppress(ObjectExists):  # made of the same plan
            head.write(objects, query_id, head.Head.of(plan))
        record = query_record(query_id, plan, options, now=self._clock.now(), key=key)
        try:
            store.create_query(record, stage_records(query_id, plan))
        except AlreadyExists:
            self._await(query_id)
            return False
        return True

    def _await(self, query_id: QueryId) -> QueryRecord:
        """Until the other request has written all of the query."""
        looking = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(NotFound),
            stop=tenacity.stop_after_delay(_PATIENCE_SECONDS),
            wait=tenacity.wait_exponential(multiplier=0.05, max=0.5),
            sleep=self._clock.sleep,
            reraise=True,
        )
        try:
            return looking(self._medium.store.get_query, query_id)
        except NotFound as error:
            raise PlatformUnavailable(
                f"query {query_id} was begun by an earlier request that did not end; ask again"
            ) from error

    def _exists(self, query_id: QueryId) -> bool:
        try:
            self._medium.store.get_query(query_id)
        except NotFound:
            return False
        return True

    def _admit(self) -> None:
        """A soft limit: submissions that come at once see the same count."""
        if len(self._medium.store.open_queries()) >= self._house.open_queries:
            raise Refused(
                RefusalKind.BUSY,
                f"{self._house.open_queries} queries are open, the most this deployment takes; "
                "submit again a little later",
                retry_after=RETRY_AFTER_SECONDS,
            )


def _token(request: Submit) -> str:
    """One caller's tokens are none of another's."""
    return hashlib.sha256(f"{request.owner}\0{request.client_token}".encode()).hexdigest()


def _fingerprint(request: Submit) -> str:
    """Of all that makes it the same request."""
    data = msgspec.json.encode(request, order="sorted")
    return hashlib.sha256(data).hexdigest()


def _same(found: TokenRecord, request: Submit) -> QueryId:
    if found.fingerprint != _fingerprint(request):
        raise Refused(
            RefusalKind.TOKEN_CONFLICT,
            f"client_token {request.client_token!r} stands for query {found.query_id}, which was "
            "submitted with another statement or other settings; use a new token",
        )
    return found.query_id
