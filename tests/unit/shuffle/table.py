"""A table of tasks and a small world of producers around it, for the consumer's side."""

from __future__ import annotations

from pathlib import Path

from coordinator_state.ids import QueryId, StageId
from coordinator_state.records import Commit, TaskRecord, TaskStatus
from crossdock.planner.plan import CarriedColumn, Edge, ShuffleMode, Stage, StagePlan
from crossdock.platform.memory import MemoryObjects, MemoryQueues
from crossdock.shuffle import Collector, Written, layout, publish, write
from crossdock.shuffle.spec import SectionFile

QUERY = QueryId("q1")
COLUMNS = (CarriedColumn(type="BIGINT"),)


def stage(number: int, tasks: int) -> Stage:
    return Stage(stage=number, fragment="", columns=COLUMNS, tasks=tasks)


def edge(number: int, producer: int, consumer: int, mode: ShuffleMode, partitions: int) -> Edge:
    return Edge(
        edge=number,
        producer=producer,
        consumer=consumer,
        mode=mode,
        partitions=partitions,
        keys=("c0",) if mode is ShuffleMode.HASH else (),
        columns=COLUMNS,
    )


#: Stage 0 hashes to two tasks of stage 2; stage 1 broadcasts to both.
PLAN = StagePlan(
    engine="",
    sql="",
    columns=(),
    stages=(stage(0, 2), stage(1, 1), stage(2, 2)),
    edges=(edge(0, 0, 2, ShuffleMode.HASH, 2), edge(1, 1, 2, ShuffleMode.BROADCAST, 1)),
)


class Table:
    """The two reads of a state store that consumers make."""

    def __init__(self) -> None:
        self.rows = {
            (s.stage, i): TaskRecord(query_id=QUERY, stage=StageId(s.stage), index=i)
            for s in PLAN.stages
            for i in range(s.tasks)
        }
        self.reads = 0

    def tasks(self, query_id: QueryId, stage: StageId) -> list[TaskRecord]:
        self.reads += 1
        return [row for (number, _), row in sorted(self.rows.items()) if number == stage]

    def get_task(self, query_id: QueryId, stage: StageId, index: int) -> TaskRecord:
        return self.rows[(stage, index)]


class World:
    """Producers that write, commit and publish when told to, and consumers to test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table = Table()
        self.objects = MemoryObjects()
        self.queues = MemoryQueues()
        for index in range(PLAN.stages[2].tasks):
            self.queues.create(self.queue(index))
        self.written: dict[tuple[int, int, int], Written] = {}

    def queue(self, index: int) -> str:
        return layout.queue_name(QUERY, 2, 0, index)

    def section(self, edge: int, partition: int, content: bytes, rows: int = 1) -> SectionFile:
        if not content:
            return SectionFile(edge=edge, partition=partition, path=None, rows=0, size=0)
        path = self.folder / f"section-{edge}-{partition}-{len(list(self.folder.iterdir()))}"
        path.write_bytes(content)
        return SectionFile(edge=edge, partition=partition, path=path, rows=rows, size=len(content))

    def write(self, stage: int, index: int, attempt: int = 1, *, empty: bool = False) -> Written:
        """The object of one attempt; a section says stage.task.attempt.partition."""
        (out,) = [edge for edge in PLAN.edges if edge.producer == stage]
        sections = [
            self.section(
                out.edge,
                partition,
                b"" if empty else f"{stage}.{index}.{attempt}.{partition}".encode(),
            )
            for partition in range(out.partitions)
        ]
        key = layout.exchange_key(QUERY, stage, index, attempt)
        written = write(self.objects, key, sections)
        self.written[(stage, index, attempt)] = written
        return written

    def commit(self, stage: int, index: int, attempt: int = 1) -> None:
        written = self.written[(stage, index, attempt)]
        self.set(stage, index, attempt, TaskStatus.COMMITTED, commit_of(written))

    def set(
        self,
        stage: int,
        index: int,
        attempt: int,
        status: TaskStatus,
        commit: Commit | None = None,
    ) -> None:
        self.table.rows[(stage, index)] = TaskRecord(
            query_id=QUERY,
            stage=StageId(stage),
            index=index,
            attempt=attempt,
            status=status,
            commit=commit,
        )

    def publish(self, stage: int, index: int, attempt: int = 1) -> int:
        written = self.written[(stage, index, attempt)]
        return publish(
            self.queues,
            PLAN,
            stage=stage,
            task_index=index,
            attempt=attempt,
            generation=0,
            object_key=written.key,
            index=written.index,
        )

    def produce(self, stage: int, index: int, attempt: int = 1, *, empty: bool = False) -> None:
        self.write(stage, index, attempt, empty=empty)
        self.commit(stage, index, attempt)
        self.publish(stage, index, attempt)

    def consumer(self, index: int = 0, **options) -> Collector:
        task = TaskRecord(
            query_id=QUERY, stage=StageId(2), index=index, attempt=options.pop("attempt", 1)
        )
        given = {
            "queues": self.queues,
            "store": self.table,
            "objects": self.objects,
            "folder": self.folder / f"in-{index}",
            "patience": 0.05,
        }
        return Collector(PLAN, 2, task, **(given | options))


def commit_of(written: Written) -> Commit:
    return Commit(
        object_key=written.key,
        size=written.size,
        checksum=written.checksum,
        index_offset=written.index_offset,
    )


def contents(collected) -> dict[int, list[str]]:
    return {edge: [path.read_text() for path in files] for edge, files in collected.files.items()}
