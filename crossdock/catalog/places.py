"""Where a table's files may be: on this machine, or behind URLs. One way of looking at both."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from crossdock.catalog.remote_sources import find_all_remote, find_remote
from crossdock.catalog.schemas import PARTITION_FOLDER, partition_keys
from crossdock.catalog.sources import FoundFile, find_all_files, find_files
from crossdock.errors import TableError
from crossdock.formats import Format
from crossdock.remote_files import (
    SCHEME,
    RemoteFile,
    RemoteFiles,
    is_remote,
    lay_tail,
    read_tail,
)


class Places:
    """Finds files, and gives the schema's reader paths that it can open."""

    def __init__(self, *, remote: RemoteFiles | None, local: bool) -> None:
        self._remote = remote
        self._local = local

    def find(
        self, sources: Sequence[str], base: Path, kind: Format = Format.PARQUET
    ) -> tuple[FoundFile, ...]:
        """Every file that ``sources`` name, each once, in source order, then by path.

        Raises ``TableError`` naming a source that is missing, matches nothing, or is empty.
        """
        if not sources:
            raise TableError("a table needs at least one file: the list of paths is empty")
        found: dict[str, FoundFile] = {}
        for source in sources:
            for file in self._find(source, base, kind):
                found.setdefault(file.path, file)
        return tuple(found.values())

    def _find(self, source: str, base: Path, kind: Format) -> Sequence[FoundFile]:
        if self._remote is not None and is_remote(source):
            return find_remote(self._remote, source, kind)
        if not self._local:
            raise TableError(f"cannot read {source}: a table's files are named {SCHEME}bucket/key")
        return find_files([source], base, kind)

    def find_all(self, folder: str, base: Path) -> Sequence[FoundFile]:
        """Every file below a folder, whatever its name, but markers, hidden ones and empty ones.

        Raises ``TableError`` when the folder cannot be looked at; one that is not there has none.
        """
        if self._remote is not None and is_remote(folder):
            return find_all_remote(self._remote, folder)
        if not self._local:
            raise TableError(f"cannot read {folder}: a table's files are named {SCHEME}bucket/key")
        return find_all_files(folder.removeprefix("file://"), base)

    @contextmanager
    def stand_ins(
        self, files: Sequence[FoundFile], shown: Sequence[str]
    ) -> Iterator[tuple[list[str], list[str]]]:
        """Local paths of all ``files``, and of those whose schema is ``shown``.

        A remote file has a stand-in: its footer, if shown, under its own ``key=value`` folders.
        """
        if self._remote is None or not any(is_remote(file.path) for file in files):
            yield [file.path for file in files], list(shown)
            return
        with tempfile.TemporaryDirectory(prefix="crossdock-footers-") as folder:
            names = _Names(Path(folder), self._remote)
            named = bool(partition_keys([file.path for file in files]))
            try:
                paths = [names.of(file, whole=file.path in shown, made=named) for file in files]
                by_path = {file.path: path for file, path in zip(files, paths, strict=True)}
                yield paths, [by_path[path] for path in shown]
            except TableError as error:
                raise TableError(names.restored(str(error))) from error


class _Names:
    def __init__(self, folder: Path, remote: RemoteFiles) -> None:
        self._folder = folder
        self._remote = remote
        self._urls: dict[str, str] = {}

    def of(self, file: FoundFile, *, whole: bool, made: bool) -> str:
        """The stand-in's path. ``whole``: with a footer; ``made``: it is there, perhaps empty."""
        if not is_remote(file.path):
            return file.path
        keys = ["=".join(found) for found in PARTITION_FOLDER.findall(file.path)]
        path = self._folder.joinpath(str(len(self._urls)), *keys, "file.parquet")
        self._urls[str(path)] = file.path
        if whole or made:
            path.parent.mkdir(parents=True)
        if whole:
            remote = RemoteFile(file.path, file.size, str(file.version))
            lay_tail(read_tail(self._remote, remote), file.size, path)
        elif made:
            path.touch()
        return str(path)

    def restored(self, message: str) -> str:
        """A message in the words of the user, who knows of no stand-in."""
        for path, url in self._urls.items():
            message = message.replace(path, url)
        return message
