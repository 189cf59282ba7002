"""What went wrong in other systems' shuffles, queues and coordinators, done to this one.

A test's number is that of the case; the right answer is always the rows of DuckDB, exactly once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator_state.errors import StaleAttempt, StoreUnavailable
from coordinator_state.ids import StageId
from coordinator_state.records import QueryStatus, TaskRecord
from crossdock.errors import ObjectNotFound, PlatformDenied, PlatformUnavailable
from crossdock.planner.plan import StagePlan
from crossdock.platform.ports import Message
from crossdock.settings import Exchange
from crossdock.worker import Habits
from tests.faulty import Fault, Yard
from tests.integration.handmade import (
    SCAN,
    expected,
    five_stages,
    three_stages,
    two_stages,
    write_files,
)

FILES = 3
QUEUES_ONLY = Habits(beat_seconds=0.1, idle_seconds=0.5, input_patience=30.0)


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Callable[..., Yard]]:
    made: list[Yard] = []

    def make(**options: Any) -> Yard:
        folder = tmp_path / str(len(made))
        made.append(Yard(folder=folder, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def plan(tmp_path: Path) -> StagePlan:
    return three_stages(write_files(tmp_path, FILES), partitions=2)


def attempts(yard: Yard, record: Any) -> list[int]:
    return [stage.attempts for stage in yard.figures(record).stages]


def assert_right(yard: Yard, record: Any) -> None:
    assert sorted(yard.rows(record)) == expected(FILES)
    assert yard.leftovers(record) == []


def times(count: int, error: Exception) -> Fault:
    """Fail the first ``count`` calls."""
    left = iter(range(count))
    lock = threading.Lock()

    def fault(real: Callable[..., object], *args: object, **kwargs: object) -> object:
        with lock:
            fails = next(left, None) is not None
        if fails:
            raise error
        return real(*args, **kwargs)

    return fault


# -- messages and launches -------------------------------------------------------------------------
def twice(real: Callable[..., None], name: str, bodies: Sequence[bytes]) -> None:
    real(name, [*bodies, *bodies])


def test_c01_every_message_and_every_launch_delivered_twice(
    yard: Callable[..., Yard], plan: StagePlan
) -> None:
    """Two workers run each launch at once; the second one that registers is refused."""
    made = yard(queues={"send": twice}, deliveries=2)
    record = made.run(plan)
    assert_right(made, record)
    assert attempts(made, record) == [FILES, 2, 1]
    assert made.figures(record).workers == len(made.running)


def test_every_message_lost_costs_time_only(yard: Callable[..., Yard], plan: StagePlan) -> None:
    made = yard(
        queues={"send": lambda real, name, bodies: None},
        habits=Habits(beat_seconds=0.1, idle_seconds=0.5, input_patience=0.1),
    )
    record = made.run(plan)
    assert_right(made, record)
    assert attempts(made, record) == [FILES, 2, 1]


def test_c02_task_longer_than_its_lease_keeps_it_by_beating(
    yard: Callable[..., Yard], plan: StagePlan
) -> None:
    """One beat is lost on the way as well."""

    def slow(step: str, task: TaskRecord) -> None:
        if (step, task.stage, task.index) == ("ran", 0, 1):
            time.sleep(2.0)

    made = yard(observer=slow, store={"heartbeat": times(1, StoreUnavailable("lost"))})
    record = made.run(plan, lease_seconds=0.5)
    assert_right(made, record)
    assert attempts(made, record) == [FILES, 2, 1]


def test_c02_message_that_comes_back_before_it_was_deleted(
    yard: Callable[..., Yard], plan: StagePlan
) -> None:
    """Its visibility ended: the receipt is stale, the delete does nothing, it comes again."""
    refused = 0

    def delete(real: Callable[..., None], name: str, receipts: Sequence[str]) -> None:
        nonlocal refused
        refused += len(receipts)

    def receive(real: Callable[..., Sequence[Message]], name: str, **how: Any) -> Sequence[Message]:
        messages = real(name, **how)
        made.medium.queues.send(name, [message.body for message in messages])
        return messages

    made = yard(queues={"delete": delete, "receive": receive})
    record = made.run(plan)
    assert_right(made, record)
    assert refused


def test_c04_empty_receives_while_messages_exist_and_one_message_at_a_time(
    yard: Callable[..., Yard], plan: StagePlan
) -> None:
    empty: dict[str, int] = {}

    def receive(real: Callable[..., Sequence[Message]], name: str, **how: Any) -> Sequence[Message]:
        empty[name] = empty.get(name, 0) + 1
        return [] if empty[name] <= 3 else real(name, limit=1, wait=how["wait"])

    made = yard(queues={"receive": receive}, habits=QUEUES_ONLY)
    record = made.run(plan)
    assert_right(made, record)
    assert min(empty.values()) > 3


def test_c05_same_query_twice_within_a_minute_uses_other_queues(
    yard: Callable[..., Yard], plan: StagePlan
) -> None:
    """A queue's name is not free for a minute after its deletion: it must never come again."""
    made = yard()
    names: list[set[str]] = []
    for _ in range(2):
        query_id = made.submit(plan)
        made.coordinator.turn(query_id)
        names.append(set(made.medium.queues.names("")))
        assert sorted(made.rows(made.drive(query_id))) == expected(FILES)
    assert len(names[0]) == len(names[1]) == 3
    assert names[0].isdisjoint(names[1])


