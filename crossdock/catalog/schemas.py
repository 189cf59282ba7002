"""Column names and types as DuckDB sees them, and the keys of ``key=value`` folders.

Partition folders follow DuckDB's rules: a key counts when every file's path has it; its type is
DATE, TIMESTAMP or BIGINT when all values are written so, else VARCHAR; values are URL-decoded;
``__HIVE_DEFAULT_PARTITION__`` is NULL; a file's own column of that name is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import duckdb

from crossdock.catalog.tables import ColumnMeta
from crossdock.errors import TableError

PARTITION_FOLDER = re.compile(r"([^/=]+)=([^/]*)/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    columns: tuple[ColumnMeta, ...]
    union_by_name: bool
    hive_types: tuple[tuple[str, str], ...]


def read_schema(
    paths: Sequence[str], representatives: Sequence[str], *, hive: bool | None, union: bool | None
) -> Schema:
    """Ask DuckDB for the schema of ``paths``.

    Args:
        paths: every file of the table.
        representatives: one file of each distinct schema, in order; only these are opened.
        hive: read partition folders; None: when DuckDB would.
        union: match columns by name; None: when schemas differ.

    Raises:
        TableError: DuckDB's reason, with the file's name.
    """
    union_by_name = len(representatives) > 1 if union is None else union
    with duckdb.connect(config={"threads": 1, "python_enable_replacements": "false"}) as connection:
        hive_types = hive_types_of(connection, "read_parquet", paths, hive)
        columns = describe(
            connection,
            "read_parquet",
            representatives,
            {"union_by_name": str(union_by_name).lower()},
            hive_types,
        )
    return Schema(
        columns=tuple(ColumnMeta(name=name, type=kind) for name, kind in columns),
        union_by_name=union_by_name,
        hive_types=hive_types,
    )


def hive_types_of(
    connection: duckdb.DuckDBPyConnection,
    reader: str,
    paths: Sequence[str],
    hive: bool | None,
    options: Mapping[str, str] = MappingProxyType({}),
) -> tuple[tuple[str, str], ...]:
    """Keys of the partition folders with their types; () without any, or if ``hive`` is false."""
    keys = partition_keys(paths)
    if hive is False or not keys:
        return ()
    # Without union_by_name DuckDB opens the first file only and takes the rest from the paths.
    asked = {**options, "hive_partitioning": "true"}
    with_keys = dict(describe(connection, reader, paths, asked, ()))
    return tuple((key, with_keys[key]) for key in keys if key in with_keys)


def partition_keys(paths: Sequence[str]) -> tuple[str, ...]:
    """Keys of the folders of every path, in path order; () unless all paths have the same.

    Raises:
        TableError: a folder's value holds a bare ``=``, which DuckDB does not read as a key.
    """
    found: tuple[str, ...] | None = None
    for path in paths:
        parts = PARTITION_FOLDER.findall(path)
        for key, value in parts:
            if "=" in value:
                raise TableError(
                    f"the folder {key}={value} of {path} is ambiguous: a partition value with '=' "
                    f"must be written {key}={value.replace('=', '%3D')}"
                )
        keys = tuple(key for key, _ in parts)
        if found is not None and set(keys) != set(found):
            return ()
        found = keys if found is None else found
    return found or ()


def describe(
    connection: duckdb.DuckDBPyConnection,
    reader: str,
    paths: Sequence[str],
    options: Mapping[str, str],
    hive_types: tuple[tuple[str, str], ...],
) -> list[tuple[str, str]]:
    """Names and types of what ``reader`` gives; ``options`` are SQL texts.

    Raises ``TableError`` with DuckDB's reason, and the file's name.
    """
    asked = {"hive_partitioning": str(bool(hive_types)).lower(), **options}
    arguments = [f"{name} = {value}" for name, value in asked.items()]
    if hive_types:
        types = ", ".join(f"{sql_text(key)}: {kind}" for key, kind in hive_types)
        arguments.append(f"hive_types = {{{types}}}")
    files = sql_list([escape_glob(path) for path in paths])
    statement = f"DESCRIBE SELECT * FROM {reader}({files}, {', '.join(arguments)})"
    try:
        rows = connection.execute(statement).fetchall()
    except duckdb.Error as error:
        raise TableError(_reason(error, paths)) from error
    return [(name, kind) for name, kind, *_ in rows]


def escape_glob(path: str) -> str:
    """DuckDB reads every path as a pattern; brackets keep the characters themselves."""
    return re.sub(r"[*?\[]", lambda found: f"[{found.group()}]", path)


def sql_text(text: str) -> str:
    """A literal."""
    return "'" + text.replace("'", "''") + "'"


def sql_list(texts: Sequence[str]) -> str:
    """A list of literals."""
    return f"[{', '.join(map(sql_text, texts))}]"


def _reason(error: duckdb.Error, paths: Sequence[str]) -> str:
    reason = str(error).split("\n\nLINE ")[0].strip()
    name = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    return f"cannot read the schema of {name}: {reason}"
