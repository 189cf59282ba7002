"""Random tables: a schema, rows, and the same rows as Parquet files of every awkward kind."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.values import STORED, pool

_MOST_ROWS = 40
_NAMES = ("k", "a", "b", "c", "d", "e", "f")
_ODD_NAMES = ('x"y', "SELECT", "with space", "ünï", "c0", "UPPER", "'", "count", "rowid")


@dataclass(frozen=True)
class Column:
    sql: str  # how a query writes it
    type: str


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    files: tuple[Path, ...]


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def make_tables(random: Random, oracle: duckdb.DuckDBPyConnection, folder: Path) -> list[Table]:
    """Tables in ``oracle`` and as files below ``folder``, of equal content."""
    return [_make(random, oracle, folder, f"t{i}") for i in range(random.choice((2, 3)))]


def _make(random: Random, oracle: duckdb.DuckDBPyConnection, folder: Path, name: str) -> Table:
    names, kinds = _schema(random)
    declared = ", ".join(f"{quote(n)} {k}" for n, k in zip(names, kinds, strict=True))
    with duckdb.connect() as maker:
        maker.execute("SET TimeZone = 'UTC'")
        maker.execute(f"CREATE TABLE made ({declared})")
        rows = list(_rows(random, kinds))
        if rows:
            maker.execute(f"INSERT INTO made VALUES {', '.join(rows)}")
        files = tuple(_files(random, maker, len(rows), folder / name))
    listed = ", ".join(f"'{path}'" for path in files)
    oracle.execute(f"CREATE OR REPLACE TABLE {name} AS FROM read_parquet([{listed}])")
    described = oracle.execute(f"DESCRIBE {name}").fetchall()
    return Table(name, tuple(Column(quote(n), t) for n, t, *_ in described), files)


def _schema(random: Random) -> tuple[list[str], list[str]]:
    names = list(_NAMES[: random.randint(2, len(_NAMES))])
    if random.random() < 0.3:
        names[random.randrange(1, len(names))] = random.choice(_ODD_NAMES)
    kinds = [random.choice(("INTEGER", "BIGINT", "SMALLINT", "DECIMAL(9,2)", "VARCHAR", "DOUBLE"))]
    kinds += [random.choice(STORED) for _ in names[1:]]
    return names, kinds


def _rows(random: Random, kinds: list[str]) -> list[str]:
    count = random.choice((0, 1, 3, 12, _MOST_ROWS, _MOST_ROWS))
    columns = []
    for kind in kinds:
        values = random.sample(pool(kind), k=min(len(pool(kind)), random.randint(2, 8)))
        nulls = random.choice((0, 0.1, 0.5, 1)) if random.random() < 0.8 else 0
        skew = random.choice((0, 0.7))
        columns.append(
            [
                f"NULL::{kind}"
                if random.random() < nulls
                else values[0]
                if random.random() < skew
                else random.choice(values)
                for _ in range(count)
            ]
        )
    return [f"({', '.join(row)})" for row in zip(*columns, strict=True)]


def _files(
    random: Random, maker: duckdb.DuckDBPyConnection, count: int, folder: Path
) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    cuts = sorted(random.randint(0, count) for _ in range(random.choice((0, 0, 1, 3))))
    edges = [0, *cuts, count]
    by_arrow = random.random() < 0.5
    files = []
    for number, (first, last) in enumerate(pairwise(edges)):
        path = folder / f"{number}.parquet"
        part = f"SELECT * FROM made LIMIT {last - first} OFFSET {first}"
        if not by_arrow or not _write_by_arrow(random, maker, part, path):
            maker.execute(f"COPY ({part}) TO '{path}' (FORMAT parquet)")
        files.append(path)
    return files


def _write_by_arrow(
    random: Random, maker: duckdb.DuckDBPyConnection, part: str, path: Path
) -> bool:
    """False if Arrow has no Parquet form for a column's type."""
    table = maker.sql(part).to_arrow_table()
    try:
        if table.num_rows == 0 and random.random() < 0.5:
            pq.ParquetWriter(path, table.schema).close()  # no row group at all
        else:
            size = random.choice((1, 3, 1000))
            pq.write_table(table, path, row_group_size=size, use_dictionary=random.random() < 0.5)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return False
    return True