# -- objects ---------------------------------------------------------------------------------------
def test_c11_slow_down_beyond_what_an_adapter_repeats_costs_attempts_only(
    yard: Callable[..., Yard], plan: StagePlan
) -> None:
    made = yard(
        objects={
            "put_files": times(2, PlatformUnavailable("SlowDown")),
            "fetch": times(2, PlatformUnavailable("SlowDown")),
        }
    )
    record = made.run(plan, max_attempts=5)
    assert_right(made, record)
    assert sum(stage.failures for stage in made.figures(record).stages) >= 3


def test_c11_slow_down_for_ever_fails_in_words_well_before_the_deadline(
    yard: Callable[..., Yard], plan: StagePlan
) -> None:
    fault = times(10_000, PlatformUnavailable("SlowDown: reduce your request rate"))
    made = yard(objects={"put_files": fault})
    record = made.run(plan, timeout_seconds=60.0)
    assert record.error is not None
    assert (record.status, record.error.kind) == (QueryStatus.FAILED, "PlatformUnavailable")
    assert "failed 4 times, as often as max_attempts allows" in record.error.message
    assert "reduce your request rate" in record.error.message
    assert made.leftovers(record) == []


def of_producer(
    error: Exception, count: int, *, attempt: int = 1
) -> tuple[dict[str, Fault], list[str]]:
    """Reads of one producer attempt's object fail so many times; what was asked for."""
    fault, asked = times(count, error), list[str]()

    def read(real: Callable[..., object], key: str, *args: object, **kwargs: object) -> object:
        if key.endswith(f"/0/1-{attempt}"):
            asked.append(key)
            return fault(real, key, *args, **kwargs)
        return real(key, *args, **kwargs)

    return {"fetch": read, "get": read}, asked


def test_c25_missing_object_runs_its_producer_again(
    yard: Callable[..., Yard], plan: StagePlan
) -> None:
    faults, asked = of_producer(ObjectNotFound("404"), 10_000)
    made = yard(objects=faults)
    record = made.run(plan)
    assert_right(made, record)
    assert ("committed", 0, 1, 2) in made.steps
    assert {attempt for _, stage, index, attempt in made.steps if (stage, index) == (0, 0)} == {1}
    assert asked


def test_c25_unavailable_object_is_only_read_again(
    yard: Callable[..., Yard], plan: StagePlan
) -> None:
    faults, asked = of_producer(PlatformUnavailable("503"), 1)
    made = yard(objects=faults)
    record = made.run(plan)
    assert_right(made, record)
    assert attempts(made, record)[0] == FILES
    assert sum(attempts(made, record)[1:]) == 2 + 1 + 1
    assert len(asked) >= 2


def test_c25_forbidden_object_fails_the_query_at_once(
    yard: Callable[..., Yard], plan: StagePlan
) -> None:
    faults, _ = of_producer(PlatformDenied("no permission for s3:GetObject"), 10_000)
    made = yard(objects=faults)
    record = made.run(plan)
    assert record.error is not None
    assert (record.status, record.error.kind) == (QueryStatus.FAILED, "PlatformDenied")
    assert "no permission for s3:GetObject" in record.error.message
    assert ("committed", 0, 1, 2) not in made.steps


