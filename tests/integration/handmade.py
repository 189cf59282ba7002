"""Stage plans written by hand over tiny Parquet files, and hooks for worker processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from coordinator_state.records import TaskRecord
from crossdock.planner.plan import (
    CarriedColumn,
    Edge,
    ExchangeInput,
    FileSlice,
    ResultColumn,
    ScanInput,
    ShuffleMode,
    Stage,
    StagePlan,
)

BIGINT = CarriedColumn(type="BIGINT")
KV = (BIGINT, BIGINT)
ROWS_A_FILE = 100
KEYS = 10


def write_files(folder: Path, count: int) -> tuple[FileSlice, ...]:
    """Files with columns k (0 to 9) and v (0, 1, 2, ... over all files)."""
    slices = []
    for number in range(count):
        values = range(number * ROWS_A_FILE, (number + 1) * ROWS_A_FILE)
        table = pa.table({"k": [v % KEYS for v in values], "v": list(values)})
        path = folder / f"part-{number}.parquet"
        pq.write_table(table, path)
        stat = path.stat()
        slices.append(FileSlice(path=str(path), size=stat.st_size, version=str(stat.st_mtime_ns)))
    return tuple(slices)


def expected(files: int) -> list[tuple[int, int]]:
    """Sums of v by k."""
    total = files * ROWS_A_FILE
    return [(k, sum(v for v in range(total) if v % KEYS == k)) for k in range(KEYS)]


def _scan(files: Sequence[FileSlice]) -> ScanInput:
    return ScanInput(
        name="scan_0",
        table="t",
        columns=("k", "v"),
        types=("BIGINT", "BIGINT"),
        splits=tuple((one,) for one in files),
    )


def _edge(number: int, producer: int, mode: ShuffleMode, partitions: int) -> Edge:
    return Edge(
        edge=number,
        producer=producer,
        consumer=producer + 1,
        mode=mode,
        partitions=partitions,
        keys=("c0",) if mode is ShuffleMode.HASH else (),
        columns=KV,
    )


def _producer(files: Sequence[FileSlice], fragment: str) -> Stage:
    return Stage(
        stage=0,
        fragment=fragment,
        columns=KV,
        tasks=len(files),
        scans=(_scan(files),),
        outputs=(0,),
        label="scan t",
    )


def _plan(stages: tuple[Stage, ...], edges: tuple[Edge, ...]) -> StagePlan:
    return StagePlan(
        engine=duckdb.__version__,
        sql="SELECT k, sum(v) FROM t GROUP BY k",
        columns=(ResultColumn(name="k", type="BIGINT"), ResultColumn(name="s", type="BIGINT")),
        stages=stages,
        edges=edges,
    )


SCAN = "SELECT k AS c0, v AS c1 FROM scan_0"
SUM = "SELECT c0, CAST(sum(c1) AS BIGINT) AS c1 FROM {} GROUP BY c0"


def two_stages(
    files: Sequence[FileSlice], *, partitions: int = 2, scan: str = SCAN, total: str = SUM
) -> StagePlan:
    """scan -> sum by key; one result object a partition."""
    consumer = Stage(
        stage=1,
        fragment=total.format("in_0"),
        columns=KV,
        tasks=partitions,
        exchanges=(ExchangeInput(name="in_0", edge=0),),
        label="sum",
    )
    return _plan((_producer(files, scan), consumer), (_edge(0, 0, ShuffleMode.HASH, partitions),))


def three_stages(files: Sequence[FileSlice], *, partitions: int = 2) -> StagePlan:
    """scan -> sum by key -> gathered and sorted."""
    middle = Stage(
        stage=1,
        fragment=SUM.format("in_0"),
        columns=KV,
        tasks=partitions,
        exchanges=(ExchangeInput(name="in_0", edge=0),),
        outputs=(1,),
        label="sum",
    )
    last = Stage(
        stage=2,
        fragment="SELECT c0, c1 FROM in_1 ORDER BY c0",
        columns=KV,
        tasks=1,
        exchanges=(ExchangeInput(name="in_1", edge=1),),
        ordered=True,
        label="sort",
    )
    return _plan(
        (_producer(files, SCAN), middle, last),
        (_edge(0, 0, ShuffleMode.HASH, partitions), _edge(1, 1, ShuffleMode.GATHER, 1)),
    )


def five_stages(files: Sequence[FileSlice], *, partitions: int = 2) -> StagePlan:
    """scan -> sum by key, three times over -> gathered and sorted."""
    sums = tuple(
        Stage(
            stage=number,
            fragment=SUM.format(f"in_{number - 1}"),
            columns=KV,
            tasks=partitions,
            exchanges=(ExchangeInput(name=f"in_{number - 1}", edge=number - 1),),
            outputs=(number,),
            label="sum",
        )
        for number in (1, 2, 3)
    )
    last = Stage(
        stage=4,
        fragment="SELECT c0, c1 FROM in_3 ORDER BY c0",
        columns=KV,
        tasks=1,
        exchanges=(ExchangeInput(name="in_3", edge=3),),
        label="sort",
    )
    edges = [_edge(number, number, ShuffleMode.HASH, partitions) for number in range(3)]
    return _plan(
        (_producer(files, SCAN), *sums, last), (*edges, _edge(3, 3, ShuffleMode.GATHER, 1))
    )


def limited(files: Sequence[FileSlice], limit: int) -> StagePlan:
    """scan, of which ``limit`` rows are enough -> gathered -> summed by key."""
    scan = _producer(files, f"{SCAN} LIMIT {limit}")
    first = Stage(
        stage=1,
        fragment=f"SELECT c0, c1 FROM in_0 LIMIT {limit}",
        columns=KV,
        tasks=1,
        exchanges=(ExchangeInput(name="in_0", edge=0),),
        outputs=(1,),
        label="limit",
    )
    last = Stage(
        stage=2,
        fragment=SUM.format("in_1") + " ORDER BY c0",
        columns=KV,
        tasks=1,
        exchanges=(ExchangeInput(name="in_1", edge=1),),
        label="sum",
    )
    gathered = (_edge(0, 0, ShuffleMode.GATHER, 1), _edge(1, 1, ShuffleMode.GATHER, 1))
    return _plan((msgspec.structs.replace(scan, prefix_limit=limit), first, last), gathered)


def rows_of(files: Sequence[Path]) -> list[tuple[int, int]]:
    """Rows of result files, in order."""
    rows: list[tuple[int, int]] = []
    with duckdb.connect() as connection:
        for path in files:
            rows += connection.execute("SELECT c0, c1 FROM read_parquet(?)", [str(path)]).fetchall()
    return rows


# -- hooks: run in worker processes, steered by files in the folder this variable names -----------
HOOKS = "HOOK_FOLDER"


def hook(step: str, task: TaskRecord) -> None:
    """Note the step; while a file ``hold-<step>-<stage>-<index>`` exists, stay in it.

    Where a file ``die-<step>-<stage>-<index>`` is: beat there, then ``kill -9`` oneself.
    """
    folder = Path(os.environ[HOOKS])
    name = f"{step}-{task.stage}-{task.index}"
    with (folder / "steps").open("a") as log:
        log.write(f"{os.getpid()} {name} {task.attempt}\n")
    while (folder / f"hold-{name}").exists():
        time.sleep(0.005)
    if (folder / f"die-{name}").exists():
        time.sleep(1.2)
        os.kill(os.getpid(), signal.SIGKILL)


def steps(folder: Path) -> list[tuple[int, str, int]]:
    """(process, step, attempt) in the order they happened."""
    log = folder / "steps"
    if not log.exists():
        return []
    lines = [line.split() for line in log.read_text().splitlines()]
    return [(int(pid), name, int(attempt)) for pid, name, attempt in lines]
