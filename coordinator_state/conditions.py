"""Every condition of a DynamoDB write, by name, with the race it closes.

``#name`` stands for the attribute ``name``, ``:WORD`` for the text "WORD" (a status), and any other
``:value`` is bound by the writer. Status clauses are written from ``transitions``, so a move that
becomes legal there becomes legal here.
"""

from __future__ import annotations

from coordinator_state.schema import LISTING_DRAFT
from coordinator_state.transitions import (
    QUERY_MOVES,
    STAGE_MOVES,
    TASK_MOVES,
    WORKER_MOVES,
    Move,
    S,
)


def _starts(move: Move[S]) -> str:
    """The item is in one of the states ``move`` starts from."""
    return f"#status IN ({', '.join(f':{status}' for status in sorted(move.sources))})"


def _all(*clauses: str) -> str:
    return " AND ".join(f"({clause})" if " OR " in clause else clause for clause in clauses)


# A late write of a dead worker against purge_query: an update without this would make a new item,
# and a cleaned query would have leftovers again.
EXISTS = "attribute_exists(#pk)"

# Two writers of one new item: the second is told what the first wrote.
ABSENT = "attribute_not_exists(#pk)"

# -- query -------------------------------------------------------------------------------------
# A query that create_query has not finished is not there yet for anybody else.
_VISIBLE = _all(EXISTS, f"#listing <> :{LISTING_DRAFT}")

# create_query, two callers with one id, or drop_drafts against a creation that is still alive:
# only the caller whose draft stands may finish it.
MY_DRAFT = _all(EXISTS, f"#listing = :{LISTING_DRAFT}", "#draft_token = :token")

# drop_drafts against a creation that finishes after all: only a draft goes.
STILL_DRAFT = _all(EXISTS, f"#listing = :{LISTING_DRAFT}")

# Cancel, deadline, failure and the last commit all try to end a query; the first one has. While
# files are being shown only the committer may, or some of them would stay visible.
COMMIT_QUERY = _all(_VISIBLE, _starts(QUERY_MOVES["end_query"]))
END_QUERY = _all(COMMIT_QUERY, "attribute_not_exists(#committing) OR #committing = :false")

# A commit begun after the query was cancelled: nothing may be shown any more.
BEGIN_COMMIT = COMMIT_QUERY

# A sweep asked for too early, while workers still make things.
MARK_SWEPT = _all(_VISIBLE, _starts(QUERY_MOVES["mark_swept"]))

# A second sweep that overtook the first; and a late close that would list a purged query again.
CLOSE_QUERY = _all(
    _VISIBLE, _starts(QUERY_MOVES["close_query"]), "#swept = :true", "#purged = :false"
)

# forget_query against a purge that died half way: the query item goes last, or nobody would know
# of the rest.
PURGE_QUERY = _all(_VISIBLE, "#closed = :true")
FORGET_QUERY = _all(_VISIBLE, "#closed = :true", "#purged = :true")

# add_worker and own write new items, which cannot assert themselves: the query item is asserted in
# the same transaction. Without it a slow coordinator would make items of a query that has ended,
# after its sweep, or after its purge.
QUERY_RUNS = _all(_VISIBLE, _starts(QUERY_MOVES["end_query"]))

# -- the turn ----------------------------------------------------------------------------------
# Two coordinators woken at once. The holder itself may begin again: its answer was lost, or it was
# knocked at. A lapsed lease belongs to whoever comes.
BEGIN_TURN = _all(
    _VISIBLE, "#turn_holder = :empty OR #turn_holder = :holder OR #turn_until <= :now"
)

# A turn that ends between a refused BEGIN_TURN and its knock: the knock would be heard by nobody.
# Refused here, the caller takes the turn itself.
KNOCK = _all(_VISIBLE, "#turn_holder <> :empty", "#turn_holder <> :holder", "#turn_until > :now")

# A knock that came while the turn ran: releasing then would lose its event.
END_TURN = _all(_VISIBLE, "#turn_holder = :holder", "#wake = :wake")

# A tick delivered twice, or an old one: only the live number moves, so chains do not multiply.
ADVANCE_TICK = _all(_VISIBLE, "#tick = :expected")

# -- stage -------------------------------------------------------------------------------------
# A stale instruction to start a stage that was completed or skipped meanwhile.
ACTIVATE_STAGE = _all(EXISTS, _starts(STAGE_MOVES["activate_stage"]))

# Two coordinators, the slower with the smaller number: what was admitted stays admitted.
RAISE_ADMITTED = _all(EXISTS, "#admitted <= :admitted")

# A task taken back (rerun, reset) after the read that found all of them committed: ``reopened`` has
# moved, and the stage stays ACTIVE, or the task would never be claimed.
COMPLETE_STAGE = _all(EXISTS, _starts(STAGE_MOVES["complete_stage"]), "#reopened = :reopened")

