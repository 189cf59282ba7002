"""What attempts and commits say of the files they wrote."""

from __future__ import annotations

import msgspec


class StagedFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that is whole, but not to be seen before its query's commit.

    ``token`` and ``parts`` are what its outbox needs to show it.
    """

    name: str  # below the target, folders included; "" when the target is the file
    size: int  # bytes
    rows: int = -1  # -1: not counted
    token: str = ""
    parts: tuple[str, ...] = ()


class AttemptFiles(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that one attempt wrote: the object that its commit names."""

    files: tuple[StagedFile, ...] = ()
