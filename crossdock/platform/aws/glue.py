"""One database of the AWS Glue Data Catalog: tables, partitions, and which of those are wanted."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from threading import Lock
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from crossdock.databases import (
    ForeignPartition,
    ForeignTable,
    KeyTest,
    KeyValue,
    Storage,
    Wanted,
)
from crossdock.errors import PlatformError, TableError
from crossdock.formats import Format
from crossdock.partition_folders import HIVE_NULL
from crossdock.platform.aws.errors import translate
from crossdock.platform.aws.hive_types import duckdb_type
from crossdock.platform.aws.on_demand import GLUE

if TYPE_CHECKING:
    from mypy_boto3_glue import GlueClient

#: Names are asked for again after this; tables themselves are for every statement.
NAMES_SECONDS = 5.0
_PARQUET = "parquet"
_CSV = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_QUOTED_CSV = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
_JSON = ("org.openx.data.jsonserde.JsonSerDe", "org.apache.hive.hcatalog.data.JsonSerDe")
#: Types of keys by which Glue can choose partitions.
_TESTABLE = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "VARCHAR", "DATE"})
#: Glue takes expressions up to 2,048 characters.
_LONGEST_EXPRESSION = 2_048
_CANNOT_TELL = ("InvalidInputException", "InvalidStateException")


class _CannotTell(TableError):
    """Glue does not evaluate what it was asked; it stays inside this module, for an expression."""


class GlueDatabase:
    """``Database`` in Glue; threads may share it. ``now`` is in seconds."""

    def __init__(
        self, client: GlueClient, database: str, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._database = database
        self._now = now
        self._names: tuple[float, Mapping[str, str]] | None = None
        self._lock = Lock()

    @property
    def title(self) -> str:
        return f"{GLUE}{self._database}"

    def names(self) -> Mapping[str, str]:
        with self._lock:
            known = self._names
        if known is None or self._now() - known[0] > NAMES_SECONDS:
            pages = self._pages("get_tables", "TableList", DatabaseName=self._database)
            known = (self._now(), {each["Name"].lower(): each["Name"] for each in pages})
            with self._lock:
                self._names = known
        return known[1]

    def get(self, name: str) -> ForeignTable | None:
        try:
            found: Mapping[str, Any] = self._client.get_table(
                DatabaseName=self._database, Name=name.lower()
            )["Table"]
        except self._client.exceptions.EntityNotFoundException:
            return None
        except ClientError as error:
            raise self._refused(error) from error
        try:
            return _table(found)
        except TableError as error:
            raise TableError(f"table {found['Name']} of {self.title}: {error}") from error

    def partitions(self, table: ForeignTable, wanted: Wanted) -> Sequence[ForeignPartition]:
        found = self._found_partitions(table.name, partition_expression(table, wanted))
        try:
            return [_partition(each) for each in found]
        except TableError as error:
            raise TableError(f"table {table.name} of {self.title}: {error}") from error

    def _found_partitions(self, table: str, expression: str) -> list[Mapping[str, Any]]:
        """Those for which the expression holds; all where Glue cannot tell.

        Glue fails if a value is none of its key's type, as that of NULL is for a number. The
        expression only narrows: the values are looked at again, by whoever plans.
        """
        asked: dict[str, Any] = {
            "DatabaseName": self._database,
            "TableName": table,
            "ExcludeColumnSchema": True,
        }
        if expression:
            with contextlib.suppress(_CannotTell):
                return self._pages("get_partitions", "Partitions", **asked, Expression=expression)
        return self._pages("get_partitions", "Partitions", **asked)

    def _pages(self, operation: Any, part: str, **asked: Any) -> list[Mapping[str, Any]]:
        try:
            pages = self._client.get_paginator(operation).paginate(**asked)
            return [each for page in pages for each in page[part]]
        except ClientError as error:
            raise self._refused(error) from error

    def _refused(self, error: ClientError) -> TableError:
        if error.response.get("Error", {}).get("Code") in _CANNOT_TELL:
            return _CannotTell(f"{self.title}: {error}")
        if error.response.get("Error", {}).get("Code") == "EntityNotFoundException":
            return TableError(f"{self.title} does not exist, as far as these credentials can see")
        translated: PlatformError = translate(error, self.title)
        return TableError(str(translated))


# -- which partitions ------------------------------------------------------------------------------


def partition_expression(table: ForeignTable, wanted: Wanted) -> str:
    """GetPartitions' own words for ``wanted``, or for less than it rules out; "" for all."""
    if not wanted:
        return ""
    kinds = {key.lower(): kind for key, kind in table.keys}
    alternatives = []
    for tests in wanted:
        told = [_test(test) for test in tests if kinds.get(test.key) in _TESTABLE]
        if not told:
            return ""  # this reader wants everything
        alternatives.append(" AND ".join(told))
    distinct = list(dict.fromkeys(alternatives))
    text = distinct[0] if len(distinct) == 1 else " OR ".join(f"({each})" for each in distinct)
    return text if len(text) <= _LONGEST_EXPRESSION else ""


