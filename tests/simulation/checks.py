"""What must hold at the end of every seed, and while it runs."""

from __future__ import annotations

from collections.abc import Iterator

from greenlet import getcurrent

from coordinator_state import schema
from coordinator_state.dynamodb.items import attributes
from coordinator_state.records import QueryStatus, StageStatus, TaskStatus, WorkerStatus
from coordinator_state.transitions import STAGE_MOVES, TASK_MOVES, WORKER_MOVES
from tests.simulation.fragments import oracle
from tests.simulation.kernel import Fiber
from tests.simulation.plans import fragment_of
from tests.simulation.table import Item, Key
from tests.simulation.theatre import unexpected
from tests.simulation.weather import MESSAGES, Rate
from tests.simulation.world import Case, World

#: Faults that do not keep the end of a query from being told at once.
PROMPT = MESSAGES | {Rate.REPEAT_CONTROL, Rate.SLOW_FRAGMENT, Rate.LAUNCH_TWICE}
_ENDS = {status.value for status in QueryStatus if status is not QueryStatus.RUNNING}


def _moves(table: object, states: type) -> frozenset[tuple[str, str]]:
    pairs = {(state.value, state.value) for state in states}  # type: ignore[attr-defined]
    for move in table.values():  # type: ignore[attr-defined]
        if move.target is not None:
            pairs |= {(source.value, move.target.value) for source in move.sources}
    return frozenset(pairs)


_ALLOWED = {
    "task": _moves(TASK_MOVES, TaskStatus),
    "stage": _moves(STAGE_MOVES, StageStatus),
    "worker": _moves(WORKER_MOVES, WorkerStatus),
}


