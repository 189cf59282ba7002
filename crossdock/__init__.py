"""SQL over Parquet as stages of tasks that meet in a queue shuffle.

The nouns: a **connection** has tables and settings. A **query** becomes a **plan** of **stages**; a
stage is one SQL fragment that its **tasks** run, each over its own rows. Tasks are pulled by
**workers**, and rows travel between stages as exchange objects announced on queues (the
**shuffle**). A **receipt** says what all that took and would cost on AWS.

Example:
    >>> import pyarrow as pa
    >>> import crossdock
    >>> fruit = pa.table({"name": ["fig", "plum", "fig"], "kilos": [2, 5, 3]})
    >>> with crossdock.connect(tables={"fruit": fruit}) as con:
    ...     query = "SELECT name, sum(kilos) AS kilos FROM fruit GROUP BY name ORDER BY name"
    ...     con.execute(query).fetchall()
    [('fig', 5), ('plum', 5)]

The module follows PEP 249. Names are imported at their first use, so ``import crossdock`` is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crossdock.client.connection import Connection, connect
    from crossdock.client.cursor import Cursor
    from crossdock.client.types import (
        BINARY,
        DATETIME,
        NUMBER,
        ROWID,
        STRING,
        Binary,
        Date,
        DateFromTicks,
        Time,
        TimeFromTicks,
        Timestamp,
        TimestampFromTicks,
    )
    from crossdock.errors import (
        CrossdockError,
        DatabaseError,
        DataError,
        IntegrityError,
        InterfaceError,
        InternalError,
        NotSupportedError,
        OperationalError,
        ProgrammingError,
        QueryCancelled,
        QueryFailed,
        SettingError,
        SqlError,
        TableError,
    )
    from crossdock.errors import CrossdockError as Error
    from crossdock.progress import StageProgress
    from crossdock.receipt import Receipt, StageReceipt
    from crossdock.settings import Exchange, Settings

    Warning: type[Exception]
    __version__: str

#: PEP 249: the interface this module follows.
apilevel = "2.0"
#: PEP 249: threads may share the module, not a connection; only ``Cursor.cancel`` may cross.
threadsafety = 1
#: PEP 249: ``?``; ``$1`` and ``$name`` work as well.
paramstyle = "qmark"

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "CrossdockError",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "Exchange",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "QueryCancelled",
    "QueryFailed",
    "Receipt",
    "SettingError",
    "Settings",
    "SqlError",
    "StageProgress",
    "StageReceipt",
    "TableError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "__version__",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

_HOMES = {
    "crossdock.client.connection": ("Connection", "connect"),
    "crossdock.client.cursor": ("Cursor",),
    "crossdock.progress": ("StageProgress",),
    "crossdock.receipt": ("Receipt", "StageReceipt"),
    "crossdock.client.types": (
        "BINARY",
        "DATETIME",
        "NUMBER",
        "ROWID",
        "STRING",
        "Binary",
        "Date",
        "DateFromTicks",
        "Time",
        "TimeFromTicks",
        "Timestamp",
        "TimestampFromTicks",
    ),
    "crossdock.errors": (
        "CrossdockError",
        "DataError",
        "DatabaseError",
        "Error",
        "IntegrityError",
        "InterfaceError",
        "InternalError",
        "NotSupportedError",
        "OperationalError",
        "ProgrammingError",
        "QueryCancelled",
        "QueryFailed",
        "SettingError",
        "SqlError",
        "TableError",
        "Warning",
    ),
    "crossdock.settings": ("Exchange", "Settings"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("crossdock")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