# -- attempts --------------------------------------------------------------------------------------
def test_c16_commit_that_landed_and_answered_an_error(
    yard: Callable[..., Yard], plan: StagePlan
) -> None:
    """Every first commit: written, then a 500. The item says whose it is."""
    seen: set[tuple[int, int]] = set()

    def commit(real: Callable[..., object], task: TaskRecord, *args: Any, **kwargs: Any) -> object:
        result = real(task, *args, **kwargs)
        if (task.stage, task.index) not in seen:
            seen.add((task.stage, task.index))
            raise StoreUnavailable("InternalServerError")
        return result

    made = yard(store={"commit_task": commit})
    record = made.run(plan)
    assert_right(made, record)
    assert attempts(made, record) == [FILES, 2, 1]
    assert sum(stage.failures for stage in made.figures(record).stages) == 0


def test_c17_heartbeat_commit_and_object_of_a_worker_that_slept(
    yard: Callable[..., Yard], plan: StagePlan
) -> None:
    """Its beats stop, another attempt commits, then it goes on where it was: before its put."""
    slept = threading.Event()
    refused: list[str] = []

    def sleep(step: str, task: TaskRecord) -> None:
        if (step, task.stage, task.index, task.attempt) == ("ran", 0, 1, 1):
            slept.set()
            while ("committed", 0, 1, 2) not in made.steps:
                time.sleep(0.01)

    def beat(real: Callable[..., object], task: TaskRecord, **kwargs: Any) -> object:
        if (task.stage, task.index, task.attempt) == (0, 1, 1) and slept.is_set():
            if ("committed", 0, 1, 2) not in made.steps:
                raise StoreUnavailable("asleep")
            try:
                return real(task, **kwargs)
            except StaleAttempt as error:
                refused.append(type(error).__name__)
                raise
        return real(task, **kwargs)

    made = yard(observer=sleep, store={"heartbeat": beat}, workers=4)
    record = made.run(plan, lease_seconds=0.5)
    assert_right(made, record)
    commits = [step for step in made.steps if step[:3] == ("committed", 0, 1)]
    assert commits == [("committed", 0, 1, 2)]


def test_c19_two_attempts_at_their_commit_at_the_same_moment(
    yard: Callable[..., Yard], plan: StagePlan
) -> None:
    barrier = threading.Barrier(2, timeout=20)
    outcomes: list[tuple[int, str]] = []

    def meet(step: str, task: TaskRecord) -> None:
        if step == "committing" and (task.stage, task.index) == (0, 1) and task.attempt <= 2:
            barrier.wait()

    def silent(real: Callable[..., object], task: TaskRecord, **kwargs: Any) -> object:
        if (task.stage, task.index, task.attempt) == (0, 1, 1):
            raise StoreUnavailable("asleep")
        return real(task, **kwargs)

    def commit(real: Callable[..., object], task: TaskRecord, *args: Any, **kwargs: Any) -> object:
        try:
            result = real(task, *args, **kwargs)
        except StaleAttempt:
            outcomes.append((task.attempt, "refused"))
            raise
        if (task.stage, task.index) == (0, 1):
            outcomes.append((task.attempt, "won"))
        return result

    made = yard(observer=meet, store={"heartbeat": silent, "commit_task": commit}, workers=4)
    record = made.run(plan, lease_seconds=0.5)
    assert_right(made, record)
    assert sorted(outcomes) == [(1, "refused"), (2, "won")]


def test_c21_late_commit_of_an_earlier_run_of_a_stage_is_refused(
    yard: Callable[..., Yard], plan: StagePlan
) -> None:
    """A new generation of stage 0 resets stage 1 while one of its tasks is about to commit."""
    refused: list[int] = []

    def reset(step: str, task: TaskRecord) -> None:
        if (step, task.stage, task.index, task.attempt) == ("committing", 1, 1, 1):
            store = made.medium.store
            store.begin_generation(task.query_id, StageId(0), expected=0)
            for stage in (1, 2):
                store.reset_stage(task.query_id, StageId(stage), now=time.time())
            while not [s for s in made.steps if s[:3] == ("claimed", 1, 1) and s[3] > 1]:
                time.sleep(0.01)

    def commit(real: Callable[..., object], task: TaskRecord, *args: Any, **kwargs: Any) -> object:
        try:
            return real(task, *args, **kwargs)
        except StaleAttempt:
            refused.append(task.attempt)
            raise

    made = yard(observer=reset, store={"commit_task": commit}, workers=6)
    record = made.run(plan, lease_seconds=30.0)
    assert_right(made, record)
    assert 1 in refused
    assert ("committed", 1, 1, 1) not in made.steps


