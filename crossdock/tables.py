"""Named tables, views and macros as they are kept: a name, and what it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

import msgspec


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
