"""Tables that another catalog keeps, such as AWS Glue's: found by name there, only read here.

The implementation for Glue is ``crossdock.platform.aws.glue``; nothing here imports it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, NamedTuple, Protocol

from crossdock.formats import Format

KeyValue = int | str | date


class KeyTest(NamedTuple):
    """What a statement wants of a partition key: one value passes, or none of the row does."""

    key: str  # in lower case
    operator: Literal["=", "<", "<=", ">", ">=", "IN"]
    values: tuple[KeyValue, ...]  # one, or any number of IN; of one type


#: Tests that all hold, for each place where a statement reads the table: a partition is wanted if
#: it passes one of them. None: no partition can be ruled out.
Wanted = tuple[tuple[KeyTest, ...], ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Where files are, and how they are read."""

    location: str
    format: Format
    #: Of DuckDB's reader of CSV or JSON, values as SQL text.
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTable:
    """A table as its catalog describes it. Types are DuckDB's."""

    name: str
    columns: tuple[tuple[str, str], ...]  # without the partition keys
    keys: tuple[tuple[str, str], ...]
    storage: Storage | None  # None: what it says is elsewhere
    metadata: str = ""  # of an Iceberg table: the URL of its metadata file


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignPartition:
    values: tuple[str | None, ...]  # of the table's keys, as texts
    storage: Storage


class Database(Protocol):
    """Raises ``TableError`` for what cannot be read and when the catalog refuses to answer."""

    @property
    def title(self) -> str:
        """For messages: ``glue://sales``."""
        ...

    def names(self) -> Mapping[str, str]:
        """Names as written, by lower-case name."""
        ...

    def get(self, name: str) -> ForeignTable | None:
        """None: there is no such table."""
        ...

    def partitions(self, table: ForeignTable, wanted: Wanted) -> Sequence[ForeignPartition]:
        """Those that may be wanted; others may be among them."""
        ...
