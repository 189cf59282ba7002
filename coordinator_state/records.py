"""What the coordinator remembers: frozen records of queries, stages, tasks, workers and the ledger.

A record is what one item of the state store says, read back. Nothing here decides anything:
legal moves are in ``transitions``, the conditions that guard them in ``conditions``.
Times are seconds since the epoch (UTC).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from coordinator_state.ids import Nonce, QueryId, StageId, WorkerId


class QueryStatus(StrEnum):
    """Where a query is. The first end fixes the answer; ``CLOSED`` is a flag of the record."""

    RUNNING = "RUNNING"  # tasks may be claimed
    SUCCEEDED = "SUCCEEDED"  # the result manifest stands
    FAILED = "FAILED"  # the error stands
    CANCELLED = "CANCELLED"  # asked for, or the deadline passed


class StageStatus(StrEnum):
    """Where one stage of a query is."""

    WAITING = "WAITING"  # its tasks are not offered yet
    ACTIVE = "ACTIVE"  # task list sealed; tasks up to ``admitted`` are offered
    COMPLETE = "COMPLETE"  # a consistent read showed every sealed task committed
    SKIPPED = "SKIPPED"  # nobody needs its output any more


class TaskStatus(StrEnum):
    """Where one logical task is."""

    PENDING = "PENDING"  # waits for a claim
    RUNNING = "RUNNING"  # one attempt holds it
    COMMITTED = "COMMITTED"  # the attempt named by the item is the task's output
    FAILED = "FAILED"  # its failure budget is used up, or the error is final
    SKIPPED = "SKIPPED"  # its output is not needed any more


class WorkerStatus(StrEnum):
    """Where one physical worker is."""

    LAUNCHING = "LAUNCHING"  # written before the launch call
    ACTIVE = "ACTIVE"  # registered; may claim
    DRAINING = "DRAINING"  # finishes its task, claims no other; never revived
    LEFT = "LEFT"  # said goodbye
    LOST = "LOST"  # launch or lease deadline passed, or seen dead; its id is refused


class ErrorRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a task or query failed; kinds stay fields, never text to search in."""

    kind: str  # e.g. "InvalidInput", "OutOfMemory", "ExchangeLost", "LeaseExpired"
    message: str  # for the user; cut to ``schema.MAX_ERROR_CHARS``
    retryable: bool = False
    scope: str = "task"  # task | query | input
    subject: str = ""  # the file, object, setting or task it names


#: Of a query that somebody cancelled.
CANCELLED = ErrorRecord(kind="Cancelled", message="the query was cancelled", scope="query")


class Commit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a committed attempt wrote; encoded it stays under 1 KB.

    Offsets of sections are in the object's trailer, not here.
    """

    object_key: str = ""  # "" when the attempt wrote no object (kept in process)
    size: int = 0  # bytes of the object
    checksum: str = ""  # xxh3-64, hex, of the trailer index
    index_offset: int = 0  # where the trailer index starts in the object
    rows_in: int = 0
    bytes_in: int = 0
    rows_out: int = 0
    bytes_out: int = 0
    seconds: float = 0.0  # claim to commit
    peak_memory: int = 0  # bytes, resident


class QueryRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One query."""

    query_id: QueryId
    status: QueryStatus = QueryStatus.RUNNING
    created_at: float
    sql: str = ""  # cut to ``schema.MAX_SQL_CHARS``; the whole text is in the plan object
    plan_key: str = ""  # object that holds the encoded StagePlan
    engine_build: str = ""  # another build leaves this query's tasks alone
    deadline_at: float | None = None
    exchange: str = "s3qs"  # s3qs | batch
    max_attempts: int = 4  # failures allowed per task
    workers: int = 0  # budget of workers at once; 0: the coordinator's default
    lease_seconds: float = 30.0
    client_token: str = ""
    owner: str = ""  # who drives it, for orphan detection: "host:pid:starttime" locally
    ended_at: float | None = None
    result: tuple[str, ...] = ()  # object keys in result order (the manifest, when small)
    result_key: str = ""  # object holding the manifest when it is not small
    result_rows: int = 0
    writes: bool = False  # a statement that writes: its last stage's objects are no answer
    committing: bool = False  # its files are being shown; only the committer may end it now
    manifest: str = ""  # object that lists what the query's commit left its table with
    error: ErrorRecord | None = None
    swept: bool = False  # first sweep done
    closed: bool = False  # every worker dead or past its life, second sweep found nothing
    purged: bool = False  # nothing but this item is left
    # The turn: one run of the coordinator.
    turn_holder: str = ""
    turn_until: float = 0.0
    wake: int = 0  # bumped by whoever finds the turn held
    tick: int = 0  # number of the live tick; any other sends nothing
    coordinator_usage: dict[str, int] = {}  # requests by kind, summed over ended turns


class StageRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stage; ``tasks``, ``partitions`` and the assignment are sealed with the generation."""

    query_id: QueryId
    stage: StageId
    status: StageStatus = StageStatus.WAITING
    depth: int = 0  # 0 reads only tables; else 1 + the deepest upstream stage
    upstream: tuple[StageId, ...] = ()
    tasks: int = 1  # sealed number of logical tasks
    prefix_limit: int = 0  # > 0: the first tasks that make so many rows together are enough
    generation: int = 0  # of the shuffles this stage writes
    admitted: int = 0  # tasks whose claim order is below this may be claimed
    desired: int = 0  # workers wanted for this stage
    cursor: int = 0  # hint: next task index to offer
    offers: tuple[int, ...] = ()  # task indexes to offer again, oldest first
    committed: int = 0  # hint only, set with COMPLETE; completeness is read from the tasks
    reopened: int = 0  # bumped whenever a task is taken back; fences ``complete_stage``


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One logical task and the attempt that holds or ended it."""

    query_id: QueryId
    stage: StageId
    index: int
    status: TaskStatus = TaskStatus.PENDING
    attempt: int = 0  # fence: only goes up, never reused
    nonce: Nonce = Nonce("")
    worker_id: WorkerId = WorkerId("")
    generation: int = 0
    beat: int = 0  # heartbeat counter of the running attempt
    beat_seen: int = -1  # the coordinator's note: last value it saw ...
    beat_seen_at: float = 0.0  # ... and when, by its own clock
    pending_since: float = 0.0
    claimed_at: float = 0.0
    phase: str = ""  # claim | wait | fragment | write | commit, from the heartbeat
    peak_memory: int = 0
    failures: int = 0
    handbacks: int = 0
    lost_attempts: tuple[int, ...] = ()  # attempts whose objects may be left behind
    bound: tuple[tuple[StageId, int, int], ...] = ()  # (stage, index, attempt) used, if committed
    commit: Commit | None = None
    error: ErrorRecord | None = None


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One physical worker of a query."""

    query_id: QueryId
    worker_id: WorkerId
    status: WorkerStatus = WorkerStatus.LAUNCHING
    stage: StageId | None = None  # the stage its launch was counted for
    worker_class: str = "standard"
    launched_at: float = 0.0
    launch_deadline: float = 0.0  # LOST if not registered by then
    registered_at: float = 0.0
    life_until: float = 0.0  # its longest possible life
    left_at: float = 0.0
    usage: dict[str, int] = {}  # requests by kind, cumulative (``platform.meter``)


class LedgerKind(StrEnum):
    """Kinds of resource a query owns outside its state items."""

    QUEUE = "queue"
    OBJECTS = "objects"  # a key prefix
    MULTIPART = "multipart"
    WORKER = "worker"


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One owned resource: written before it is made, removed when its absence is confirmed."""

    query_id: QueryId
    kind: LedgerKind
    name: str
    owned_at: float


class QueueLease(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A queue of the pool in use; ``holder`` is the name its users know it by."""

    queue: str
    holder: str
    leased_at: float


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client's token stands for: the same token again means the same query."""

    token: str
    query_id: QueryId
    fingerprint: str  # of the request; another request under the same token is a mistake
    created_at: float
    expires_at: int  # whole seconds; after that the token is free again


class TableRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table that statements write: which manifest says what it holds."""

    name: str  # as written; names ignore case
    manifest: str = ""  # object key; "": dropped, kept for what was retired
    made_by: str = ""  # query whose commit made it what it is
    changed_at: float = 0.0
    #: Manifests that were replaced or dropped, and when: queries may still read their files.
    retired: tuple[tuple[str, float], ...] = ()


class TableChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit makes of a table, if its manifest is still ``expected`` ("": no such table)."""

    record: TableRecord
    expected: str = ""
