"""The worker: a physical process that pulls tasks of one query until there is no more to do."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from coordinator_state.errors import NotFound, Refused, StoreUnavailable
from coordinator_state.ids import Nonce, QueryId, StageId, WorkerId
from coordinator_state.records import (
    QueryRecord,
    QueryStatus,
    StageRecord,
    StageStatus,
    TaskRecord,
    WorkerRecord,
    WorkerStatus,
)
from crossdock.engine_build import engine_build
from crossdock.error_kinds import Fate
from crossdock.executor import Interrupt
from crossdock.planner.plan import StagePlan, decode_plan
from crossdock.platform.ports import Launch
from crossdock.worker.attempt import Attempt
from crossdock.worker.heartbeat import Heartbeat
from crossdock.worker.launch_clock import LaunchClock
from crossdock.worker.tools import Habits, Observer, Tools
from crossdock.worker.verdict import Verdict, judge

__all__ = ["Habits", "Observer", "ProcessUnfit", "Tools", "Worker"]

_log = logging.getLogger(__name__)

#: Plans of queries served lately; a warm process often serves several launches of one query.
_PLANS_KEPT = 4


class ProcessUnfit(Exception):
    """Memory may be torn, or the disk full of what was left: this process should end."""


class Worker:
    """Runs launches, one at a time."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._plans: dict[QueryId, StagePlan] = {}

    def run(self, launch: Launch) -> None:
        """One launch: register, work, say goodbye. A refused launch is left quietly.

        Raises ``ProcessUnfit``, after the goodbye, when no task should run in this process again.
        """
        query_id, worker_id = QueryId(launch.query_id), WorkerId(launch.worker_id)
        tools = replace(self._tools, clock=LaunchClock(self._tools.clock, launch))
        before = tools.meter.usage()
        try:
            query = tools.store.get_query(query_id)
            if query.engine_build != engine_build():
                _log.warning(
                    "query %s is pinned to build %s, this is %s: left alone",
                    query_id,
                    query.engine_build,
                    engine_build(),
                )
                return
            if not _register(tools, query_id, worker_id):
                return
        except NotFound:
            return  # ended and purged before this launch arrived
        run = _Run(tools, query, worker_id, before)
        try:
            run.work(self._plan(query))
        finally:
            run.leave()
            run.close()
        if run.unfit:
            raise ProcessUnfit(f"an attempt ended by {run.unfit}")

    def _plan(self, query: QueryRecord) -> StagePlan:
        plan = self._plans.get(query.query_id)
        if plan is None:
            plan = decode_plan(self._tools.objects.get(query.plan_key))
            while len(self._plans) >= _PLANS_KEPT:
                self._plans.pop(next(iter(self._plans)))
            self._plans[query.query_id] = plan
        return plan


def _register(tools: Tools, query_id: QueryId, worker_id: WorkerId) -> bool:
    """False: this launch is to do nothing."""
    now = tools.clock.now()
    try:
        tools.store.register_worker(
            query_id, worker_id, now=now, life_until=now + tools.habits.life_seconds
        )
    except Refused as refusal:
        current = refusal.current
        if (
            isinstance(current, WorkerRecord)
            and current.status is WorkerStatus.DRAINING
            and not current.registered_at
        ):
            # Drained before it came: nobody else will ever say goodbye under this id.
            tools.store.leave_worker(query_id, worker_id, now=now, usage={})
            tools.control.notify(query_id)
        return False
    return True