def _test(test: KeyTest) -> str:
    values = [_value(value) for value in test.values]
    if test.operator == "IN":
        return f"{test.key} IN ({', '.join(values)})"
    return f"{test.key} {test.operator} {values[0]}"


def _value(value: KeyValue) -> str:
    if isinstance(value, int):
        return str(value)
    text = value.isoformat() if isinstance(value, date) else value
    return "'" + text.replace("'", "''") + "'"


# -- what Glue says --------------------------------------------------------------------------------


def _table(found: Mapping[str, Any]) -> ForeignTable:
    """Raises ``TableError`` for a view, and for what is stored in a form that is not read."""
    parameters = {key.lower(): value for key, value in found.get("Parameters", {}).items()}
    if "view" in found.get("TableType", "").lower():
        raise TableError("it is a view of another engine's SQL; make one here by CREATE VIEW")
    if parameters.get("projection.enabled", "").lower() == "true":
        raise TableError(
            "its partitions are projected and not kept in Glue; name its folder as a table instead"
        )
    descriptor = found.get("StorageDescriptor", {})
    columns = _typed(descriptor.get("Columns", ()))
    keys = _typed(found.get("PartitionKeys", ()))
    if parameters.get("table_type", "").upper() == "ICEBERG":
        return ForeignTable(
            name=found["Name"],
            columns=columns,
            keys=(),
            storage=None,
            metadata=parameters["metadata_location"],
        )
    storage = _storage(descriptor, parameters)
    return ForeignTable(name=found["Name"], columns=columns, keys=keys, storage=storage)


def _typed(columns: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    return tuple((each["Name"], _type_of(each)) for each in columns)


def _type_of(column: Mapping[str, Any]) -> str:
    try:
        return duckdb_type(column.get("Type", "string"))
    except TableError as error:
        raise TableError(f"column {column['Name']}: {error}") from error


def _partition(found: Mapping[str, Any]) -> ForeignPartition:
    values = tuple(None if value == HIVE_NULL else value for value in found["Values"])
    storage = _storage(found["StorageDescriptor"], {})
    return ForeignPartition(values=values, storage=storage)


def _storage(descriptor: Mapping[str, Any], parameters: Mapping[str, str]) -> Storage:
    serde = descriptor.get("SerdeInfo", {})
    library = serde.get("SerializationLibrary", "")
    own = {**descriptor.get("Parameters", {}), **parameters, **serde.get("Parameters", {})}
    location = descriptor.get("Location", "")
    if not location:
        raise TableError("it has no location")
    if _PARQUET in library.lower():
        return Storage(location=location, format=Format.PARQUET)
    if library in (_CSV, _QUOTED_CSV):
        options = _csv_options(own, quoted=library == _QUOTED_CSV)
        return Storage(location=location, format=Format.CSV, options=options)
    if library in _JSON:
        options = (("format", "'newline_delimited'"),)
        return Storage(location=location, format=Format.JSON, options=options)
    raise TableError(
        f"it is stored as {library or 'something unknown'}; Parquet, CSV and JSON are read"
    )


def _csv_options(own: Mapping[str, str], *, quoted: bool) -> tuple[tuple[str, str], ...]:
    skipped = int(own.get("skip.header.line.count", "0"))
    options = {"header": "false", "skip": str(skipped), "null_padding": "true"}
    if quoted:
        options |= {
            "delim": _literal(own.get("separatorChar", ",")),
            "quote": _literal(own.get("quoteChar", '"')),
            "escape": _literal(own.get("escapeChar", "\\")),
        }
    else:
        options |= {
            "delim": _literal(own.get("field.delim", own.get("serialization.format", "\x01"))),
            "quote": "''",
            "escape": _literal(own.get("escape.delim", "")),
            "nullstr": _literal(own.get("serialization.null.format", "\\N")),
        }
    return tuple(sorted(options.items()))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
