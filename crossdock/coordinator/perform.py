"""Instructions made real. Each is a compare-and-set; a refusal only means: look again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import msgspec

from coordinator_state import schema
from coordinator_state.errors import NotFound, Refused
from coordinator_state.ids import QueryId, StageId, WorkerId
from coordinator_state.records import (
    ErrorRecord,
    LedgerEntry,
    LedgerKind,
    QueryRecord,
    QueryStatus,
    StageRecord,
    WorkerRecord,
)
from crossdock import cleanup
from crossdock.cleanup import Medium
from crossdock.errors import ObjectExists, PlatformError, PlatformUnavailable
from crossdock.platform.ports import Clock, Ids, Launch, Launcher
from crossdock.scheduler.instructions import (
    ActivateStage,
    Close,
    CompleteStage,
    DrainWorker,
    EndQuery,
    FinishQuery,
    Instruction,
    LaunchWorkers,
    LoseWorker,
    ObserveBeat,
    OfferAgain,
    PrepareQueues,
    RequeueTask,
    RerunProducer,
    ResetStages,
    SetCapacity,
    SkipStage,
    Sweep,
    Tick,
)
from crossdock.shuffle import layout

_log = logging.getLogger(__name__)

#: Worker classes: launched for a stage that reads only tables, and for any other.
PRODUCER, CONSUMER = "producer", "consumer"


class Outcome(Enum):
    """What performing an instruction means for the turn."""

    QUIET = "quiet"  # nothing that asks for another look
    MOVED = "moved"  # look again: more may follow
    ENDED = "ended"  # the query has ended; answer first, sweep in the next turn
    LATER = "later"  # try again at the next tick
    CROWDED = "crowded"  # other queries have the workers; try again before long


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the platform allows; times in seconds."""

    launch_seconds: float = 30.0  # LOST if not registered by then
    life_seconds: float = 900.0  # a worker's longest life
    retention_seconds: float | None = 86_400.0  # closed queries and answers are kept so long


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The query an instruction is about, as it was read."""

    query: QueryRecord
    stages: Sequence[StageRecord]
    now: float
    coordinator_usage: Mapping[str, int]

    @property
    def query_id(self) -> QueryId:
        return self.query.query_id

    def worker_class(self, stage: StageId) -> str:
        """Workers are alike; which class is launched says what its functions are sized for."""
        reads_tables = any(s.stage == stage and s.depth == 0 for s in self.stages)
        return PRODUCER if reads_tables else CONSUMER


class Performer:
    """Carries out instructions on one platform."""

    def __init__(
        self,
        medium: Medium,
        launcher: Launcher,
        *,
        clock: Clock,
        ids: Ids,
        terms: Terms,
        room: Callable[[], int] | None = None,
    ) -> None:
        """``room`` says how many launches all queries together have left; None: enough."""
        self._medium = medium
        self._store = medium.store
        self._launcher = launcher
        self._clock = clock
        self._ids = ids
        self._terms = terms
        self._room = room

    def perform(self, scene: Scene, instruction: Instruction) -> Outcome:
        """Do it; a refusal or a vanished item is an answer, not an error."""
        try:
            return self._do(scene, instruction)
        except (Refused, NotFound) as refusal:
            _log.info(
                "query %s: %s refused: %s", scene.query_id, type(instruction).__name__, refusal
            )
            return Outcome.MOVED

    def _do(self, scene: Scene, what: Instruction) -> Outcome:
        match what:
            case PrepareQueues() | LaunchWorkers() | RerunProducer() | ResetStages():
                return self._compound(scene, what)
            case EndQuery() | FinishQuery() | Sweep() | Close():
                return self._end(scene, what)
            case ActivateStage() | CompleteStage() | SkipStage() | SetCapacity() | OfferAgain():
                return self._stage(scene, what)
            case DrainWorker(worker):
                self._store.drain_worker(scene.query_id, worker.worker_id)
                return Outcome.QUIET
            case LoseWorker(worker, why):
                _log.warning("query %s: worker %s lost: %s", scene.query_id, worker.worker_id, why)
                self._store.lose_worker(scene.query_id, worker.worker_id)
                return Outcome.MOVED
            case ObserveBeat(task):
                self._store.observe_beat(task, now=scene.now)
                return Outcome.QUIET
            case RequeueTask(task, error, beat):
                self._store.requeue_task(task, error, now=scene.now, beat=beat)
                return Outcome.MOVED
            case Tick():
                return Outcome.QUIET

    def _stage(
        self,
        scene: Scene,
        what: ActivateStage | CompleteStage | SkipStage | SetCapacity | OfferAgain,
    ) -> Outcome:
        match what:
            case ActivateStage(stage):
                self._store.activate_stage(scene.query_id, stage)
                return Outcome.MOVED
            case CompleteStage(stage):
                self._store.complete_stage(scene.query_id, stage)
                return Outcome.MOVED
            case SkipStage(stage):
                self._store.skip_stage(scene.query_id, stage)
                return Outcome.MOVED
            case SetCapacity(stage, admitted, desired):
                self._store.set_capacity(scene.query_id, stage, admitted=admitted, desired=desired)
                return Outcome.QUIET
            case OfferAgain(stage, indexes):
                self._store.offer_again(scene.query_id, stage, indexes)
                return Outcome.QUIET

    def _compound(
        self, scene: Scene, what: PrepareQueues | LaunchWorkers | RerunProducer | ResetStages
    ) -> Outcome:
        match what:
            case PrepareQueues(stages):
                return self._prepare_queues(scene, stages)
            case LaunchWorkers():
                return self._launch(scene, what)
            case RerunProducer():
                return self._rerun(scene, what)
            case ResetStages(producer, generation, reset):
                self._store.begin_generation(scene.query_id, producer, expected=generation)
                for stage in reset:
                    self._store.reset_stage(scene.query_id, stage, now=scene.now)
                return Outcome.MOVED

    def _end(self, scene: Scene, what: EndQuery | FinishQuery | Sweep | Close) -> Outcome:
        match what:
            case EndQuery(status, error):
                self._store.end_query(scene.query_id, status, now=scene.now, error=error)
                return Outcome.ENDED
            case FinishQuery():
                return self._finish(scene, what)
            case Sweep():
                cleanup.sweep(self._medium, scene.query)
                self._store.mark_swept(scene.query_id)
                return Outcome.MOVED
            case Close():
                keep = self._terms.retention_seconds
                closed = cleanup.close(
                    self._medium,
                    scene.query,
                    coordinator_usage=scene.coordinator_usage,
                    expires_at=None if keep is None else scene.now + keep,
                )
                return Outcome.MOVED if closed else Outcome.LATER

    def _prepare_queues(self, scene: Scene, stages: Sequence[int]) -> Outcome:
        """One queue per consumer task; owned in the ledger before the first is made."""
        names = [
            layout.queue_name(scene.query_id, stage.stage, stage.generation, index)
            for stage in scene.stages
            if stage.stage in stages
            for index in range(stage.tasks)
        ]
        self._store.own(
            [
                LedgerEntry(
                    query_id=scene.query_id, kind=LedgerKind.QUEUE, name=n, owned_at=scene.now
                )
                for n in names
            ]
        )
        self._medium.queues.create(*names)
        return Outcome.MOVED

    def _launch(self, scene: Scene, what: LaunchWorkers) -> Outcome:
        """Write LAUNCHING, then call; what the platform refuses leaves again at once."""
        # A query that waits for others asks often: it must not leave an item behind each time.
        count = what.count if self._room is None else min(what.count, self._room())
        now = self._clock.now()
        launches = [
            Launch(
                query_id=scene.query_id,
                worker_id=self._ids.worker_id(),
                worker_class=scene.worker_class(what.stage),
                launched_at=now,
                deadline=now + self._terms.launch_seconds,
            )
            for _ in range(count)
        ]
        for launch in launches:
            self._store.add_worker(self._launching(scene, launch, what))
        accepted, final = self._accepted(launches)
        refused = [x for x in launches if x.worker_id not in accepted]
        for launch in refused:
            self._store.leave_worker(
                scene.query_id, WorkerId(launch.worker_id), now=scene.now, usage={}
            )
        if final is not None:
            error_record = ErrorRecord(
                kind="CannotLaunch", message=f"no worker can be started: {final}", scope="query"
            )
            return self._end(scene, EndQuery(QueryStatus.FAILED, error_record))
        if count < what.count:
            return Outcome.CROWDED
        return Outcome.LATER if refused else Outcome.QUIET

    def _accepted(self, launches: Sequence[Launch]) -> tuple[set[str], PlatformError | None]:
        """Worker ids of accepted launches, and an error that asking again would not mend."""
        if not launches:
            return set(), None
        try:
            return {launch.worker_id for launch in self._launcher.launch(launches)}, None
        except PlatformUnavailable as error:
            _log.warning("query %s: launch refused: %s", launches[0].query_id, error)
            return set(), None
        except PlatformError as error:
            return set(), error  # such as a function that is not there, or may not be called

    def _launching(self, scene: Scene, launch: Launch, what: LaunchWorkers) -> WorkerRecord:
        return WorkerRecord(
            query_id=scene.query_id,
            worker_id=WorkerId(launch.worker_id),
            stage=what.stage,
            worker_class=launch.worker_class,
            launched_at=launch.launched_at,
            launch_deadline=launch.deadline,
            life_until=launch.deadline + self._terms.life_seconds,
        )

    def _rerun(self, scene: Scene, what: RerunProducer) -> Outcome:
        """New generation and resets first, so that nobody sees old and new attempts together."""
        task = what.task
        if what.reset:
            self._store.begin_generation(scene.query_id, task.stage, expected=what.generation)
            for stage in what.reset:
                self._store.reset_stage(scene.query_id, stage, now=scene.now)
        self._store.rerun_task(task, what.error, now=scene.now)
        for consumer in what.fence:
            # Each on its own: one that ended meanwhile must not keep the others running.
            try:
                self._store.requeue_task(consumer, what.error, now=scene.now, burn=False)
            except Refused as refusal:
                _log.info("query %s: consumer moved on by itself: %s", scene.query_id, refusal)
        return Outcome.MOVED

    def _finish(self, scene: Scene, what: FinishQuery) -> Outcome:
        """One conditional write ends RUNNING; a long manifest is an object written before it."""
        if scene.query.writes:
            return self._commit_write(scene, what)
        inline = len(what.result) <= schema.MAX_RESULT_KEYS
        key = "" if inline else layout.manifest_key(scene.query_id)
        if not inline:
            try:
                self._medium.objects.put(key, msgspec.json.encode(what.result))
            except ObjectExists:
                # Of a turn that died before the write below. Only a reset of the last stage in
                # between could change the manifest; then its keys carry other attempts.
                if self._medium.objects.get(key) != msgspec.json.encode(what.result):
                    self._medium.objects.delete([key])
                    return Outcome.MOVED
        self._store.end_query(
            scene.query_id,
            QueryStatus.SUCCEEDED,
            now=scene.now,
            result=what.result if inline else (),
            result_key=key,
            result_rows=what.rows,
        )
        return Outcome.ENDED

    def _commit_write(self, scene: Scene, what: FinishQuery) -> Outcome:
        """What the statement wrote becomes visible by the write that ends it, or just before it."""
        from crossdock.writes.commit import Committer  # only for statements that write

        committer = Committer(self._medium, self._clock)
        ended = committer.commit(scene.query, what.result, what.rows)
        return Outcome.ENDED if ended else Outcome.LATER