def test_c22_clean_up_of_an_old_attempt_leaves_the_new_one_s_object(
    yard: Callable[..., Yard], plan: StagePlan
) -> None:
    deleted: list[str] = []

    def hang(step: str, task: TaskRecord) -> None:
        if (step, task.stage, task.index, task.attempt) == ("written", 0, 1, 1):
            while ("committed", 0, 1, 2) not in made.steps:
                time.sleep(0.01)
            raise PlatformUnavailable("the first attempt fails and cleans up")

    def silent(real: Callable[..., object], task: TaskRecord, **kwargs: Any) -> object:
        if (task.stage, task.index, task.attempt) == (0, 1, 1):
            raise StoreUnavailable("asleep")
        return real(task, **kwargs)

    def delete(real: Callable[..., None], keys: Sequence[str]) -> None:
        deleted.extend(keys)
        real(keys)

    made = yard(observer=hang, store={"heartbeat": silent}, objects={"delete": delete}, workers=4)
    record = made.run(plan, lease_seconds=0.5)
    assert_right(made, record)
    assert ["/".join(key.split("/")[-2:]) for key in deleted] == ["0/1-1"]


def test_c24_producer_that_places_rows_by_chance_is_all_of_one_attempt(
    yard: Callable[..., Yard], tmp_path: Path
) -> None:
    """Consumer 0 used the first placement; the object is lost before consumer 1 read it."""
    files = write_files(tmp_path, FILES)
    counting = "SELECT count(*) AS c0, count(DISTINCT c1) AS c1 FROM {}"
    base = two_stages(files, scan=SCAN, total=counting)
    edge = msgspec.structs.replace(base.edges[0], keys=("random()",))
    base = msgspec.structs.replace(base, edges=(edge,))
    done = threading.Event()

    def lose(step: str, task: TaskRecord) -> None:
        if (step, task.stage, task.index) == ("claimed", 1, 1) and not done.is_set():
            while ("committed", 1, 0, 1) not in made.steps:
                time.sleep(0.01)
            done.set()
            objects = made.medium.objects
            objects.delete([o.key for o in objects.list("exchange/") if "/0/1-" in o.key])

    made = yard(observer=lose)
    record = made.run(base, exchange=Exchange.BATCH)
    rows = made.rows(record)
    assert done.is_set()
    assert [sum(column) for column in zip(*rows, strict=True)] == [FILES * 100, FILES * 100]
    assert ("committed", 1, 0, 1) in made.steps
    assert [s for s in made.steps if s[:3] == ("committed", 1, 0) and s[3] > 1]


# -- slots and time --------------------------------------------------------------------------------
@pytest.mark.parametrize("exchange", [Exchange.S3QS, Exchange.BATCH])
@pytest.mark.parametrize("budget", [1, 2, 3])
def test_c27_five_stages_end_with_any_number_of_workers(
    yard: Callable[..., Yard], tmp_path: Path, budget: int, exchange: Exchange
) -> None:
    made = yard(workers=budget)
    record = made.run(five_stages(write_files(tmp_path, FILES), partitions=3), exchange=exchange)
    assert_right(made, record)
    assert attempts(made, record) == [FILES, 3, 3, 3, 1]


def test_worker_whose_time_is_nearly_up_hands_its_task_back(
    yard: Callable[..., Yard], plan: StagePlan
) -> None:
    """The first worker spends its time on task 0: task 1 gets no whole life, burns no failure."""

    def slow(step: str, task: TaskRecord) -> None:
        if (step, int(task.stage), task.attempt) == ("ran", 0, 1) and task.index < 2:
            time.sleep(1.2 if task.index == 0 else 3.0)

    habits = Habits(life_seconds=3.0, reserve_seconds=0.5, beat_seconds=0.1, idle_seconds=0.5)
    made = yard(observer=slow, habits=habits, workers=1, skew=30.0)
    record = made.run(plan, lease_seconds=30.0)
    assert_right(made, record)
    scan = made.figures(record).stages[0]
    assert (scan.attempts, scan.handbacks, scan.failures) == (FILES + 1, 1, 0)


