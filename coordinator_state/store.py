"""The state store as the engine sees it: one verb, one conditional write.

Every verb asserts that its item exists (``NotFound``), is safe to repeat, and is decided by the
item that comes back when the write was refused or its answer was lost. No verb relies on a clock
for safety.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from coordinator_state.ids import Nonce, QueryId, StageId, WorkerId
from coordinator_state.records import (
    Commit,
    ErrorRecord,
    LedgerEntry,
    LedgerKind,
    QueryRecord,
    QueryStatus,
    QueueLease,
    StageRecord,
    TableChange,
    TableRecord,
    TaskRecord,
    TaskStatus,
    TokenRecord,
    WorkerRecord,
)


class StateStore(Protocol):
    """Queries, stages, tasks, workers and the ledger, changed only by conditional writes."""

    # -- query ---------------------------------------------------------------------------------
    def create_query(self, query: QueryRecord, stages: Sequence[StageRecord]) -> QueryRecord:
        """Write a query, its stages and their PENDING tasks; the query item goes last.

        Until the query item exists nothing of it can be claimed. Raises ``AlreadyExists``.
        """
        ...

    def get_query(self, query_id: QueryId) -> QueryRecord:
        """Consistent read. Raises ``NotFound``."""
        ...

    def list_queries(
        self, *, status: QueryStatus | None = None, limit: int = 100, before: QueryId | None = None
    ) -> Sequence[QueryRecord]:
        """Newest first."""
        ...

    def open_queries(self) -> Sequence[QueryId]:
        """Queries that are not CLOSED yet, oldest first; one made just now may still be missing."""
        ...

    def unpurged_queries(self) -> Sequence[QueryId]:
        """CLOSED queries whose items were not all removed yet; whoever finds them purges them."""
        ...

    def drop_drafts(self, *, before: float) -> int:
        """Remove what ``create_query`` calls that died before ``before`` left; how many queries.

        Only a store that cannot create a query in one write ever has any. ``before`` must lie
        further back than a creation can take, or a living one is refused its last write.
        """
        ...

    def end_query(
        self,
        query_id: QueryId,
        status: QueryStatus,
        *,
        now: float,
        result: Sequence[str] = (),
        result_key: str = "",
        result_rows: int = 0,
        error: ErrorRecord | None = None,
        table: TableChange | None = None,
        committer: bool = False,
    ) -> QueryRecord:
        """The one write that ends RUNNING. Returns the record as it stands, whoever ended it.

        With ``table`` the same write changes the table, or neither is: ``TableMoved`` if the table
        is not what the change was made for. Once ``begin_commit`` was called, only a ``committer``
        ends the query; others are given the record, still RUNNING.
        """
        ...

    def begin_commit(self, query_id: QueryId) -> QueryRecord:
        """The point of no return of a write that has no one step; the record as it stands.

        It changes nothing of a query that has ended; repeating it is no error.
        """
        ...

    def mark_swept(self, query_id: QueryId) -> None:
        """First sweep done. Only after the query ended."""
        ...

    def close_query(self, query_id: QueryId, *, expires_at: float | None) -> None:
        """Second end; sets the TTL. Only after the query ended and was swept."""
        ...

    def purge_query(self, query_id: QueryId) -> None:
        """Remove every item of a CLOSED query but the query item itself."""
        ...

    def forget_query(self, query_id: QueryId) -> None:
        """Remove the query item of a purged, CLOSED query; repeating is no error."""
        ...

    # -- the turn ------------------------------------------------------------------------------
    def begin_turn(
        self, query_id: QueryId, holder: str, *, now: float, until: float
    ) -> QueryRecord | None:
        """Take the turn lease if free or lapsed; else bump ``wake`` and return None."""
        ...

    def end_turn(
        self, query_id: QueryId, holder: str, *, wake: int, usage: Mapping[str, int] | None = None
    ) -> bool:
        """Release if ``wake`` is unchanged. False: somebody knocked, take another turn.

        True also if another holder took the lapsed lease meanwhile. A holder that is told False
        still holds the turn and takes the next one with ``begin_turn``. ``usage`` (requests by
        kind) is added to the query's ``coordinator_usage`` by the write that releases.
        """
        ...

    def advance_tick(self, query_id: QueryId, *, expected: int) -> bool:
        """Move tick ``expected`` to ``expected`` + 1. False: another tick is the live one."""
        ...

    # -- stages --------------------------------------------------------------------------------
    def stages(self, query_id: QueryId) -> Sequence[StageRecord]:
        """Consistent read, by stage id."""
        ...

    def activate_stage(self, query_id: QueryId, stage: StageId) -> StageRecord:
        """WAITING -> ACTIVE; repeating it is no error."""
        ...

    def set_capacity(
        self, query_id: QueryId, stage: StageId, *, admitted: int, desired: int
    ) -> StageRecord:
        """``admitted`` only goes up within a generation; ``desired`` moves freely."""
        ...

    def complete_stage(self, query_id: QueryId, stage: StageId) -> StageRecord:
        """ACTIVE -> COMPLETE, after a consistent read, made here, showed every task committed.

        Raises ``Refused`` if one is not, or was taken back meanwhile.
        """
        ...

    def skip_stage(self, query_id: QueryId, stage: StageId) -> StageRecord:
        """WAITING or ACTIVE -> SKIPPED; its unfinished tasks become SKIPPED too."""
        ...

    def offer_again(self, query_id: QueryId, stage: StageId, indexes: Sequence[int]) -> None:
        """Append task indexes that are PENDING and not on offer; each stands there at most once."""
        ...

    def begin_generation(self, query_id: QueryId, stage: StageId, *, expected: int) -> StageRecord:
        """Generation ``expected`` -> + 1 (of the shuffles ``stage`` writes)."""
        ...

    def reset_stage(self, query_id: QueryId, stage: StageId, *, now: float) -> None:
        """Every task, committed or not -> PENDING with a higher attempt; stage -> ACTIVE.

        The claim order starts anew and ``admitted`` stays. A WAITING stage is left as it is:
        nothing of it has started.
        """
        ...

    # -- tasks ---------------------------------------------------------------------------------
    def tasks(
        self, query_id: QueryId, stage: StageId, *, status: TaskStatus | None = None
    ) -> Sequence[TaskRecord]:
        """Consistent read, by index."""
        ...

    def get_task(self, query_id: QueryId, stage: StageId, index: int) -> TaskRecord:
        """Consistent read of one task."""
        ...

    def claim_task(
        self, query_id: QueryId, stage: StageId, worker_id: WorkerId, nonce: Nonce, *, now: float
    ) -> TaskRecord | None:
        """PENDING -> RUNNING, attempt + 1, first beat. O(1) writes under contention.

        Serves ``offers`` first, then the cursor, up to ``admitted``. None: nothing on offer.
        Raises ``QueryEnded`` if the query is not RUNNING, ``Refused`` if the worker may not claim
        (not ACTIVE).
        """
        ...

    def heartbeat(
        self,
        task: TaskRecord,
        *,
        phase: str,
        peak_memory: int = 0,
    ) -> QueryStatus:
        """Bump the beat of my running attempt and tell how the query stands.

        Raises ``StaleAttempt`` when the attempt is not mine any more.
        """
        ...

    def observe_beat(self, task: TaskRecord, *, now: float) -> None:
        """The coordinator notes the beat it saw, with its own clock. Fenced by attempt."""
        ...

    def commit_task(
        self,
        task: TaskRecord,
        commit: Commit,
        *,
        bound: Sequence[tuple[StageId, int, int]] = (),
    ) -> TaskRecord:
        """RUNNING (my attempt, my nonce) -> COMMITTED, in one write.

        An unanswered or refused write is decided by the item: COMMITTED with my nonce is success.
        ``QueryEnded`` may come after the task was written: the result manifest, not this verb,
        settles which commits count.
        Raises ``StaleAttempt`` or ``QueryEnded`` otherwise.
        """
        ...

    def requeue_task(
        self,
        task: TaskRecord,
        error: ErrorRecord,
        *,
        now: float,
        burn: bool = True,
        beat: int | None = None,
    ) -> TaskRecord:
        """RUNNING (that attempt) -> PENDING, offered again; ``burn`` adds a failure.

        With ``beat``, only while that is still the attempt's last heartbeat (else ``Refused``): a
        lease that was found expired is not taken from a worker that has just come back.

        Used by the coordinator (lease expired, worker dead) and by a worker whose attempt failed.
        Raises ``StaleAttempt`` when the attempt moved on.
        """
        ...

    def hand_back_task(self, task: TaskRecord, *, now: float, offer: bool = True) -> TaskRecord:
        """RUNNING (mine) -> PENDING without burning a failure; ``handbacks`` + 1."""
        ...

    def fail_task(self, task: TaskRecord, error: ErrorRecord) -> TaskRecord:
        """RUNNING (that attempt) -> FAILED, for an error no retry can mend."""
        ...

    def rerun_task(self, task: TaskRecord, error: ErrorRecord, *, now: float) -> TaskRecord:
        """COMMITTED (that attempt) -> PENDING, because its object is lost. Compare-and-set.

        Burns a failure, reopens a COMPLETE stage and offers the task again.
        """
        ...

    # -- workers -------------------------------------------------------------------------------
    def add_worker(self, worker: WorkerRecord) -> None:
        """Write LAUNCHING, before the launch call.

        Raises ``AlreadyExists``, or ``QueryEnded`` if the query is not RUNNING.
        """
        ...

    def register_worker(
        self, query_id: QueryId, worker_id: WorkerId, *, now: float, life_until: float
    ) -> WorkerRecord:
        """LAUNCHING -> ACTIVE, once. Raises ``Refused`` for LOST, LEFT, or a second register."""
        ...

    def drain_worker(self, query_id: QueryId, worker_id: WorkerId) -> WorkerRecord:
        """LAUNCHING or ACTIVE -> DRAINING. A draining worker is never revived.

        Raises ``IllegalTransition`` for one that is LEFT or LOST.
        """
        ...

    def leave_worker(
        self, query_id: QueryId, worker_id: WorkerId, *, now: float, usage: Mapping[str, int]
    ) -> None:
        """-> LEFT, with its final usage. Late usage of a LOST worker is kept too."""
        ...

    def report_usage(
        self, query_id: QueryId, worker_id: WorkerId, usage: Mapping[str, int]
    ) -> WorkerRecord:
        """Overwrite the cumulative usage; the answer tells whether to drain."""
        ...

    def lose_worker(self, query_id: QueryId, worker_id: WorkerId) -> WorkerRecord:
        """LAUNCHING, ACTIVE or DRAINING -> LOST. Raises ``IllegalTransition`` for one that LEFT."""
        ...

    def workers(self, query_id: QueryId) -> Sequence[WorkerRecord]:
        """Consistent read, by launch time."""
        ...

    # -- ledger --------------------------------------------------------------------------------
    def own(self, entries: Sequence[LedgerEntry]) -> None:
        """Write entries before their resources are made; repeating is no error.

        Raises ``QueryEnded`` if the query is not RUNNING: what would be made after the sweep of an
        ended query could be left behind.
        """
        ...

    def release(self, query_id: QueryId, kind: LedgerKind, name: str) -> None:
        """Remove an entry whose resource is confirmed absent; repeating is no error."""
        ...

    def owned(self, query_id: QueryId) -> Sequence[LedgerEntry]:
        """Consistent read."""
        ...

    # -- the pool of queues --------------------------------------------------------------------
    def lease_queue(self, lease: QueueLease) -> QueueLease:
        """Take ``lease.queue`` unless another holder has it; returns the lease that stands."""
        ...

    def return_queue(self, queue: str, holder: str) -> None:
        """Give it back; not being its holder (any more) is no error."""
        ...

    def queue_leases(self) -> Sequence[QueueLease]:
        """Consistent read of every lease, by queue."""
        ...

    # -- client tokens -------------------------------------------------------------------------
    def claim_token(self, record: TokenRecord, *, now: float) -> TokenRecord:
        """Bind the token, unless it is bound and has not expired; returns what it stands for."""
        ...

    def find_token(self, token: str, *, now: float) -> TokenRecord | None:
        """Consistent read; None if the token is free."""
        ...

    # -- tables that statements write ----------------------------------------------------------
    def tables(self) -> Sequence[TableRecord]:
        """Consistent read of every table, dropped ones included, by lower-case name."""
        ...

    def find_table(self, name: str) -> TableRecord | None:
        """Consistent read; names ignore case."""
        ...

    def change_table(self, change: TableChange) -> None:
        """Change a table outside any query, such as to drop it. Raises ``TableMoved``."""
        ...

    def forget_table(self, name: str) -> None:
        """Remove the record of a dropped table; of any other, or none, nothing happens."""
        ...