# An early stop decided while the stage was completed: complete stays complete.
SKIP_STAGE = _all(EXISTS, _starts(STAGE_MOVES["skip_stage"]))

# A reset against a stage that has not started: it must not become ACTIVE and break a barrier.
RESET_STAGE = _all(EXISTS, _starts(STAGE_MOVES["reset_stage"]))
REOPEN_STAGE = _all(EXISTS, _starts(STAGE_MOVES["reopen_stage"]))

# Two coordinators that both found the same lost object: one new generation, not two.
BEGIN_GENERATION = _all(EXISTS, "#generation = :generation")

# Claimers take offers from the head, each another one: removing the head answers with what was
# removed. Empty or not ACTIVE: nothing to take.
TAKE_OFFER = _all(
    EXISTS, f"#status = :{STAGE_MOVES['activate_stage'].target}", "size(#offers) > :zero"
)

# The cursor is a counter, so claimers never collide on it; it stops at what is admitted.
MOVE_CURSOR = _all(
    EXISTS,
    f"#status = :{STAGE_MOVES['activate_stage'].target}",
    "#cursor < #admitted",
    "#cursor < #tasks",
)


def offer_again(count: int) -> str:
    """Two coordinators offering the same tasks: each index stands in the list at most once."""
    clauses = (f"NOT contains(#offers, :index{i}) AND #cursor > :index{i}" for i in range(count))
    return _all(EXISTS, *clauses)


# -- task --------------------------------------------------------------------------------------
# Another claimant, or nothing to claim: the offer was a hint that was out of date.
CLAIM_TASK = _all(EXISTS, _starts(TASK_MOVES["claim_task"]))

# The fence. A worker thought dead comes back when its task was given to another, or the same launch
# runs twice: attempt and nonce together name one claim for ever.
_MINE = _all("#attempt = :attempt", "#nonce = :nonce")

HEARTBEAT = _all(EXISTS, _starts(TASK_MOVES["heartbeat"]), _MINE)

# Two coordinators note beats: an older or repeated note would extend a lease that is running out.
OBSERVE_BEAT = _all(EXISTS, _starts(TASK_MOVES["observe_beat"]), _MINE, "#beat_seen < :beat")

# Commit against requeue, reset, skip or another attempt's commit: exactly one of them wins.
COMMIT_TASK = _all(EXISTS, _starts(TASK_MOVES["commit_task"]), _MINE)
REQUEUE_TASK = _all(EXISTS, _starts(TASK_MOVES["requeue_task"]), _MINE)
HAND_BACK_TASK = _all(EXISTS, _starts(TASK_MOVES["hand_back_task"]), _MINE)
FAIL_TASK = _all(EXISTS, _starts(TASK_MOVES["fail_task"]), _MINE)

# A lease found expired against the heartbeat that arrives just then: the beat wins.
REQUEUE_SILENT_TASK = _all(REQUEUE_TASK, "#beat = :beat")

# Many consumers report one lost object: the first takes that attempt back, the rest change nothing.
RERUN_TASK = _all(EXISTS, _starts(TASK_MOVES["rerun_task"]), _MINE)

# A claim or commit between the read and the reset or skip of a task: read again, decide again.
UNMOVED_TASK = _all(EXISTS, "#status = :status", _MINE)

# -- the pool and tokens -----------------------------------------------------------------------
# Two coordinators that want one queue of the pool, or the same one again after a lost answer.
LEASE_QUEUE = "attribute_not_exists(#pk) OR #holder = :holder"

# A late sweep returns a queue that has been leased to somebody else since.
RETURN_QUEUE = _all(EXISTS, "#holder = :holder")

# The same token from two requests at once: the first one's query counts, until the token expires.
CLAIM_TOKEN = "attribute_not_exists(#pk) OR #expires_at <= :now"

# -- tables ------------------------------------------------------------------------------------
# Two commits made for one state of a table: the second would undo what the first added.
CHANGE_TABLE = _all(EXISTS, "#manifest = :expected")
CREATE_TABLE = "attribute_not_exists(#pk) OR #manifest = :empty"

# A table created again before its dropped record was removed.
FORGET_TABLE = _all(EXISTS, "#manifest = :empty")

# -- worker ------------------------------------------------------------------------------------
# The same launch delivered twice, or a worker that appears after it was drained or given up.
REGISTER_WORKER = _all(EXISTS, _starts(WORKER_MOVES["register_worker"]))
DRAIN_WORKER = _all(EXISTS, _starts(WORKER_MOVES["drain_worker"]))
LOSE_WORKER = _all(EXISTS, _starts(WORKER_MOVES["lose_worker"]))

# A worker says goodbye after it was given up: it stays LOST, only its usage is kept.
LEAVE_WORKER = _all(EXISTS, _starts(WORKER_MOVES["leave_worker"]))

# Late or repeated usage of a worker whose query was purged.
REPORT_USAGE = EXISTS