class Transitions:
    """Watches every write: only along the table, attempts only up, one attempt one nonce."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.watchers.append(self)

    def __call__(self, key: Key, old: Item | None, new: Item | None) -> None:
        kind = _kind(key)
        if kind is None or new is None or "status" not in new:
            return
        after = attributes(new)
        if old is None or "status" not in old:  # there was nothing, or a draft
            self._check_new(kind, key, after)
            return
        before = attributes(old)
        pair = (str(before["status"]), str(after["status"]))
        if kind == "query":
            if pair[0] != pair[1] and (pair[0] != "RUNNING" or pair[1] not in _ENDS):
                self._blame(key, f"query moved {pair}")
            self._check_turn(key, before, after)
            if before.get("turn_holder") and not after["turn_holder"]:
                self._check_release(key, new)
        elif pair not in _ALLOWED[kind]:
            self._blame(key, f"{kind} moved {pair}")
        if kind == "task":
            self._check_task(key, before, after)
        if kind == "worker" and pair[0] != "LOST" == pair[1]:
            self._check_lost(key, after)

    def _check_new(self, kind: str, key: Key, after: dict[str, object]) -> None:
        first = {"task": "PENDING", "stage": "WAITING", "worker": "LAUNCHING"}.get(kind, "")
        if first and after["status"] != first:
            self._blame(key, f"new {kind} is {after['status']}")

    def _check_turn(self, key: Key, before: dict, after: dict) -> None:  # type: ignore[type-arg]
        held, taken = before.get("turn_holder", ""), after["turn_holder"]
        left = before.get("turn_until", 0.0) - self._world.kernel.now
        if held and taken not in ("", held) and left > 2.0:
            self._blame(key, f"its turn was taken {left:.1f} s before its end")

    def _check_release(self, key: Key, new: Item) -> None:
        """Whoever lets go of a turn has read the query since the last knock."""
        fiber = getcurrent()
        if not isinstance(fiber, Fiber):
            return  # a release that landed late: its condition was checked when it did
        if self._world.seen_wake.get((fiber.process.name, key[0])) != new["wake"]:
            self._blame(key, "a turn was let go although somebody had knocked")

    def _check_lost(self, key: Key, after: dict) -> None:  # type: ignore[type-arg]
        """Nothing has gone wrong so far, and the worker has come and lives: why give it up?"""
        # The same launch may have come twice: the end of one may be taken for that of both.
        lives = all(process.alive for process in self._world.workers.get(key[1], ()))
        if lives and after["registered_at"] and not self._world.weather.struck:
            self._blame(key, "a healthy worker was given up")

    def _check_task(self, key: Key, before: dict, after: dict) -> None:  # type: ignore[type-arg]
        if after["attempt"] < before["attempt"]:
            self._blame(key, f"attempt went from {before['attempt']} to {after['attempt']}")
        if pair_of(before, after) == ("RUNNING", "COMMITTED"):
            made = str(after["commit"]["object_key"]).rpartition("-")[2]
            if made != str(after["attempt"]):
                self._blame(key, f"attempt {after['attempt']} committed an object of {made}")
        case = self._world.case_of(key)
        if after["failures"] > case.options.max_attempts:
            self._blame(key, f"{after['failures']} failures of {case.options.max_attempts}")
        if after["handbacks"] > self._world.setting.max_handbacks:
            self._blame(key, f"handed back {after['handbacks']} times")
        same = after["attempt"] == before["attempt"] and before["attempt"] > 0
        if same and before["nonce"] != after["nonce"]:
            self._blame(key, f"attempt {after['attempt']} has two owners")

    def _blame(self, key: Key, what: str) -> None:
        self._world.violations.append(f"{key[0]} {key[1]}: {what}")


def pair_of(before: dict, after: dict) -> tuple[str, str]:  # type: ignore[type-arg]
    return str(before["status"]), str(after["status"])


def _kind(key: Key) -> str | None:
    if key[1] == schema.QUERY_SORT:
        return "query"
    if key[1].startswith(schema.STAGE_PREFIX):
        return "stage"
    return {"T": "task", "W": "worker"}.get(key[0][0])


def violations(world: World) -> Iterator[str]:
    """Everything that is wrong with a world that has run to its end."""
    yield from dict.fromkeys(world.violations)
    yield from costs(world)
    yield from unexpected(world.errors)
    for case in world.cases:
        if case.visible:
            yield from _of_case(world, case)
    yield from (f"left in the table: {key}" for key in world.table.items)
    left = (*world.objects.left(), *world.made.left())
    yield from (f"left behind: {name}" for name in left)


def costs(world: World) -> Iterator[str]:
    """What a seed may cost; in calm weather nothing is done twice and nobody waits for an alarm.

    Messages that are lost or repeated cost time, and nothing else.
    """
    weather, tally = world.setting.weather, world.calls.tally
    if not weather.strikes and PROMPT.issuperset(weather.rates):
        yield from _late_ends(world)
    if weather.strikes or not MESSAGES.issuperset(weather.rates):
        return
    calm = not weather.rates
    tasks = sum(case.tasks for case in world.cases)
    usual = (20.0 if calm else 40.0) + 8.0 * len(world.cases)
    if world.ended_after > max(usual, 4.0 * tasks):  # one worker may have them all
        yield f"cost: {world.ended_after:.0f} s in {'calm' if calm else 'harmless'} weather"
    if tally["worker run"] > tasks:
        yield f"cost: {tally['worker run']} runs of {tasks} tasks"
    if tally["worker HAND_BACK_TASK"]:
        yield f"cost: {tally['worker HAND_BACK_TASK']} handbacks"
    launches = tally["coordinator invoke"]
    if calm and launches > tasks:
        yield f"cost: {launches} launches for {tasks} tasks"


def _late_ends(world: World) -> Iterator[str]:
    """The last commit is heard, whoever holds the turn."""
    for case in world.cases:
        lag = case.ended_at - case.last_commit_at
        if case.record and case.record.status is QueryStatus.SUCCEEDED and lag > 2.0:
            yield f"cost: ended {lag:.1f} s after the last commit"


def _of_case(world: World, case: Case) -> Iterator[str]:
    record = case.record
    name = f"query {case.query_id} ({case.plan.sql}, {case.options.exchange})"
    if record is None:
        yield f"{name} did not end"
        return
    if not case.closed_at:
        yield f"{name} ended {record.status} and was not closed"
    planned = next((f for f in map(fragment_of, case.plan.stages) if f.fails), None)
    if record.status is QueryStatus.SUCCEEDED:
        if planned is not None:
            yield f"{name} succeeded, but stage {planned.does} always fails"
            return
        rows, right = sorted(case.rows or []), oracle(case.plan)
        if rows != right:
            yield f"{name}: rows {rows[:5]} instead of {right[:5]} ({len(rows)} for {len(right)})"
        yield from (f"{name}: {mixed}" for mixed in world.runs.mixed(case.query_id, case.runs))
    elif record.status is QueryStatus.FAILED:
        kind = record.error.kind if record.error else ""
        if not _may_fail(world, case, kind, planned.fails if planned else ""):
            yield f"{name} failed: {record.error}"
    elif case.cancel_at is None:
        yield f"{name} was cancelled by nobody"


def _may_fail(world: World, case: Case, kind: str, planned: str) -> bool:
    """Whether the weather, or the query itself, explains that end."""
    if kind == "Timeout":
        return case.options.timeout_seconds is not None
    if planned and kind == planned:
        return True
    # Another task of a query that was to fail may use its attempts up before.
    return len(world.weather.struck) >= case.options.max_attempts
