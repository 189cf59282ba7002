"""Named tables, views and macros as they are kept: a name, and what it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

import msgspec

from crossdock.formats import Format


class Kind(StrEnum):
    TABLE = "table"
    VIEW = "view"
    MACRO = "macro"


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing as the user named it; sources are absolute paths, URLs, or globs of either."""

    name: str
    sources: tuple[str, ...] = ()
    kind: Kind = Kind.TABLE
    #: Of a view or macro: the text that stands after its name in CREATE.
    sql: str = ""
    #: Of a table whose files' names do not say it, or whose folder holds several.
    format: Format | None = None
    #: Of DuckDB's reader of CSV or JSON, values as SQL text.
    options: tuple[tuple[str, str], ...] = ()
    foreign: bool = False  # a table of another catalog; never kept as an entry
    written: bool = False  # a table that statements made; never kept as an entry

    @property
    def key(self) -> str:
        """What it is found by. Names ignore case; a macro may be called as a table is."""
        return entry_key(self.kind, self.name)


def entry_key(kind: Kind, name: str) -> str:
    """No name has the zero character, so the two kinds of keys never meet."""
    return f"{name.lower()}\0" if kind is Kind.MACRO else name.lower()


class Registry(Protocol):
    """Entries that outlive a process; names ignore case. Raises ``TableError`` when damaged."""

    def entries(self) -> Mapping[str, Entry]:
        """Entries by key."""
        ...

    def put(self, entry: Entry) -> None:
        """Add or replace."""
        ...

    def remove(self, key: str) -> bool:
        """Whether there was such an entry."""
        ...


#: Bumped when an older reader could misread a newer manifest.
MANIFEST_VERSION = 1


class TableFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a written table; its object never changes."""

    key: str
    size: int  # bytes
    rows: int


class TableManifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a written table is after a commit. Files hold the columns by name, in their carriers."""

    version: int = MANIFEST_VERSION
    columns: tuple[tuple[str, str], ...]  # name, type
    files: tuple[TableFile, ...] = ()


class WrittenTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table that statements wrote, as it is now."""

    name: str
    columns: tuple[tuple[str, str], ...]
    paths: tuple[str, ...]  # of its files; none when it has no rows


class WrittenTables(Protocol):
    """Tables made by CREATE TABLE; names ignore case."""

    def names(self) -> Mapping[str, str]:
        """Names as written, by lower-case name."""
        ...

    def get(self, name: str) -> WrittenTable | None:
        """None: there is no such table."""
        ...

    def drop(self, name: str) -> bool:
        """Whether there was such a table. Queries that were planned before may go on reading it."""
        ...
