"""Tables of Apache Iceberg: one snapshot's files, columns by their numbers, deleted rows left out.

pyiceberg reads the metadata; it is an optional dependency and imported with the first such table.
Only metadata is read here: manifests tell rows, sizes and bounds of every data file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossdock.catalog.tables import TableMeta
from crossdock.errors import PlatformError, TableError
from crossdock.remote_files import RemoteFiles, is_remote

if TYPE_CHECKING:
    from pyiceberg.table import StaticTable

    from crossdock.catalog.sources import FoundFile

_METADATA = ".metadata.json"
_VERSION = re.compile(r"v?(\d+)[^/]*\.metadata\.json$")
#: Data files looked for at once.
_LOOKS = 16
_INSTALL = "reading Iceberg tables needs pyiceberg: pip install 'crossdock[iceberg]'"


class IcebergTables:
    """Reads Iceberg tables by their metadata files."""

    def __init__(self, remote: RemoteFiles | None, *, local: bool) -> None:
        self._remote = remote
        self._local = local

    def read(self, name: str, sources: Sequence[str], options: Mapping[str, str]) -> TableMeta:
        """The table whose metadata file or folder is the one of ``sources``.

        Raises ``TableError``: it cannot be read, or has what is not supported.
        """
        if len(sources) != 1:
            raise TableError(f"table {name}: an Iceberg table is one metadata file or folder")
        try:
            from crossdock.catalog.iceberg_files import plain_path
            from crossdock.catalog.iceberg_meta import table_meta
        except ImportError as error:
            raise TableError(f"table {name}: {_INSTALL}") from error
        location = self._metadata_file(plain_path(sources[0]))
        try:
            table = self._load(location)
            return table_meta(name, table, _snapshot(table, options), self._found)
        except TableError as error:
            raise TableError(f"Iceberg table {name} ({location}): {error}") from error
        except (PlatformError, ValueError, KeyError, TypeError) as error:
            raise TableError(
                f"Iceberg table {name} ({location}) cannot be read: {error}"
            ) from error

    def _load(self, location: str) -> StaticTable:
        from pyiceberg.catalog.noop import NoopCatalog
        from pyiceberg.serializers import FromInputFile
        from pyiceberg.table import StaticTable

        from crossdock.catalog.iceberg_files import MetadataFiles

        files = MetadataFiles(self._remote, local=self._local)
        return StaticTable(
            identifier=("static-table", location),
            metadata_location=location,
            metadata=FromInputFile.table_metadata(files.new_input(location)),
            io=files,
            catalog=NoopCatalog("static-table"),
        )

    # -- files -------------------------------------------------------------------------------------

    def _metadata_file(self, location: str) -> str:
        """The file itself, or the newest one of a table's folder."""
        if location.endswith(_METADATA):
            return location
        folder = f"{location.rstrip('/')}/metadata/"
        names = self._listed(folder)
        versions = [(int(m[1]), each) for each in names if (m := _VERSION.search(each))]
        if not versions:
            raise TableError(f"{location} is no Iceberg table: no {folder}*{_METADATA}")
        newest = max(number for number, _ in versions)
        found = [each for number, each in versions if number == newest]
        if len(found) > 1:
            raise TableError(
                f"{location} has {len(found)} newest metadata files; name one: {', '.join(found)}"
            )
        return found[0]

    def _listed(self, folder: str) -> list[str]:
        if self._remote is not None and is_remote(folder):
            try:
                return [file.url for file in self._remote.list(folder)]
            except PlatformError as error:
                raise TableError(f"cannot list {folder}: {error}") from error
        if not self._local:
            raise TableError(f"cannot read {folder}: tables are read from s3:// here")
        return [str(path) for path in Path(folder).glob(f"*{_METADATA}")]

    def _found(self, paths: Sequence[str]) -> dict[str, FoundFile]:
        """Size and version of each file, by path. Raises ``TableError`` naming what is missing."""
        distinct = list(dict.fromkeys(paths))
        with ThreadPoolExecutor(_LOOKS, thread_name_prefix="iceberg") as pool:
            return dict(zip(distinct, pool.map(self._look, distinct), strict=True))

    def _look(self, path: str) -> FoundFile:
        from crossdock.catalog.sources import FoundFile

        if self._remote is not None and is_remote(path):
            try:
                found = self._remote.look(path)
            except PlatformError as error:
                raise TableError(f"its file {path} cannot be read: {error}") from error
            return FoundFile(path, found.size, found.version)
        if not self._local:
            raise TableError(f"its file {path} is not on S3")
        try:
            status = os.stat(path)  # noqa: PTH116  # called once a file
        except OSError as error:
            raise TableError(f"its file {path} cannot be read: {error.strerror}") from error
        return FoundFile(path, status.st_size, status.st_mtime_ns)


def _snapshot(table: StaticTable, options: Mapping[str, str]) -> int | None:
    """The snapshot's id; None for a table that has none yet. Raises ``TableError``."""
    if (text := options.get("snapshot_from_id")) is not None:
        number = text.strip("'")
        if not number.isdecimal() or table.snapshot_by_id(int(number)) is None:
            known = ", ".join(str(each.snapshot_id) for each in table.metadata.snapshots[-10:])
            raise TableError(f"there is no snapshot {number}; the last are {known or 'none'}")
        return int(number)
    if (text := options.get("snapshot_from_timestamp")) is not None:
        return _as_of(table, text.strip("'"))
    current = table.current_snapshot()
    return current.snapshot_id if current else None


def _as_of(table: StaticTable, text: str) -> int:
    from pyiceberg.utils.datetime import datetime_to_millis

    found: Any = table.snapshot_as_of_timestamp(datetime_to_millis(_moment(text)))
    if found is None:
        raise TableError(f"there was no snapshot at {text}")
    return int(found.snapshot_id)


def _moment(text: str) -> Any:
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise TableError(f"snapshot_from_timestamp = {text!r} is no date and time") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
