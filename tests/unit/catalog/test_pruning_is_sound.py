"""No row that a predicate wants lies in what statistics and partition values rule out.

Random values, writers and predicates; DuckDB over an in-memory table tells which rows are wanted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from crossdock.catalog import Catalog, TableMeta
from crossdock.partition_folders import HIVE_NULL
from crossdock.planner.binder import Binder
from crossdock.planner.decode import decode_plan_json
from crossdock.planner.distribute.drafts import leaves
from crossdock.planner.nodes import Scan
from crossdock.planner.splits import scan_work

TEXTS = (
    "",
    "a",
    "b",
    "Z",
    "ä",
    "zz",
    "\U0001f600",
    "x" * 31,
    "x" * 32,
    "x" * 40 + "y",
    "\x7f",
    "'",
)
DAYS = [date(1970, 1, 1) + timedelta(days=n) for n in (-20_000, -1, 0, 1, 9_999)]
MOMENTS = [
    datetime(1969, 12, 31, 23, 59, 59, 999_999) + timedelta(microseconds=n) for n in range(4)
]
FLOATS = (0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 1e308)
CENTS = [Decimal(n).scaleb(-2) for n in (-101, -100, 0, 99, 100, 12345)]
#: Arrow type, values, and how a value is written in SQL.
KINDS: Mapping[str, tuple[pa.DataType, Sequence[Any]]] = {
    "BIGINT": (pa.int64(), (-(2**63), -1, 0, 1, 7, 2**63 - 1)),
    "INTEGER": (pa.int32(), (-(2**31), -1, 0, 1, 7, 2**31 - 1)),
    "UINTEGER": (pa.uint32(), (0, 1, 7, 2**31, 2**32 - 1)),
    "UBIGINT": (pa.uint64(), (0, 1, 7, 2**63, 2**64 - 1)),
    "VARCHAR": (pa.string(), TEXTS),
    "DATE": (pa.date32(), DAYS),
    "TIMESTAMP": (pa.timestamp("us"), MOMENTS),
    "TIMESTAMP_NS": (pa.timestamp("ns"), MOMENTS),
    "TIMESTAMP WITH TIME ZONE": (pa.timestamp("us", "UTC"), MOMENTS),
    "DECIMAL(9,2)": (pa.decimal128(9, 2), CENTS),
    "DOUBLE": (pa.float64(), FLOATS),
    "FLOAT": (pa.float32(), FLOATS[:-1]),
    "BOOLEAN": (pa.bool_(), (True, False)),
    "BLOB": (pa.binary(), (b"", b"\x00", b"a", b"\xff")),
}
#: Types of one column in two files.
PAIRS = (
    *((kind, kind) for kind in KINDS),
    *(("INTEGER", "BIGINT"), ("DATE", "TIMESTAMP"), ("TIMESTAMP", "TIMESTAMP_NS")),
    *(("INTEGER", "DECIMAL(9,2)"), ("BIGINT", "VARCHAR"), ("INTEGER", "DOUBLE")),
    *(("DATE", "VARCHAR"), ("UINTEGER", "BIGINT"), ("FLOAT", "DOUBLE")),
)
QUICK = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def literal(value: Any, kind: str) -> str:
    if isinstance(value, bytes):
        return f"unhex('{value.hex()}')"
    if isinstance(value, bool):
        return str(value).upper()
    text = str(value).replace("'", "''")
    return f"CAST('{text}' AS {kind})"


@dataclass(frozen=True)
class Writing:
    group: int
    statistics: bool
    dictionary: bool
    by_duckdb: bool
    version: str

    def write(self, table: pa.Table, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.by_duckdb:
            with duckdb.connect(config={"threads": 1}) as duck:
                duck.register("made", table)
                duck.execute(f"COPY made TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
            return
        pq.write_table(
            table,
            path,
            row_group_size=self.group,
            write_statistics=self.statistics,
            use_dictionary=self.dictionary,
            version=self.version,
        )


writings = st.builds(
    Writing,
    group=st.sampled_from((1, 2, 3, 100)),
    statistics=st.sampled_from((True, True, True, False)),
    dictionary=st.booleans(),
    by_duckdb=st.sampled_from((False, False, True)),
    version=st.sampled_from(("2.6", "2.6", "1.0")),
)


def columns(kind: str) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from((*KINDS[kind][1], None)), max_size=6)


@st.composite
def predicates(draw: Callable[..., Any], kind: str, column: str = "k", depth: int = 2) -> str:
    """SQL over one column."""
    value = st.sampled_from(KINDS[kind][1]).map(lambda found: literal(found, kind))
    operator = st.sampled_from(("=", "<", "<=", ">", ">=", "<>", "IS DISTINCT FROM"))
    simple = st.one_of(
        st.tuples(operator, value).map(lambda two: f"{column} {two[0]} {two[1]}"),
        st.tuples(operator, value).map(lambda two: f"{two[1]} {two[0]} {column}"),
        st.tuples(value, value).map(lambda two: f"{column} BETWEEN {two[0]} AND {two[1]}"),
        st.lists(value, min_size=1, max_size=3).map(
            lambda all_: f"{column} IN ({', '.join(all_)})"
        ),
        st.sampled_from((f"{column} IS NULL", f"{column} IS NOT NULL")),
    )
    if depth == 0:
        return str(draw(simple))
    inner = predicates(kind, column, depth - 1)
    return str(
        draw(
            st.one_of(
                simple,
                st.tuples(inner, inner).map(lambda two: f"(({two[0]}) AND ({two[1]}))"),
                st.tuples(inner, inner).map(lambda two: f"(({two[0]}) OR ({two[1]}))"),
                inner.map(lambda one: f"(NOT ({one}))"),
            )
        )
    )


def wanted(files: Sequence[pa.Table], kind: str, predicate: str) -> set[tuple[int, int]]:
    """File and row of every row that passes, values cast to the table's type."""
    found: set[tuple[int, int]] = set()
    with duckdb.connect(config={"threads": 1}) as duck:
        duck.execute("SET TimeZone = 'UTC'")
        for number, table in enumerate(files):
            duck.register("made", table.append_column("row", pa.array(range(table.num_rows))))
            duck.execute(
                f"CREATE OR REPLACE TABLE t AS SELECT * REPLACE (CAST(k AS {kind}) AS k) FROM made"
            )
            try:
                rows = duck.execute(f"SELECT row FROM t WHERE {predicate}").fetchall()
            except (duckdb.BinderException, duckdb.ConversionException):
                reject()  # a text that is no number or date
            found |= {(number, row) for (row,) in rows}
    return found


