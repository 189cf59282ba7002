"""What an item says about a write: it may be made, it has landed already, or it is refused.

SQLite asks before it writes, under its lock. DynamoDB writes first and asks only about the item
that came back from a refused or unanswered write. Same questions, same answers, same errors.
"""

from __future__ import annotations

from coordinator_state.errors import (
    IllegalTransition,
    QueryEnded,
    Refused,
    StaleAttempt,
    TableMoved,
)
from coordinator_state.ids import Nonce
from coordinator_state.records import (
    QueryRecord,
    QueryStatus,
    StageRecord,
    StageStatus,
    TableChange,
    TableRecord,
    TaskRecord,
    TaskStatus,
    WorkerRecord,
    WorkerStatus,
)
from coordinator_state.transitions import QUERY_MOVES, TASK_MOVES, WORKER_MOVES


def task_name(task: TaskRecord) -> str:
    return f"task {task.stage}.{task.index} attempt {task.attempt}"


# -- query -------------------------------------------------------------------------------------
def require_running(query: QueryRecord) -> None:
    """Raises ``QueryEnded``."""
    if query.status is not QueryStatus.RUNNING:
        raise QueryEnded(f"query {query.query_id} is {query.status}", current=query)


def require_ended(verb: str, query: QueryRecord) -> None:
    """Raises ``IllegalTransition`` while the query runs."""
    if not QUERY_MOVES[verb].starts_from(query.status):
        raise IllegalTransition(
            f"{verb} of query {query.query_id}: it is {query.status}; end it first", current=query
        )


def require_closable(query: QueryRecord) -> None:
    """Raises ``IllegalTransition`` unless the query ended and was swept."""
    require_ended("close_query", query)
    if not query.swept:
        raise IllegalTransition(
            f"close_query of query {query.query_id}: it was not swept yet", current=query
        )


def require_closed(verb: str, query: QueryRecord) -> None:
    """Raises ``IllegalTransition`` unless the query is CLOSED."""
    if not query.closed:
        raise IllegalTransition(
            f"{verb} of query {query.query_id}: it is not CLOSED", current=query
        )


def require_purged(query: QueryRecord) -> None:
    """Raises ``IllegalTransition`` unless nothing but the query item is left."""
    if not (query.closed and query.purged):
        raise IllegalTransition(
            f"forget_query of query {query.query_id}: purge it first", current=query
        )


def turn_is_free(query: QueryRecord, holder: str, *, now: float) -> bool:
    """A holder may take its own turn again: that is how a lost answer or a knock is served."""
    return query.turn_holder in ("", holder) or query.turn_until <= now


def turn_released(query: QueryRecord, holder: str, *, wake: int) -> bool | None:
    """True: not mine any more. False: somebody knocked. None: mine, and may be released."""
    if query.turn_holder != holder:
        return True
    return None if query.wake == wake else False


# -- the commit of a write ---------------------------------------------------------------------
def may_end(query: QueryRecord, *, committer: bool) -> bool:
    """Once files are being shown, cancelling would leave some: only the committer ends it."""
    return query.status is QueryStatus.RUNNING and (committer or not query.committing)


def require_unmoved(change: TableChange, standing: TableRecord | None) -> None:
    """Raises ``TableMoved`` unless the table's manifest is what the commit was made for."""
    manifest = standing.manifest if standing else ""
    if manifest != change.expected:
        raise TableMoved(f"table {change.record.name} was changed meanwhile", current=standing)


# -- claims ------------------------------------------------------------------------------------
def require_claimable(query: QueryRecord, worker: WorkerRecord) -> None:
    """Raises ``QueryEnded``, or ``Refused`` for a worker that may not claim."""
    require_running(query)
    if worker.status is not WorkerStatus.ACTIVE:
        raise Refused(
            f"worker {worker.worker_id} is {worker.status}; only ACTIVE ones claim", current=worker
        )


def has_offer(stage: StageRecord) -> bool:
    if stage.status is not StageStatus.ACTIVE:
        return False
    return bool(stage.offers) or stage.cursor < min(stage.admitted, stage.tasks)


def is_on_offer(stage: StageRecord, index: int) -> bool:
    """Whether a claim will come by ``index`` without offering it again."""
    return index in stage.offers or index >= stage.cursor


def claim_landed(task: TaskRecord, nonce: Nonce) -> bool:
    """Whether the task was claimed under ``nonce``, by a write whose answer was lost."""
    return task.status is TaskStatus.RUNNING and task.nonce == nonce


# -- stages ------------------------------------------------------------------------------------
def stage_name(stage: StageRecord) -> str:
    return f"stage {stage.stage}"


def require_all_committed(stage: StageRecord, missing: int) -> None:
    """Raises ``Refused`` if ``missing`` tasks of the sealed list are not committed."""
    if missing:
        raise Refused(
            f"stage {stage.stage}: {missing} of {stage.tasks} tasks are not committed",
            current=stage,
        )


def generation_landed(stage: StageRecord, expected: int) -> bool:
    """True if the generation was begun already. Raises ``Refused`` if it is any other."""
    if stage.generation in (expected, expected + 1):
        return stage.generation == expected + 1
    raise Refused(
        f"stage {stage.stage} is at generation {stage.generation}, not {expected}", current=stage
    )


# -- tasks -------------------------------------------------------------------------------------
def same_attempt(mine: TaskRecord, current: TaskRecord) -> bool:
    return mine.attempt == current.attempt and mine.nonce == current.nonce


def task_landed(verb: str, mine: TaskRecord, current: TaskRecord) -> bool:
    """True if ``current`` shows this attempt where ``verb`` ends, False if the verb may be made.

    Raises:
        StaleAttempt: another attempt or claimant has the task, or this one was ended otherwise.
    """
    move = TASK_MOVES[verb]
    if same_attempt(mine, current):
        if move.starts_from(current.status):
            return False
        if current.status is move.target:
            return True
    raise StaleAttempt(
        f"{verb} of {task_name(mine)}: the task is {current.status} at attempt {current.attempt}",
        current=current,
    )


def beat_is_news(task: TaskRecord, current: TaskRecord) -> bool:
    """An observation no newer than the noted one must not extend the lease."""
    return task.beat > current.beat_seen


def require_silent(task: TaskRecord, current: TaskRecord, beat: int | None) -> None:
    """Raises ``Refused`` if the attempt beat again since ``beat`` was read."""
    if beat is not None and current.beat != beat:
        raise Refused(
            f"{task_name(task)} is alive: beat {current.beat} came after {beat}", current=current
        )


# -- workers -----------------------------------------------------------------------------------
def require_registrable(worker: WorkerRecord) -> None:
    """Raises ``Refused``: an id registers once, and never after it was drained, lost or left."""
    if not WORKER_MOVES["register_worker"].starts_from(worker.status):
        raise Refused(
            f"worker {worker.worker_id} is {worker.status}; it cannot register", current=worker
        )
