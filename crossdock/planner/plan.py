"""The stage plan: what every worker of a query is told. Frozen, ordered, versioned, serialisable.

``StagePlan`` is the only thing that travels between the planner and the rest; it encodes to the
same JSON bytes every time (``encode_plan``).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from crossdock.formats import Format

#: Bumped when an older worker could misread a newer plan.
PLAN_VERSION = 2


class ShuffleMode(StrEnum):
    """How the rows of an edge find their consumer tasks."""

    HASH = "hash"  # partition = (hash(keys) >> 32) % partitions; task i owns partition i
    BROADCAST = "broadcast"  # one section (partition 0), read whole by every consumer task
    GATHER = "gather"  # one section (partition 0), one consumer task


class CarriedColumn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One positional column (c0, c1, ...) of exchanged rows.

    ``aggregate`` names the function whose engine state the column holds; ``type`` is then the
    state's finalized type, and ``arguments`` the bound argument types. ``constants`` has one entry
    per argument: SQL text where the engine binds a constant (a quantile's fraction), else "".
    """

    type: str
    aggregate: str = ""
    arguments: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()


class Edge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One shuffle: rows of ``producer`` cut by ``keys`` for the tasks of ``consumer``."""

    edge: int
    producer: int
    consumer: int
    mode: ShuffleMode
    partitions: int  # 1 unless HASH
    keys: tuple[str, ...] = ()  # SQL over the producer fragment's c0, c1, ...
    columns: tuple[CarriedColumn, ...]
    estimated_rows: int = 0
    estimated_bytes: int = 0


class Deletes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of positions that were deleted from data files, as Iceberg keeps them."""

    path: str
    size: int
    version: str
    target: str  # how it names the data file


class FileSlice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rows ``first`` to ``last`` (inclusive) of one file; ``last`` < 0 is the whole file."""

    path: str
    size: int
    version: str  # modification time in ns, or ETag, as pinned at planning
    first: int = 0
    last: int = -1
    rows: int = -1  # in the row groups to be read; < 0: not counted
    bytes: int = 0  # of the column chunks to be read, compressed
    reader: int = -1  # of the scan's text readers; < 0: Parquet
    #: Texts of the scan's partition keys; () where the path tells them.
    values: tuple[str | None, ...] = ()
    deletes: tuple[Deletes, ...] = ()


class StoredField(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A column that files know by a number, whatever its name was when they were written."""

    number: int
    name: str
    default: str = "NULL"  # SQL; of files that were written before the column was there
    names: tuple[str, ...] = ()  # those it had in any file


class TextReader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How CSV or JSON files are read: options of DuckDB's reader, values as SQL text."""

    options: tuple[tuple[str, str], ...]
    names: tuple[str, ...] = ()  # of a CSV file's columns, in its own order


class ScanInput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table as a fragment sees it under ``name``: ``columns`` by their own names.

    ``splits[i]`` is what task i reads. With ``whole`` every task reads all of ``splits[0]``.
    """

    name: str
    table: str
    columns: tuple[str, ...]  # may be empty: only rows count
    types: tuple[str, ...]
    splits: tuple[tuple[FileSlice, ...], ...]
    whole: bool = False
    union_by_name: bool = False
    hive_types: tuple[tuple[str, str], ...] = ()  # (partition key, type); values come from paths
    hidden_nan: tuple[str, ...] = ()  # columns whose file statistics may leave a NaN out
    format: Format = Format.PARQUET
    readers: tuple[TextReader, ...] = ()  # of CSV and JSON, by the slices' numbers
    file_types: tuple[tuple[str, str], ...] = ()  # of CSV and JSON: all columns files may have
    fields: tuple[StoredField, ...] = ()  # of the columns, in their order, where numbers count
    carried: bool = False  # the files hold columns in their carriers: the engine wrote them


class ExchangeInput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rows arriving on ``edge``, seen by the fragment under ``name`` with columns c0, c1, ..."""

    name: str
    edge: int


