"""One seed: a deployment of twins, a few queries at once, and whatever the weather brings.

Scheduler, coordinator, control desk, worker loop, shuffle, state verbs, queue pool, launcher and
janitor are the product's own, composed as ``crossdock.aws`` composes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
from greenlet import getcurrent

from coordinator_state import schema
from coordinator_state.dynamodb import DynamoDbStateStore
from coordinator_state.dynamodb.items import attributes, decode
from coordinator_state.errors import NotFound
from coordinator_state.ids import QueryId
from coordinator_state.records import QueryRecord, QueryStatus, TaskRecord
from crossdock.aws.capacity import BudgetedLauncher
from crossdock.aws.control import ControlDesk
from crossdock.aws.janitor import Janitor
from crossdock.cleanup import Medium
from crossdock.coordinator import Coordinator, Terms
from crossdock.coordinator.perform import CONSUMER, PRODUCER
from crossdock.platform.aws.control import SqsControl
from crossdock.platform.aws.launcher import LambdaLauncher
from crossdock.platform.aws.pool import PoolQueues
from crossdock.platform.meter import CountingMeter
from crossdock.platform.ports import Launch
from crossdock.scheduler import Limits
from crossdock.shuffle import envelope, layout
from crossdock.submit import submit
from crossdock.worker import Habits, Tools, Worker
from tests.simulation.deployment import (
    GRACE,
    KEEP_DAYS,
    LAUNCH,
    LEASE,
    LIFE,
    REVIVE,
    TURN,
    Case,
    Setting,
)
from tests.simulation.fragments import Runs, SimulatedExecutor
from tests.simulation.functions import ControlTwin, FunctionTwin, SimulatedIds
from tests.simulation.kernel import (
    EPOCH,
    Fiber,
    FiberPulse,
    InlinePool,
    Kernel,
    Process,
    VirtualClock,
    one_by_one,
    process_of,
)
from tests.simulation.media import Calls, ObjectTwin, QueueTwin, table_failure
from tests.simulation.table import Item, Key, TableTwin
from tests.simulation.traces import read_answer, traces_of
from tests.simulation.weather import Rate, Weather

__all__ = ["LEASE", "Case", "Setting", "World"]


class World:
    """Builds it, runs it to its end, keeps what the checks need."""

    def __init__(self, seed: int, setting: Setting, folder: Path) -> None:
        self.kernel = Kernel(seed)
        self.setting = setting
        self.cases = setting.cases
        self.folder = folder
        self.runs = Runs(count=self._count_run)
        self.ids = SimulatedIds(self.kernel.random)
        self.clock = VirtualClock(self.kernel)
        self.weather = Weather(setting.weather, self.kernel.random)
        self.calls = Calls(self.kernel, self.weather)
        self.table = TableTwin(self._around, self._watch)
        client: Any = self.table
        self.store = DynamoDbStateStore(client, "state")
        self.pooled, self.made = QueueTwin(self.calls), QueueTwin(self.calls)
        self.pool = tuple(f"pool-{n}" for n in range(setting.pool))
        for name in self.pool:
            self.pooled.make(name)
        self.pooled.on_send = self.made.on_send = self._sent
        self.objects = ObjectTwin(self.calls)
        self.objects.on_put = self._put
        self.functions = FunctionTwin(
            self.calls, self._start_worker, concurrency=setting.concurrency
        )
        self.mail = ControlTwin(self.calls, self._serve)
        self.control = SqsControl(client_of(self.mail), "control")
        self.violations: list[str] = []
        self.watchers: list[Callable[[Key, Item | None, Item | None], None]] = []
        self.ended_after = 0.0  # seconds until all was closed
        self.seen_wake: dict[tuple[str, str], Any] = {}  # by process and query, as last read
        self.workers: dict[str, list[Process]] = {}  # processes by worker id
        self.errors: list[tuple[str, BaseException]] = []
        self._late: set[str] = set()
        self._attempts: set[tuple[str, int, int, int]] = set()
        self._desks: list[ControlDesk] = []
        self._numbers = {"worker": 0, "coordinator": 0, "client": 0, "janitor": 0}
        self._by_id: dict[str, Case] = {}

    # -- processes -------------------------------------------------------------------------------
    def _process(self, role: str) -> Process:
        self._numbers[role] += 1
        name = f"{role}-{self._numbers[role]}"
        process = self.kernel.process(name, role, skew=self.weather.skew_of(role))
        process.on_end = self._ended
        return process

    def _ended(self, process: Process) -> None:
        if process.error is not None:
            self.errors.append((process.name, process.error))

    def medium(self) -> Medium:
        queues = PoolQueues(
            self.pooled,
            self.made,
            self.pool,
            store=self.store,
            clock=self.clock,
            parallel=one_by_one,
        )
        return Medium(self.store, queues, self.objects)

    def _start_worker(self, launch: Launch, delay: float) -> None:
        process = self._process("worker")
        kernel = self.kernel
        medium = self.medium()
        habits = Habits(
            life_seconds=LIFE - 3.0,
            reserve_seconds=15.0,
            idle_seconds=1.0,
            poll_seconds=0.25,
            max_handbacks=self.setting.max_handbacks,
        )
        tools: Any = Tools(
            store=self.store,
            queues=medium.queues,
            objects=self.objects,
            control=self.control,
            clock=self.clock,
            ids=self.ids,
            meter=CountingMeter(),
            scratch=self.folder / process.name,
            make_executor=lambda folder: self._executor(folder, launch),
            wait=self.clock.sleep,
            habits=habits,
            observer=self._attempt_step,
            pulse=FiberPulse(kernel, lambda: self.weather.chance(Rate.HEART_STOPS)),
            pool=InlinePool,
        )
        self.workers.setdefault(launch.worker_id, []).append(process)
        kernel.note(process.name, f"starts for {launch.query_id} as {launch.worker_id}")
        process.on_end = lambda process: self._worker_ended(process, launch)
        kernel.start(process, lambda: Worker(tools).run(launch), delay=delay)
        kernel.later(delay + LIFE, process.kill)

    def _executor(self, folder: Path, launch: Launch) -> Any:
        return SimulatedExecutor(folder, self.kernel, self.weather, self.runs, launch.query_id)

    def _attempt_step(self, step: str, task: TaskRecord) -> None:
        if step != "claimed":
            return
        name = (task.query_id, task.stage, task.index, task.attempt)
        if name in self._attempts:
            self.violations.append(f"attempt {name} was begun twice")
        self._attempts.add(name)

    def _count_run(self) -> None:
        self.calls.tally["worker run"] += 1

    def _worker_ended(self, process: Process, launch: Launch) -> None:
        self._ended(process)
        self.functions.ended()
        # An invocation that fails is told of, mostly; one that is cut off at its limit too.
        failed = (
            process.error is not None
            or process.frozen_until > 0
            or self.kernel.random.random() < 0.3
        )
        # Of a launch that came twice the end of one is no word of the other.
        twin = any(other.alive for other in self.workers.get(launch.worker_id, ()))
        if failed and self.kernel.random.random() < 0.5 and not twin:
            body = msgspec.json.encode({"requestPayload": launch}).decode()
            self.mail.post(body, self.weather.uniform(0.1, 3.0))

    def _serve(self, records: list[Any], answer: Callable[..., None]) -> None:
        process = self._process("coordinator")
        desk = self._desks.pop() if self._desks else self._desk()

        def run() -> None:
            failures = desk.handle(records)["batchItemFailures"]
            answer([one["itemIdentifier"] for one in failures])
            self._desks.append(desk)

        self.kernel.start(process, run, delay=self.weather.uniform(0.0, 0.02))

    def _desk(self) -> ControlDesk:
        functions: Any = self.functions
        named = {PRODUCER: ("producer",), CONSUMER: ("consumer",)}
        launcher = BudgetedLauncher(
            LambdaLauncher(functions, named, parallel=one_by_one),
            self.store,
            self.clock,
            budget=self.setting.concurrency,
            parallel=one_by_one,
        )
        coordinator = Coordinator(
            self.medium(),
            launcher=launcher,
            control=self.control,
            clock=self.clock,
            ids=self.ids,
            limits=Limits(
                budget=self.setting.query_workers,
                skew=2.0,
                capacity_seconds=86_400.0,
                launch_losses=6 * self.setting.query_workers,
            ),
            terms=Terms(
                launch_seconds=LAUNCH, life_seconds=LIFE, retention_seconds=KEEP_DAYS * 86_400.0
            ),
            turn_seconds=TURN,
            room=launcher.room,
        )
        return ControlDesk(coordinator, parallel=one_by_one)

    def _submit(self, case: Case) -> None:
        process = self._process("client")
        case.query_id = QueryId(self.ids.query_id())
        self._by_id[case.query_id] = case
        case.submitted_at = self.kernel.now

        def run() -> None:
            submit(
                self.store,
                self.objects,
                case.plan,
                case.options,
                clock=self.clock,
                ids=self.ids,
                query_id=case.query_id,
            )
            self.control.tick(case.query_id, 0, delay=0.0)

        self.kernel.start(process, run)
        if case.cancel_at is not None:
            self.kernel.later(case.cancel_at, lambda: self._cancel(case))

    def _cancel(self, case: Case) -> None:
        def run() -> None:
            try:
                self._desk().coordinator.cancel(case.query_id)
            except NotFound:
                return  # not there yet, or gone again

        self.kernel.start(self._process("client"), run)

    # -- the janitor -----------------------------------------------------------------------------
    def janitor(self) -> Janitor:
        uploads = SimpleNamespace(abort_uploads=self.objects.abort_uploads)
        deployment: Any = SimpleNamespace(
            medium=self.medium(),
            clock=self.clock,
            control=self.control,
            config=SimpleNamespace(result_days=KEEP_DAYS),
            exchange=uploads,
            results=SimpleNamespace(abort_uploads=lambda older_than: 0),
        )
        return Janitor(deployment)

    def _round(self) -> None:
        """Once a minute the cheap part, now and then all of it."""
        if self.weather.calm:
            return
        whole = self.kernel.random.random() < 0.3
        janitor = self.janitor()
        run = (lambda: janitor.run(grace_seconds=GRACE)) if whole else janitor.revive
        self.kernel.start(self._process("janitor"), run)
        self.kernel.later(REVIVE, self._round)

    # -- a seed ----------------------------------------------------------------------------------
    def run(self) -> None:
        """To the moment when every query is closed and its items are purged, and no later."""
        kernel = self.kernel
        for case in self.cases:
            kernel.later(case.at, lambda case=case: self._submit(case))  # type: ignore[misc]
        kernel.later(kernel.random.uniform(5, REVIVE), self._round)
        kernel.run(kernel.now + self.patience(), stop=self._settled)
        self.ended_after = kernel.now - EPOCH

    def patience(self) -> float:
        """Seconds after which a seed that is not settled is stuck."""
        weather = self.setting.weather
        last = max(case.at + (case.options.timeout_seconds or 0.0) for case in self.cases)
        janitor = REVIVE * (len(self.cases) + 1)
        return last + 120.0 + janitor + (LIFE + LAUNCH) * weather.faults + 2 * weather.stalled

    def _settled(self) -> bool:
        if self.mail.alarms > len(self.cases) * (4 * (self.kernel.now - EPOCH) + 40):
            self.violations.append(f"cost: {self.mail.alarms} alarms")
            return True
        if self.mail.letters and not all(case.closed_at for case in self.cases if case.visible):
            return False
        return all(case.closed_at or self._hopeless(case) for case in self.cases)

    def _hopeless(self, case: Case) -> bool:
        """Its client died, or was told no, before the query was there."""
        waited = self.kernel.now - case.submitted_at
        return bool(case.query_id) and not case.visible and waited > 45.0

    def finish(self) -> None:
        """Let the answers' time pass and the janitor do its rounds, undisturbed."""
        self.weather.calm = True
        for _ in range(3):
            kernel = self.kernel
            kernel.run(kernel.now + KEEP_DAYS * 86_400.0 + GRACE)
            done = self._process("janitor")
            kernel.start(done, lambda: self.janitor().run(grace_seconds=GRACE))
            kernel.run(kernel.now + 120.0, stop=lambda process=done: not process.alive)  # type: ignore[misc]

    # -- the table, watched ----------------------------------------------------------------------
    def _around(self, verb: str, subject: str, effect: Callable[[], Any]) -> Any:
        answer = self.calls(verb, subject, effect, table_failure)
        if verb in ("GET", "BEGIN_TURN") and subject.endswith(" Q"):
            item = answer.get("Item") or answer.get("Attributes") or {}
            self.seen_wake[(process_of().name, subject.split()[0])] = item.get("wake")
        return answer

    def _watch(self, key: Key, old: Item | None, new: Item | None) -> None:
        if key[1] == schema.QUERY_SORT:
            self._query_moved(key[0].partition("#")[2], old, new)
        elif key[0][0] == "T" and new is not None and new.get("status") == {"S": "COMMITTED"}:
            self.case_of(key).last_commit_at = self.kernel.now
        for watcher in self.watchers:
            watcher(key, old, new)

    def case_of(self, key: Key) -> Case:
        return self._by_id[key[0].split("#")[1]]

    def _query_moved(self, name: str, old: Item | None, new: Item | None) -> None:
        case = self._by_id[name]
        if new is None:
            return
        values = attributes(new)
        if values.get(schema.LISTING_ATTRIBUTE) == schema.LISTING_DRAFT:
            return
        case.visible = True
        record = decode(new, QueryRecord)
        if case.record is None and record.status is not QueryStatus.RUNNING:
            case.record, case.ended_at = record, self.kernel.now
            self.kernel.note("(query)", f"{name} is {record.status}: {record.error or ''}")
            read_answer(self, case, record)
        if record.closed and not case.closed_at:
            case.closed_at = self.kernel.now
            self.kernel.later(0.0, lambda: self._look_round(case))

    def _look_round(self, case: Case) -> None:
        """When a query is closed nothing of it is left but its answer; ghosts land later.

        A coordinator that froze within its turn, or a write of it that lands late, may make a queue
        between the second sweep and the close: no condition spans the services. The janitor finds
        it.
        """
        left = traces_of(self, case.query_id)
        late = re.compile("(stall|ghost|kill ghost).* at coordinator's ").match
        if left and not any(map(late, self.weather.struck)):
            self.violations.append(f"left when {case.query_id} was closed: {left}")

    def _sent(self, body: bytes) -> None:
        """Nothing is announced before it counts."""
        letter = envelope.decode_envelope(body)
        assert letter is not None
        partition = schema.task_partition(letter.query, letter.stage, letter.index)
        task = self.table.items.get((partition, schema.task_sort(letter.index)))
        running = {"status": {"S": "RUNNING"}, "attempt": {"N": str(letter.attempt)}}
        if task is not None and running == {name: task[name] for name in running}:
            self.violations.append(f"{letter.producer} was announced before it was committed")

    def _put(self, key: str) -> None:
        case = self._by_id.get(layout.query_of_key(key))
        alive = isinstance(getcurrent(), Fiber)
        if not alive:
            self._late.add(key)  # by the weather: it may land at any time, and is the janitor's
        if case is not None and case.closed_at and alive and key.startswith(("exchange/", "plan/")):
            self.violations.append(f"{key} was put after its query was closed")


def client_of(twin: ControlTwin) -> Any:
    return twin
