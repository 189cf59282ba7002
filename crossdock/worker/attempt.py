"""One attempt of one task: collect, run, write, commit, publish."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import msgspec
import tenacity

from coordinator_state.errors import StaleAttempt, StoreUnavailable
from coordinator_state.records import Commit, QueryRecord, TaskRecord
from crossdock.errors import ExchangeCorrupt, PlatformError
from crossdock.executor import Executor, FragmentInterrupted, Interrupt, TaskOutput
from crossdock.planner.plan import Stage, StagePlan, Write
from crossdock.shuffle import Collected, Collector, exchange_object, layout, publish
from crossdock.worker.heartbeat import Heartbeat
from crossdock.worker.starvation import Starvation
from crossdock.worker.tools import Tools
from crossdock.writes.staging import Staging, put_own

_log = logging.getLogger(__name__)

#: Attempts at a commit whose answer is lost; repeating it is safe, the item decides.
_COMMIT_TRIES = 6


class Attempt:
    """Runs a claimed task to its commit. Raises whatever kept it from that."""

    def __init__(
        self,
        tools: Tools,
        query: QueryRecord,
        plan: StagePlan,
        task: TaskRecord,
        *,
        executor: Executor,
        folder: Path,
        heartbeat: Heartbeat,
        interrupt: Interrupt,
    ) -> None:
        """``folder`` is the attempt's own, inside the executor's."""
        self._tools = tools
        self._query = query
        self._plan = plan
        self._stage: Stage = plan.stages[task.stage]
        self._task = task
        self._heartbeat = heartbeat
        self._interrupt = interrupt
        self._executor = executor
        self._folder = folder
        self._started = tools.clock.now()
        self._key = ""  # of an object that this attempt may have to remove again
        self._sent = False  # a commit was sent: it may land later

    def run(self) -> Commit:
        """To the commit, which is returned, and the messages that announce it."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        output: TaskOutput | None = None
        try:
            collected = self._collect()
            output = self._run_fragment(collected)
            written = self._write(output)
            return self._commit(collected, output, written)
        except Exception as error:
            self._take_back(error)
            raise
        finally:
            if output is not None:
                output.discard()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _take_back(self, error: BaseException) -> None:
        """Remove the object of an attempt that can commit no more; what stays, the sweep removes.

        Once a commit was sent only the table's word that another has the task makes it safe: a
        commit without an answer may still land, and would name an object that is gone.
        """
        if not self._key or (self._sent and not isinstance(error, StaleAttempt)):
            return
        try:
            self._tools.objects.delete([self._key])
        except PlatformError as trouble:
            _log.info("query %s: object left to the sweep: %s", self._task.query_id, trouble)

    def _step(self, phase: str, done: str) -> None:
        """Tell the observer, note the phase, stop here if the attempt is void."""
        self._tools.observer(done, self._task)
        self._heartbeat.phase = phase
        self._heartbeat.check()

    def _collect(self) -> Collected | None:
        self._step("wait", "claimed")
        if not self._stage.exchanges:
            return None
        starvation = Starvation(
            self._tools.store,
            self._task,
            patience=self._tools.habits.starve_seconds,
            monotonic=self._tools.clock.monotonic,
        )

        tools = self._tools
        collector = Collector(
            self._plan,
            self._task.stage,
            self._task,
            queues=None if self._query.exchange == "batch" else tools.queues,
            store=tools.store,
            objects=tools.objects,
            folder=self._folder / "in",
            exchange=self._query.exchange,
            patience=tools.habits.input_patience,
            on_wait=self._heartbeat.check,
            on_missing=starvation.check,
            observer=lambda event: tools.observer(event.step.value, self._task),
            monotonic=tools.clock.monotonic,
            sleep=tools.clock.sleep,
            make_pool=tools.pool,
        )
        return collector.collect()

    def _run_fragment(self, collected: Collected | None) -> TaskOutput:
        self._step("fragment", "collected")
        files = collected.files if collected else {}
        try:
            return self._executor.run(
                self._plan,
                self._task.stage,
                self._task.index,
                files,
                interrupt=self._interrupt,
            )
        except FragmentInterrupted:
            self._heartbeat.check()
            raise

    def _write(self, output: TaskOutput) -> Commit:
        """Upload; the commit's object fields."""
        self._step("write", "ran")
        task = self._task
        names = (task.query_id, task.stage, task.index, task.attempt)
        if not self._stage.outputs:
            self._key = layout.result_key(*names)
            if self._plan.write is not None:
                return self._write_files(self._key, self._plan.write, output)
            return self._write_result(self._key, output)
        self._key = layout.exchange_key(*names)
        self._written = exchange_object.write(self._tools.objects, self._key, output.sections)
        return Commit(
            object_key=self._key,
            size=self._written.size,
            checksum=self._written.checksum,
            index_offset=self._written.index_offset,
        )

    def _write_result(self, key: str, output: TaskOutput) -> Commit:
        """The result file as it is."""
        (section,) = output.sections
        if section.path is None:
            raise ExchangeCorrupt("the result stage wrote no file")
        size, checksum = put_own(self._tools.objects, key, section.path)
        return Commit(object_key=key, size=size, checksum=checksum)

    def _write_files(self, key: str, write: Write, output: TaskOutput) -> Commit:
        """The files, not to be seen before the query's commit; then the object that lists them."""
        staging = Staging(self._tools.objects, self._tools.outbox, self._task, write)
        staged = staging.stage(output.files, output.rows_out)
        path = output.folder / "files.json"
        path.write_bytes(msgspec.json.encode(staged))
        size, checksum = put_own(self._tools.objects, key, path)
        return Commit(object_key=key, size=size, checksum=checksum)

    def _commit(self, collected: Collected | None, output: TaskOutput, written: Commit) -> Commit:
        self._step("commit", "written")
        commit = Commit(
            object_key=written.object_key,
            size=written.size,
            checksum=written.checksum,
            index_offset=written.index_offset,
            rows_in=output.rows_in + (collected.rows_in if collected else 0),
            bytes_in=output.bytes_in + (collected.bytes_in if collected else 0),
            rows_out=output.rows_out,
            bytes_out=output.bytes_out,
            seconds=self._tools.clock.now() - self._started,
            peak_memory=max(output.peak_memory, self._heartbeat.measure()),
        )
        self._tools.observer("committing", self._task)
        self._sent = True
        self._send(commit, collected)
        self._key = ""
        self._tools.observer("committed", self._task)
        self._publish(written.object_key)
        self._tools.control.notify(self._task.query_id)
        return commit

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(StoreUnavailable),
        stop=tenacity.stop_after_attempt(_COMMIT_TRIES),
        wait=tenacity.wait_random_exponential(multiplier=0.1, max=2),
        reraise=True,
    )
    def _send(self, commit: Commit, collected: Collected | None) -> None:
        bound = collected.bound if collected else ()
        self._tools.store.commit_task(self._task, commit, bound=bound)

    def _publish(self, key: str) -> None:
        """Announce the sections. A message that cannot be sent only costs its reader patience."""
        if not self._stage.outputs or self._query.exchange == "batch":
            return
        task = self._task
        try:
            publish(
                self._tools.queues,
                self._plan,
                stage=task.stage,
                task_index=task.index,
                attempt=task.attempt,
                generation=task.generation,
                object_key=key,
                index=self._written.index,
                make_pool=self._tools.pool,
            )
        except PlatformError as error:
            _log.warning("query %s: sections not announced: %s", task.query_id, error)
        self._tools.observer("published", task)
