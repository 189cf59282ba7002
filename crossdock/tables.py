"""Named tables as they are kept: a name, and what it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One table as the user named it; sources are absolute paths, URLs, or globs of either."""

    name: str
    sources: tuple[str, ...]


class Registry(Protocol):
    """Entries that outlive a process; names ignore case. Raises ``TableError`` when damaged."""

    def entries(self) -> Mapping[str, Entry]:
        """Entries by lower-case name."""
        ...

    def put(self, entry: Entry) -> None:
        """Add or replace."""
        ...

    def remove(self, name: str) -> bool:
        """Whether there was such an entry."""
        ...