def kept(catalog: Catalog, meta: TableMeta, predicate: str) -> set[tuple[int, int]]:
    """File and row of every row that a plan reads."""
    binder = Binder(catalog, timezone="UTC")
    try:
        bound = binder.bind(f"SELECT * FROM t WHERE {predicate}")
    finally:
        binder.close()
    assert bound.plan is not None
    relation = decode_plan_json(dict(bound.plan))
    scans = [leaf for leaf in leaves(relation) if isinstance(leaf, Scan)]
    numbers = {file.path: number for number, file in enumerate(meta.files)}
    return {
        (numbers[piece.file.path], row)
        for scan in scans
        for piece in scan_work(meta, scan).pieces
        for row in range(piece.first, piece.first + piece.rows)
    }


@QUICK
@given(data=st.data())
def test_row_groups_that_hold_wanted_rows_are_kept(
    data: st.DataObject, tmp_path_factory: Any
) -> None:
    kinds = data.draw(st.sampled_from(PAIRS))
    folder = tmp_path_factory.mktemp("pruned")
    files = []
    for number, kind in enumerate(kinds):
        values = data.draw(columns(kind))
        files.append(pa.table({"k": pa.array(values, KINDS[kind][0])}))
        data.draw(writings).write(files[-1], folder / f"{number}.parquet")
    catalog = Catalog()
    meta = catalog.add("t", folder)
    (column,) = meta.columns
    predicate = data.draw(predicates(data.draw(st.sampled_from(kinds))))
    missing = wanted(files, column.type, predicate) - kept(catalog, meta, predicate)
    assert not missing, f"{predicate} over {column.type} wants {missing}"


@QUICK
@given(data=st.data())
def test_partitions_that_hold_wanted_rows_are_kept(
    data: st.DataObject, tmp_path_factory: Any
) -> None:
    kind = data.draw(st.sampled_from(("BIGINT", "DATE", "VARCHAR", "TIMESTAMP")))
    folder = tmp_path_factory.mktemp("pruned")
    values = data.draw(
        st.lists(
            st.sampled_from((*KINDS[kind][1], None)),
            min_size=1,
            max_size=5,
            unique_by=lambda value: str(value),
        ).filter(lambda found: any(value not in (None, "") for value in found))
    )
    values = [value for value in values if value != ""]
    for number, value in enumerate(values):
        text = HIVE_NULL if value is None else quote(str(value), safe=" :-.")
        path = folder / f"k={text}" / f"{number}.parquet"
        Writing(1, True, True, False, "2.6").write(pa.table({"v": [number]}), path)
    catalog = Catalog()
    meta = catalog.add("t", folder)
    declared = dict(meta.hive_types)["k"]
    order = [int(Path(file.path).stem) for file in meta.files]
    files = [
        pa.table({"k": pa.array([None if v is None else str(v)], pa.string())})
        for v in (values[number] for number in order)
    ]
    predicate = data.draw(predicates(kind))
    missing = wanted(files, declared, predicate) - kept(catalog, meta, predicate)
    assert not missing, f"{predicate} over {declared} wants {missing}"


def test_something_is_ruled_out(tmp_path: Path) -> None:
    """Else the two above could not fail."""
    for number in range(4):
        pq.write_table(pa.table({"k": [number]}), tmp_path / f"{number}.parquet")
    catalog = Catalog()
    meta = catalog.add("t", tmp_path)
    assert kept(catalog, meta, "k IN (1, 2)") == {(1, 0), (2, 0)}
    assert kept(catalog, meta, "k > 2 OR k < 1") == {(0, 0), (3, 0)}