class _Run:
    """The registered life of one launch."""

    def __init__(
        self,
        tools: Tools,
        query: QueryRecord,
        worker_id: WorkerId,
        before: Mapping[str, int],
    ) -> None:
        self.query = query
        self.worker_id = worker_id
        self._tools = tools
        self._before = before
        self._habits = tools.habits
        self._folder = tools.scratch / query.query_id / worker_id
        self._executor = tools.make_executor(self._folder)
        self._ends = tools.clock.monotonic() + tools.habits.life_seconds
        self._reported = tools.clock.monotonic()
        self._rows: Counter[StageId] = Counter()  # committed by this run
        self.unfit = ""  # kind of the error after which this process should end

    def usage(self) -> Mapping[str, int]:
        """Requests made by this run, by kind."""
        now = self._tools.meter.usage()
        spent = {kind: n - self._before.get(kind, 0) for kind, n in now.items()}
        return {kind: n for kind, n in spent.items() if n}

    def close(self) -> None:
        """Free what this run kept between its tasks."""
        self._executor.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def leave(self) -> None:
        """Say goodbye, with what was used."""
        query_id, tools = self.query.query_id, self._tools
        try:
            tools.store.leave_worker(
                query_id, self.worker_id, now=tools.clock.now(), usage=self.usage()
            )
        except NotFound:
            return  # purged: only after this worker was taken for dead
        tools.control.notify(query_id)

    def work(self, plan: StagePlan) -> None:
        """Pull tasks until there are none for a while, or told to drain, or time is nearly up."""
        idle_since = self._tools.clock.monotonic()
        self._tools.wait(0.0)  # from here on a change between two waits ends the second at once
        while self._left() > self._habits.reserve_seconds:
            try:
                task = self._claim()
            except (Refused, NotFound):
                return  # drained, taken for dead, or the query has ended
            if task is not None:
                if not self._serve(plan, task):
                    return
                idle_since = self._tools.clock.monotonic()
                continue
            idle = self._tools.clock.monotonic() - idle_since
            if idle >= self._habits.idle_seconds or not self._wanted():
                return
            self._tools.wait(min(self._habits.poll_seconds, self._habits.idle_seconds - idle))

    def _left(self) -> float:
        return self._ends - self._tools.clock.monotonic()

    def _wanted(self) -> bool:
        """Whether the query still runs."""
        try:
            query = self._tools.store.get_query(self.query.query_id)
        except NotFound:
            return False
        return query.status is QueryStatus.RUNNING

    def _claim(self) -> TaskRecord | None:
        """The next task, lowest depth first. Raises ``Refused`` when this worker may not claim."""
        tools = self._tools
        stages = tools.store.stages(self.query.query_id)
        for stage in sorted(stages, key=lambda s: (s.depth, s.stage)):
            if not (_offers(stage) and self._wants(stage)):
                continue
            task = tools.store.claim_task(
                self.query.query_id,
                stage.stage,
                self.worker_id,
                Nonce(tools.ids.nonce()),
                now=tools.clock.now(),
            )
            if task is not None:
                return task
        return None

    def _wants(self, stage: StageRecord) -> bool:
        """False: what is left of the stage is beyond a limit, as far as anybody can tell.

        The coordinator says so by wanting no workers for it; this worker's own rows say it sooner.
        """
        if not stage.prefix_limit or stage.offers:
            return True
        return stage.desired > 0 and self._rows[stage.stage] < stage.prefix_limit

    def _serve(self, plan: StagePlan, task: TaskRecord) -> bool:
        """Run one attempt. False: this worker should go."""
        every = min(self._habits.beat_seconds, self.query.lease_seconds / 3)
        interrupt = Interrupt()
        heartbeat = Heartbeat(
            self._tools.store,
            task,
            every=every,
            seconds_left=self._left() - self._habits.reserve_seconds / 2,
            life_seconds=self._habits.life_seconds,
            on_stop=interrupt.fire,
            pulse=self._tools.pulse,
            monotonic=self._tools.clock.monotonic,
            remedies=self._habits.remedies,
        )
        try:
            with heartbeat:
                commit = Attempt(
                    self._tools,
                    self.query,
                    plan,
                    task,
                    executor=self._executor,
                    folder=self._folder / f"{task.stage}-{task.index}-{task.attempt}",
                    heartbeat=heartbeat,
                    interrupt=interrupt,
                ).run()
        except Exception as error:  # noqa: BLE001 - every error becomes the task's record
            return self._settle(task, heartbeat.reason or error)
        self._rows[task.stage] += commit.rows_out
        return self._report()

    def _settle(self, task: TaskRecord, error: Exception) -> bool:
        """Write down how the attempt ended. False: this worker should go."""
        verdict = judge(error, task)
        if verdict.unfit:
            self.unfit = verdict.error.kind
        _log.warning(
            "query %s stage %d task %d attempt %d: %s (%s)",
            task.query_id,
            task.stage,
            task.index,
            task.attempt,
            verdict.fate.value,
            verdict.error.kind,
        )
        try:
            self._write_down(task, verdict)
        except (Refused, NotFound):
            return not verdict.leave  # it moved on without us, which is as good
        except StoreUnavailable as silence:
            # The lease will tell the coordinator; nothing more may be done under this attempt.
            _log.error("query %s: cannot record a failure: %s", task.query_id, silence)
            return False
        self._tools.control.notify(task.query_id)
        return not verdict.leave

    def _write_down(self, task: TaskRecord, verdict: Verdict) -> None:
        store, now = self._tools.store, self._tools.clock.now()
        fate = verdict.fate
        if fate is Fate.HAND_BACK and task.handbacks >= self._habits.max_handbacks:
            fate = Fate.RETRY
        if fate in (Fate.FAIL, Fate.RETRY) and task.failures >= self.query.max_attempts:
            # Its failures are used up: it waits for the coordinator to end the query.
            fate = Fate.REQUEUE
        if fate is Fate.HAND_BACK:
            store.hand_back_task(task, now=now, offer=verdict.offer)
        elif fate is Fate.FAIL:
            store.fail_task(task, verdict.error)
        elif fate in (Fate.RETRY, Fate.REQUEUE):
            store.requeue_task(task, verdict.error, now=now, burn=fate is Fate.RETRY)

    def _report(self) -> bool:
        """Report usage now and then. False: told to drain."""
        now = self._tools.clock.monotonic()
        if now - self._reported < self._habits.usage_seconds:
            return True
        self._reported = now
        try:
            record = self._tools.store.report_usage(
                self.query.query_id, self.worker_id, self.usage()
            )
        except NotFound:
            return False
        return record.status is WorkerStatus.ACTIVE


def _offers(stage: StageRecord) -> bool:
    if stage.status is not StageStatus.ACTIVE:
        return False
    return bool(stage.offers) or stage.cursor < min(stage.admitted, stage.tasks)
