"""An Arrow table becomes one Parquet file, or is refused by the name of what cannot be kept."""

from __future__ import annotations

import hashlib
import re
import uuid
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from crossdock.catalog.schemas import escape_glob
from crossdock.errors import TableError

#: Rows per row group: several workers can share the table.
ROW_GROUP_ROWS = 122_880


def write_arrow_table(table: pa.Table, folder: Path, name: str) -> Path:
    """Write ``table`` to a new file in ``folder``.

    Raises:
        TableError: a column's type would change on the way, or two columns have one name.
    """
    _refuse_duplicates(table, name)
    wanted = _types_in_memory(table, name)
    folder.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"\W+", "_", name)[:40]
    path = folder / f"{stem}-{hashlib.sha256(uuid.uuid4().bytes).hexdigest()[:12]}.parquet"
    try:
        pq.write_table(
            table, path, row_group_size=ROW_GROUP_ROWS, compression="zstd", store_schema=False
        )
        _refuse_changes(wanted, _types_in_file(path), name)
    except (pa.ArrowException, OSError) as error:
        path.unlink(missing_ok=True)
        raise TableError(f"table {name} cannot be kept as Parquet: {error}") from error
    except TableError:
        path.unlink(missing_ok=True)
        raise
    return path


def _refuse_duplicates(table: pa.Table, name: str) -> None:
    if table.num_columns == 0:
        raise TableError(f"table {name} has no columns")
    seen: set[str] = set()
    for column in table.column_names:
        if column.lower() in seen:
            raise TableError(f"table {name} has two columns named {column} (case is ignored)")
        seen.add(column.lower())


def _types_in_memory(table: pa.Table, name: str) -> dict[str, str]:
    """Types as DuckDB reads the Arrow columns, one by one so that a refusal names its column."""
    types: dict[str, str] = {}
    with duckdb.connect(config={"python_enable_replacements": "false"}) as connection:
        for column in table.column_names:
            try:
                relation = connection.from_arrow(table.select([column]).slice(0, 0))
            except duckdb.Error as error:
                kind = table.schema.field(column).type
                raise TableError(
                    f"table {name}, column {column}: cannot keep type {kind}"
                ) from error
            types[column] = str(relation.types[0])
    return types


def _types_in_file(path: Path) -> dict[str, str]:
    with duckdb.connect(config={"python_enable_replacements": "false"}) as connection:
        relation = connection.read_parquet(escape_glob(str(path)), hive_partitioning=False)
        return dict(zip(relation.columns, map(str, relation.types), strict=True))


def _refuse_changes(wanted: dict[str, str], written: dict[str, str], name: str) -> None:
    for column, kind in wanted.items():
        if written.get(column) != kind:
            raise TableError(
                f"table {name}, column {column}: cannot keep type {kind} (in Parquet it becomes "
                f"{written.get(column, 'unreadable')}); cast it first"
            )
