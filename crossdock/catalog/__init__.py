"""Tables: names, files, footers, columns, statistics. Nothing here reads a table's rows."""

from crossdock.catalog.catalog import Catalog, Source
from crossdock.catalog.options import ReadOptions
from crossdock.catalog.tables import (
    Bound,
    ColumnMeta,
    ColumnStats,
    FileMeta,
    RowGroupMeta,
    TableMeta,
)

__all__ = [
    "Bound",
    "Catalog",
    "ColumnMeta",
    "ColumnStats",
    "FileMeta",
    "ReadOptions",
    "RowGroupMeta",
    "Source",
    "TableMeta",
]
