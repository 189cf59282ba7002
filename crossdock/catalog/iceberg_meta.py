"""What an Iceberg snapshot says, in the catalog's words: columns, files, bounds, deleted rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyiceberg import types as iceberg
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema

from crossdock.catalog.iceberg_files import plain_path
from crossdock.catalog.schemas import sql_text
from crossdock.catalog.tables import (
    Bound,
    ColumnMeta,
    ColumnStats,
    DeleteFile,
    FileMeta,
    RowGroupMeta,
    StoredField,
    TableMeta,
)
from crossdock.errors import TableError

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, StaticTable

    from crossdock.catalog.sources import FoundFile

    #: Size and version of files, by path.
    Find = Callable[[Sequence[str]], Mapping[str, FoundFile]]

_EPOCH = datetime(1970, 1, 1)
_PLAIN: Mapping[type[iceberg.IcebergType], str] = {
    iceberg.BooleanType: "BOOLEAN",
    iceberg.IntegerType: "INTEGER",
    iceberg.LongType: "BIGINT",
    iceberg.FloatType: "FLOAT",
    iceberg.DoubleType: "DOUBLE",
    iceberg.DateType: "DATE",
    iceberg.TimeType: "TIME",
    iceberg.TimestampType: "TIMESTAMP",
    iceberg.TimestamptzType: "TIMESTAMP WITH TIME ZONE",
    iceberg.TimestampNanoType: "TIMESTAMP_NS",
    iceberg.StringType: "VARCHAR",
    iceberg.UUIDType: "UUID",
    iceberg.BinaryType: "BLOB",
    iceberg.FixedType: "BLOB",
}
#: Types of which bounds are used; the others' are not compared, or not in Python's order.
_BOUNDED = (
    iceberg.IntegerType,
    iceberg.LongType,
    iceberg.DateType,
    iceberg.TimestampType,
    iceberg.StringType,
    iceberg.DecimalType,
)


def table_meta(name: str, table: StaticTable, snapshot: int | None, find: Find) -> TableMeta:
    """One snapshot of a table. Raises ``TableError`` for what it has and cannot be read."""
    scan = table.scan(snapshot_id=snapshot) if snapshot is not None else table.scan()
    schema = scan.projection()
    _refuse_moved_fields(schema, table.metadata.schemas)
    tasks = list(_planned(scan)) if snapshot is not None else []
    for task in tasks:
        _refuse_formats(task)
    paths = [plain_path(each.file_path) for task in tasks for each in _files(task)]
    found = find(paths)
    columns = _Columns(schema)
    return TableMeta(
        name=name,
        columns=tuple(
            ColumnMeta(name=field.name, type=duckdb_type(field.field_type, field.name))
            for field in schema.fields
        ),
        files=tuple(_file(task, found, columns) for task in tasks),
        fields=_stored(schema, table.metadata.schemas),
    )


def duckdb_type(kind: iceberg.IcebergType, column: str) -> str:
    """DuckDB's text of a type. Raises ``TableError`` for one that is not read."""
    match kind:
        case iceberg.DecimalType():
            return f"DECIMAL({kind.precision},{kind.scale})"
        case iceberg.ListType():
            return f"{duckdb_type(kind.element_type, column)}[]"
        case iceberg.MapType():
            key = duckdb_type(kind.key_type, column)
            return f"MAP({key}, {duckdb_type(kind.value_type, column)})"
        case iceberg.StructType():
            fields = [
                f"{_quoted(field.name)} {duckdb_type(field.field_type, column)}"
                for field in kind.fields
            ]
            return f"STRUCT({', '.join(fields)})"
    if type(kind) not in _PLAIN:
        raise TableError(f"column {column} is of type {kind}, which is not read")
    return _PLAIN[type(kind)]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# -- which files -----------------------------------------------------------------------------------


def _planned(scan: Any) -> Iterator[FileScanTask]:
    try:
        yield from scan.plan_files()
    except ValueError as error:
        if "equality delete" not in str(error):
            raise
        raise TableError(
            "it has equality deletes, which are not read; compact the table first"
        ) from error


def _refuse_formats(task: FileScanTask) -> None:
    for file in _files(task):
        if file.file_format is not FileFormat.PARQUET:
            what = "deletion vectors" if file.file_format.name == "PUFFIN" else "data"
            raise TableError(
                f"it has {what} in {file.file_format.name} files ({file.file_path}); only Parquet "
                "files are read; compact or rewrite the table first"
            )


def _files(task: FileScanTask) -> tuple[DataFile, ...]:
    """The data file, then its deletes in a fixed order."""
    return (task.file, *sorted(task.delete_files, key=lambda file: file.file_path))


# -- columns ---------------------------------------------------------------------------------------


def _stored(schema: Schema, schemas: Sequence[Schema]) -> tuple[StoredField, ...]:
    names: dict[int, dict[str, None]] = {}
    for each in (schema, *schemas):
        for field in each.fields:
            names.setdefault(field.field_id, {})[field.name] = None
    return tuple(
        StoredField(
            number=field.field_id,
            name=field.name,
            default="NULL" if field.initial_default is None else _default(field),
            names=tuple(names[field.field_id]),
        )
        for field in schema.fields
    )


def _default(field: iceberg.NestedField) -> str:
    if not isinstance(field.initial_default, bool | int | str | float):
        raise TableError(f"column {field.name}: its default {field.initial_default!r} is not read")
    return sql_text(str(field.initial_default))


