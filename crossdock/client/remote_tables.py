"""Named tables of a deployment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from crossdock.api.messages import Column
from crossdock.api.models import TableBody, TableDocument, TableListings
from crossdock.client.http import HttpApi, quoted
from crossdock.errors import TableError


@dataclass(frozen=True, slots=True)
class RemoteTable:
    """A table as the deployment describes it; ``files`` has a number for each file."""

    name: str
    columns: Sequence[Column]
    files: range
    rows: int
    size: int  # bytes
    is_counted: bool  # whether ``rows`` are known and no estimate


class RemoteTables:
    """The tables of a deployment, which all its callers share (``drivers.Tables``)."""

    def __init__(self, api: HttpApi) -> None:
        self._api = api

    def names(self) -> Sequence[str]:
        return tuple(self._listed())

    def sources(self, name: str) -> Sequence[str]:
        listed = {known.lower(): sources for known, sources in self._listed().items()}
        if name.lower() not in listed:
            raise TableError(f"no table is named {name}")
        return listed[name.lower()]

    def add(
        self,
        name: str,
        source: str | Sequence[str],
        *,
        persistent: bool = True,
        format: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> RemoteTable:
        """Name files, globs or folders (``s3://bucket/prefix/``), for every caller.

        ``format`` and ``options`` are those of ``Catalog.add``.

        Raises ``TableError`` when they cannot be read, or when they are on this machine.
        """
        sources = [source] if isinstance(source, str) else [os.fspath(each) for each in source]
        local = [each for each in sources if "://" not in each]
        if local or not persistent:
            raise TableError(f"table {name}: a deployment reads from S3 only, not {local}")
        body: dict[str, Any] = {"sources": sources, "format": format, "options": options or {}}
        try:
            checked = msgspec.convert(body, TableBody)
        except msgspec.ValidationError as error:
            raise TableError(f"table {name}: {error}") from error
        document = self._api.call("PUT", f"/tables/{quoted(name)}", TableDocument, body=checked)
        return _table(document)

    def get(self, name: str) -> RemoteTable:
        """The table as its files are now. Raises ``TableError``."""
        return _table(self._api.call("GET", f"/tables/{quoted(name)}", TableDocument))

    def describe(self, name: str) -> RemoteTable:
        """Same as ``get``; the word of the command line."""
        return self.get(name)

    def remove(self, name: str) -> None:
        self._api.call("DELETE", f"/tables/{quoted(name)}", type(None))

    def _listed(self) -> dict[str, tuple[str, ...]]:
        listings = self._api.call("GET", "/tables", TableListings)
        return {table.name: table.sources for table in listings.tables}


def _table(document: TableDocument) -> RemoteTable:
    return RemoteTable(
        document.name,
        document.columns,
        range(document.files),
        document.rows,
        document.bytes,
        document.counted,
    )
