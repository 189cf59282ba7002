"""What an attempt does with the files it wrote: only its query's commit can find them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import xxhash

from coordinator_state.records import TaskRecord
from crossdock.errors import ObjectExists
from crossdock.executor.writing import OutputFile
from crossdock.planner.plan import Write, WriteKind
from crossdock.platform.ports import Objects
from crossdock.shuffle import layout
from crossdock.writes.files import AttemptFiles, StagedFile
from crossdock.writes.outbox import Outbox, Spot


class Staging:
    """Stages the files of one attempt."""

    def __init__(self, objects: Objects, outbox: Outbox, task: TaskRecord, write: Write) -> None:
        self._objects = objects
        self._outbox = outbox
        self._task = task
        self._write = write

    def stage(self, files: Sequence[OutputFile], rows: int) -> AttemptFiles:
        """What the attempt's commit is to name."""
        if self._write.kind is WriteKind.TABLE:
            return AttemptFiles(files=self._table(files, rows))
        staged = tuple(self._file(number, file) for number, file in enumerate(files))
        if len(staged) == 1:
            staged = (msgspec.structs.replace(staged[0], rows=rows),)
        return AttemptFiles(files=staged)

    def _table(self, files: Sequence[OutputFile], rows: int) -> tuple[StagedFile, ...]:
        """A task of a table writes one file; one without rows is not worth keeping."""
        if rows == 0:
            return ()
        task = self._task
        key = layout.data_key(task.query_id, task.stage, task.index, task.attempt)
        (file,) = files
        size, _ = put_own(self._objects, key, file.path)
        return (StagedFile(name=key, size=size, rows=rows),)

    def _file(self, number: int, file: OutputFile) -> StagedFile:
        task = self._task
        spot = Spot(
            query_id=task.query_id,
            stage=task.stage,
            index=task.index,
            attempt=task.attempt,
            number=number,
        )
        return self._outbox.stage(spot, self._write.target, self._name(spot, file), file.path)

    def _name(self, spot: Spot, file: OutputFile) -> str:
        if self._write.one_file:
            return ""
        name = f"{spot.stem}.{self._write.ending}"
        return f"{file.folder}/{name}" if file.folder else name


def put_own(objects: Objects, key: str, path: Path) -> tuple[int, str]:
    """Upload a file under a key of this attempt's own; its size in bytes, and its checksum.

    Raises ``ObjectExists`` if another content is there.
    """
    checksum = _checksum(path)
    try:
        return objects.put_files(key, [path]), checksum
    except ObjectExists:
        # An upload whose answer was lost, or not ours at all.
        if xxhash.xxh3_64_hexdigest(objects.get(key)) != checksum:
            raise
    return path.stat().st_size, checksum


def _checksum(path: Path) -> str:
    """xxh3-64 of a file, in hex."""
    digest = xxhash.xxh3_64()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