def test_task_that_had_a_whole_life_counts_as_a_failure_and_names_the_setting(
    yard: Callable[..., Yard], plan: StagePlan
) -> None:
    def slow(step: str, task: TaskRecord) -> None:
        if (step, task.stage, task.index) == ("ran", 0, 1):
            time.sleep(1.2)

    habits = Habits(life_seconds=1.0, reserve_seconds=0.1, beat_seconds=0.1, idle_seconds=0.1)
    made = yard(observer=slow, habits=habits, workers=3, skew=30.0)
    record = made.run(plan, max_attempts=2)
    assert record.error is not None
    assert (record.status, record.error.kind) == (QueryStatus.FAILED, "TimeLimit")
    assert "within a worker's life of 1 s; raise partitions" in record.error.message
    assert made.leftovers(record) == []


def test_file_deleted_while_the_query_runs_is_named(
    yard: Callable[..., Yard], plan: StagePlan, tmp_path: Path
) -> None:
    victim = tmp_path / "part-1.parquet"

    def delete(step: str, task: TaskRecord) -> None:
        if (step, int(task.stage)) == ("claimed", 0):
            victim.unlink(missing_ok=True)

    made = yard(observer=delete)
    record = made.run(plan)
    assert record.error is not None
    assert (record.status, record.error.kind) == (QueryStatus.FAILED, "TableMissing")
    assert record.error.subject == str(victim)
    assert [s for s in made.steps if s[:3] == ("claimed", 0, 1)] == [("claimed", 0, 1, 1)]
    assert made.leftovers(record) == []


def test_cancel_interrupts_a_running_fragment_within_a_heartbeat(
    yard: Callable[..., Yard], tmp_path: Path
) -> None:
    """Minutes of work: every pair of pairs is looked at, none is counted."""
    endless = (
        "SELECT c0, CAST(count(*) AS BIGINT) AS c1 FROM (SELECT a.c0 FROM {0} a, {0} b, {0} c,"
        " {0} d WHERE hash(a.c1, b.c1, c.c1, d.c1) = 1) GROUP BY c0"
    )
    ends: list[float] = []

    def cancel(step: str, task: TaskRecord) -> None:
        if (step, int(task.stage), task.index) == ("collected", 1, 0):
            timer = threading.Timer(0.3, made.coordinator.cancel, args=(task.query_id,))
            timer.start()

    made = yard(observer=cancel)
    plan = two_stages(write_files(tmp_path, FILES), total=endless)
    record = made.run(plan)
    ends.append(time.time())
    assert record.status is QueryStatus.CANCELLED
    assert record.ended_at is not None
    assert ends[0] - record.ended_at < 10.0  # a beat is 0.1 s; the fragment would take minutes
    assert made.leftovers(record) == []


def test_d05_tasks_of_one_process_leave_its_disk_to_the_next(
    yard: Callable[..., Yard], tmp_path: Path
) -> None:
    """Twenty tasks, one of which fails half way: each finds its folder empty."""
    found: list[list[str]] = []

    def look(step: str, task: TaskRecord) -> None:
        if step == "claimed":
            files = [path for path in made.home.scratch.rglob("*") if path.is_file()]
            found.append([path.name for path in files if "duckdb" not in path.name])
        if (step, task.stage, task.index, task.attempt) == ("written", 0, 10, 1):
            raise ZeroDivisionError("half way")

    made = yard(observer=look, workers=1)
    record = made.run(two_stages(write_files(tmp_path, 20)))
    assert sorted(made.rows(record)) == expected(20)
    assert len(found) == 20 + 1 + 2
    assert [files for files in found if files] == []
    assert made.unfit == ["an attempt ended by Internal"]  # that process is not used again
    assert made.leftovers(record) == []


# -- cancel ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("step", ["claimed", "committing", "committed"])
def test_c30_cancel_around_the_last_commit_has_one_end(
    yard: Callable[..., Yard], plan: StagePlan, step: str
) -> None:
    ends: list[Any] = []

    def cancel(name: str, task: TaskRecord) -> None:
        if (name, int(task.stage)) == (step, 2):
            ends.append(made.coordinator.cancel(task.query_id))
            ends.append(made.coordinator.cancel(task.query_id))

    made = yard(observer=cancel)
    record = made.run(plan)
    assert {end.status for end in ends} == {record.status}
    assert {end.ended_at for end in ends} == {record.ended_at}
    if record.status is QueryStatus.SUCCEEDED:
        assert_right(made, record)
    else:
        assert record.status is QueryStatus.CANCELLED
        assert made.leftovers(record) == []
    assert [s for s in made.steps if s[0] == "claimed" and s[3] > 1] == []