class Stage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fragment, run once by each of ``tasks`` tasks."""

    stage: int
    fragment: str  # SELECT producing c0, c1, ... over the inputs' names
    columns: tuple[CarriedColumn, ...]
    tasks: int
    scans: tuple[ScanInput, ...] = ()
    exchanges: tuple[ExchangeInput, ...] = ()
    outputs: tuple[int, ...] = ()  # edges fed; () = the result
    deterministic: bool = True
    prefix_limit: int = 0  # > 0: any so many rows of this stage's output are enough
    ordered: bool = False  # row order of the output matters (the final sort)
    sequential: bool = False  # the fragment depends on its input's row order (positional joins)
    label: str = ""  # "scan lineitem, partial aggregate", for people
    reasons: tuple[str, ...] = ()  # why a one-task rule applied, if one did
    estimated_rows: int = 0
    estimated_bytes: int = 0


class ResultColumn(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    type: str


class WriteKind(StrEnum):
    """What the last stage's files become."""

    TABLE = "table"  # of the catalog: found through its manifest only
    FILES = "files"  # below a prefix of the user's


class Existing(StrEnum):
    """What is done if the target is there already."""

    REFUSE = "refuse"
    SKIP = "skip"  # nothing is written
    REPLACE = "replace"
    ADD = "add"


class Write(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a statement that writes does with the rows of its last stage."""

    kind: WriteKind
    target: str  # a table's name; an absolute folder or file, or a URL of either
    columns: tuple[ResultColumn, ...]  # of the target
    existing: Existing = Existing.REFUSE
    format: str = "parquet"  # parquet | csv | json
    ending: str = "parquet"  # of file names
    options: str = ""  # of the engine's COPY, as SQL text, beside the format
    partition_by: tuple[str, ...] = ()
    one_file: bool = False  # the target is a file and no folder


class StagePlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A query, cut into stages; ``stages[-1]`` makes the result. Producers precede consumers."""

    version: int = PLAN_VERSION
    engine: str  # DuckDB version that planned it
    sql: str  # as the user wrote it; nothing runs it
    columns: tuple[ResultColumn, ...]
    stages: tuple[Stage, ...]
    edges: tuple[Edge, ...] = ()
    session: tuple[tuple[str, str], ...] = ()  # DuckDB settings that travel: TimeZone, Calendar
    one_task: bool = False  # one stage, one task, the user's own text; runs in process locally
    scanned_bytes: int = 0  # column chunks that will be read, from footers
    notes: tuple[str, ...] = ()  # what has no distributed form, in words
    write: Write | None = None  # the last stage's rows are written there; the result is their count

    def depth(self, stage: int) -> int:
        """0 for a stage that reads only tables, else 1 + its deepest producer's."""
        feeding = [e.producer for e in self.edges if e.consumer == stage]
        return 1 + max(map(self.depth, feeding)) if feeding else 0

    def prefix_limit(self, stage: int) -> int:
        """> 0: the first tasks of ``stage`` that make so many rows together are all its reader
        wants. Only where one task reads all of it: two readers would not know the same rows.
        """
        edges = [e for e in self.edges if e.producer == stage]
        if len(edges) != 1 or edges[0].mode is not ShuffleMode.GATHER:
            return 0
        return self.stages[stage].prefix_limit

    def upstream(self, stage: int) -> tuple[int, ...]:
        """Stages that feed ``stage`` directly, ascending."""
        return tuple(sorted({e.producer for e in self.edges if e.consumer == stage}))


def encode_plan(plan: StagePlan) -> bytes:
    """The plan's one JSON form."""
    return msgspec.json.encode(plan)


def decode_plan(data: bytes) -> StagePlan:
    """Read a plan back. Raises ``msgspec.ValidationError`` for anything else."""
    return msgspec.json.decode(data, type=StagePlan)