def _refuse_moved_fields(schema: Schema, schemas: Sequence[Schema]) -> None:
    """Inside a column files are read by name: a field must have had its name and number always."""
    now = dict(_nested(schema))
    for older in schemas:
        for path, number in _nested(older):
            renamed = number in now.values() and now.get(path) != number
            replaced = path in now and now[path] != number
            if renamed or replaced:
                raise TableError(
                    f"the field {path} was renamed, or dropped and added again, inside its column; "
                    "rewrite the table's files first"
                )


def _nested(schema: Schema) -> Iterator[tuple[str, int]]:
    """Paths of fields inside columns, below the column's number; with their own."""
    for field in schema.fields:
        yield from _inside(f"{field.field_id}", field.field_type)


def _inside(path: str, kind: iceberg.IcebergType) -> Iterator[tuple[str, int]]:
    match kind:
        case iceberg.StructType():
            for field in kind.fields:
                inner = f"{path}.{field.name}"
                yield inner, field.field_id
                yield from _inside(inner, field.field_type)
        case iceberg.ListType():
            yield from _inside(f"{path}.element", kind.element_type)
        case iceberg.MapType():
            yield from _inside(f"{path}.key", kind.key_type)
            yield from _inside(f"{path}.value", kind.value_type)


@dataclass(frozen=True)
class _Columns:
    """Which column each number belongs to, that of a field inside it too."""

    schema: Schema

    def of_numbers(self) -> dict[int, str]:
        owners: dict[int, str] = {}
        for field in self.schema.fields:
            owners[field.field_id] = field.name
            owners |= dict.fromkeys(_numbers(field.field_type), field.name)
        return owners

    def bounded(self) -> list[iceberg.NestedField]:
        return [field for field in self.schema.fields if isinstance(field.field_type, _BOUNDED)]

    def floats(self) -> frozenset[str]:
        """Columns that may hold a NaN which no bounds tell of."""
        return frozenset(
            field.name.lower() for field in self.schema.fields if _has_float(field.field_type)
        )


def _numbers(kind: iceberg.IcebergType) -> Iterator[int]:
    match kind:
        case iceberg.StructType():
            for field in kind.fields:
                yield field.field_id
                yield from _numbers(field.field_type)
        case iceberg.ListType():
            yield kind.element_id
            yield from _numbers(kind.element_type)
        case iceberg.MapType():
            yield from (kind.key_id, kind.value_id)
            yield from _numbers(kind.key_type)
            yield from _numbers(kind.value_type)


def _has_float(kind: iceberg.IcebergType) -> bool:
    match kind:
        case iceberg.FloatType() | iceberg.DoubleType():
            return True
        case iceberg.StructType():
            return any(_has_float(field.field_type) for field in kind.fields)
        case iceberg.ListType():
            return _has_float(kind.element_type)
        case iceberg.MapType():
            return _has_float(kind.key_type) or _has_float(kind.value_type)
    return False


# -- files -----------------------------------------------------------------------------------------


def _file(task: FileScanTask, found: Mapping[str, FoundFile], columns: _Columns) -> FileMeta:
    data, *deletes = _files(task)
    seen = found[plain_path(data.file_path)]
    return FileMeta(
        path=seen.path,
        size=seen.size,
        version=str(seen.version),
        rows=data.record_count,
        row_groups=(_rows(data, columns),) if data.record_count else (),
        hidden_nan=columns.floats(),
        deletes=tuple(_delete(each, data, found) for each in deletes),
    )


def _delete(deletes: DataFile, data: DataFile, found: Mapping[str, FoundFile]) -> DeleteFile:
    seen = found[plain_path(deletes.file_path)]
    return DeleteFile(
        path=seen.path, size=seen.size, version=str(seen.version), target=data.file_path
    )


def _rows(data: DataFile, columns: _Columns) -> RowGroupMeta:
    """The whole file as one group: manifests tell no more."""
    owners, sizes = columns.of_numbers(), dict[str, int]()
    for number, size in (data.column_sizes or {}).items():
        if number in owners:
            sizes[owners[number]] = sizes.get(owners[number], 0) + size
    stats = {
        field.name: known
        for field in columns.bounded()
        if (known := _stats(data, field)) is not None
    }
    return RowGroupMeta(first_row=0, rows=data.record_count, column_bytes=sizes, stats=stats)


def _stats(data: DataFile, field: iceberg.NestedField) -> ColumnStats | None:
    number = field.field_id
    nulls = (data.null_value_counts or {}).get(number)
    low = (data.lower_bounds or {}).get(number)
    high = (data.upper_bounds or {}).get(number)
    if low is None or high is None:
        if nulls is not None and nulls == data.record_count:
            return ColumnStats(minimum=None, maximum=None, nulls=nulls)
        return None
    minimum, maximum = _bound(field.field_type, low), _bound(field.field_type, high)
    if minimum is None or maximum is None:
        return None
    return ColumnStats(minimum=minimum, maximum=maximum, nulls=nulls)


def _bound(kind: iceberg.IcebergType, data: bytes) -> Bound | None:
    """A bound in Python; None if it cannot be told, or lies outside Python's years."""
    stored: Any = kind
    if isinstance(kind, iceberg.LongType) and len(data) == 4:
        stored = iceberg.IntegerType()  # as it was when the file was written
    try:
        value: Any = from_bytes(stored, data)
        if isinstance(kind, iceberg.DateType):
            return date(1970, 1, 1) + timedelta(days=value)
        if isinstance(kind, iceberg.TimestampType):
            return _EPOCH + timedelta(microseconds=value)
    except (ValueError, OverflowError, UnicodeDecodeError):
        return None
    return value if isinstance(value, int | str | Decimal) else None
