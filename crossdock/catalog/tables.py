"""What the planner knows of a table: columns, files, row groups, statistics. No rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from crossdock.formats import Format

#: A footer's minimum or maximum. Timestamps are naive UTC; nanoseconds are rounded outwards.
Bound = int | str | Decimal | date | datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMeta:
    name: str
    type: str  # DuckDB's own text


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStats:
    """Footer statistics of one column chunk; both bounds are None when there are no values.

    The bounds enclose every value. They may lie outside (writers cut long strings), so they can
    rule a row group out but never prove that a value is there.
    """

    minimum: Bound | None
    maximum: Bound | None
    nulls: int | None  # None: the writer did not count


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroupMeta:
    first_row: int  # position of its first row in the file
    rows: int
    column_bytes: Mapping[str, int]  # compressed bytes by top-level column, children summed
    stats: Mapping[str, ColumnStats]  # flat columns of pruneable types only


@dataclass(frozen=True, slots=True, kw_only=True)
class TextReader:
    """How a CSV or JSON file is read: what DuckDB found out about it, so that no task guesses."""

    names: tuple[str, ...]  # of a CSV file's columns, in its own order
    options: tuple[tuple[str, str], ...]  # of DuckDB's reader, values as SQL text


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredField:
    """A column that files know by a number, whatever its name was when they were written."""

    number: int
    name: str
    default: str  # SQL; of files that were written before the column was there
    names: tuple[str, ...]  # those it had in any file


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """A Parquet file of positions that were deleted from data files."""

    path: str
    size: int  # bytes
    version: str
    target: str  # how it names the data file


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMeta:
    path: str
    size: int  # bytes
    version: str  # modification time in ns, or ETag
    rows: int  # of CSV and JSON an estimate, at least 1 where there may be one
    row_groups: tuple[RowGroupMeta, ...]
    reader: int = -1  # of the table's readers; none for Parquet
    #: Texts of the table's partition keys, where the file's path does not tell them.
    values: tuple[str | None, ...] = ()
    deletes: tuple[DeleteFile, ...] = ()
    #: Top-level columns, in lower case, whose minimum and maximum may leave a NaN out.
    hidden_nan: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMeta:
    """A table as of one look at its files.

    ``union_by_name`` is set when the files' schemas differ: columns are then matched by name and
    widened, and what a file lacks is NULL. ``hive_types`` are the ``key=value`` folders' keys.
    """

    name: str
    columns: tuple[ColumnMeta, ...]
    files: tuple[FileMeta, ...]
    union_by_name: bool = False
    hive_types: tuple[tuple[str, str], ...] = ()
    carried: bool = False  # the files hold the columns in carriers, as the engine writes tables
    format: Format = Format.PARQUET
    readers: tuple[TextReader, ...] = ()
    #: Its name in the catalog, if its files were not looked for: which are wanted is not known yet.
    outline_of: str = ""
    fields: tuple[StoredField, ...] = ()  # of an Iceberg table's columns, in their order

    @property
    def is_counted(self) -> bool:
        """Whether ``rows`` are known and no estimate."""
        return self.format is Format.PARQUET

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def hidden_nan(self) -> frozenset[str]:
        """Columns, in lower case, some file of which may hold a NaN beyond its statistics."""
        return frozenset().union(*(file.hidden_nan for file in self.files))

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)
