"""What each task of a scan reads: pieces of files, cut by row groups, near each other and even."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from crossdock.planner.nodes import Scan
from crossdock.planner.options import PlannerOptions
from crossdock.planner.plan import Deletes, FileSlice
from crossdock.planner.pruning import RowGroupFilter

if TYPE_CHECKING:
    from crossdock.catalog import FileMeta, TableMeta

#: Column bytes below which another task costs more than it saves.
_LEAST_SPLIT_BYTES = 2 * 1024 * 1024
#: A row weighs this much beside its column bytes, so that count(*) splits too.
_ROW_WEIGHT = 0.125


class Piece(NamedTuple):
    """Neighbouring rows of one file: a row group, or a part of one."""

    file: FileMeta
    first: int
    rows: int
    bytes: float  # of the columns read

    @property
    def weight(self) -> float:
        return self.bytes + self.rows * _ROW_WEIGHT

    def part(self, start: int, end: int) -> Piece:
        """Rows ``start`` to ``end`` (exclusive) of this piece."""
        rows = end - start
        return Piece(self.file, self.first + start, rows, self.bytes * rows / self.rows)


@dataclass(frozen=True)
class ScanWork:
    """The pieces of a table a scan has to read, in file order."""

    pieces: tuple[Piece, ...]

    @cached_property
    def rows(self) -> int:
        return sum([p.rows for p in self.pieces])

    @cached_property
    def bytes(self) -> float:
        return sum([p.bytes for p in self.pieces])

    def natural_tasks(self, options: PlannerOptions) -> int:
        """How many tasks this much reading deserves; at least 1.

        Every worker gets one if there is enough to do, and a count above the workers is a multiple
        of them so that none idles in the last round.
        """
        if not self.rows:
            return 1
        most = self.rows if self._divisible else len(self.pieces)
        enough = math.ceil(self.bytes / _LEAST_SPLIT_BYTES)
        tasks = max(
            math.ceil(self.bytes / options.split_bytes),
            min(options.workers, most if options.forced else max(enough, 1)),
        )
        if tasks > options.workers:
            tasks = math.ceil(tasks / options.workers) * options.workers
        return min(tasks, most)

    @property
    def _divisible(self) -> bool:
        """Texts are read whole: where a row begins in them, only their reader knows."""
        return all(piece.file.reader < 0 for piece in self.pieces)

    def cut(self, tasks: int) -> tuple[tuple[FileSlice, ...], ...]:
        """Exactly ``tasks`` splits; some are empty if there are fewer rows than tasks."""
        whole = len(self.pieces) >= tasks or not self._divisible
        pieces = self.pieces if whole else _cut_rows(self.pieces, tasks)
        runs = _even_runs(pieces, tasks)
        splits = [_slices(run) for run in runs]
        return tuple(splits) + ((),) * (tasks - len(splits))


def scan_work(table: TableMeta, scan: Scan) -> ScanWork:
    """Row groups of ``table`` that may matter to ``scan``."""
    wanted = [c for c in dict.fromkeys(scan.columns) if c]
    keep = RowGroupFilter(scan)
    return ScanWork(
        tuple(
            [
                Piece(file, group.first_row, group.rows, _bytes(group.column_bytes, wanted))
                for file in table.files
                for group in file.row_groups
                if keep.may_match(group)
            ]
        )
    )


def _bytes(columns: Mapping[str, int], wanted: Sequence[str]) -> float:
    return float(sum([columns.get(name, 0) for name in wanted]))


class ScanWorks:
    """The work of scans, each looked for once: one plan asks for it several times."""

    def __init__(self) -> None:
        self._kept: dict[object, ScanWork] = {}

    def of(self, table: TableMeta, scan: Scan) -> ScanWork:
        key = (table.name, scan.columns, scan.filters, scan.hints)
        known = self._kept.get(key)
        if known is None:
            known = self._kept[key] = scan_work(table, scan)
        return known


def whole_table(table: TableMeta) -> tuple[FileSlice, ...]:
    """All of a table's files, read whole."""
    return tuple(
        FileSlice(
            path=file.path,
            size=file.size,
            version=file.version,
            rows=file.rows,
            bytes=sum(sum(group.column_bytes.values()) for group in file.row_groups),
            reader=file.reader,
            values=file.values,
            deletes=_deletes(file),
        )
        for file in table.files
    )


def _cut_rows(pieces: Sequence[Piece], tasks: int) -> tuple[Piece, ...]:
    """Pieces cut further, at even row counts, so that there are ``tasks`` (or one a row)."""
    total = sum(p.rows for p in pieces)
    count = min(tasks, total)
    bounds = [total * i // count for i in range(1, count)] if count else []
    parts: list[Piece] = []
    passed = 0
    for piece in pieces:
        inside = [b - passed for b in bounds if passed < b < passed + piece.rows]
        edges = [0, *inside, piece.rows]
        parts += [piece.part(a, b) for a, b in pairwise(edges)]
        passed += piece.rows
    return tuple(parts)


def _even_runs(pieces: Sequence[Piece], tasks: int) -> list[Sequence[Piece]]:
    """Neighbouring pieces in at most ``tasks`` runs of about equal weight, none empty."""
    weights = [piece.weight for piece in pieces]
    runs: list[Sequence[Piece]] = []
    weight, place, end = sum(weights), 0, len(pieces)
    while place < end:
        left = tasks - len(runs)
        first, share, taken = place, weight / left, 0.0
        # A piece belongs to this run if half of it or more is within the share, and each later run
        # still finds one.
        while place < end and (
            place == first
            or left == 1
            or (taken + weights[place] / 2 <= share and end - place >= left)
        ):
            taken += weights[place]
            place += 1
        weight -= taken
        runs.append(pieces[first:place])
    return runs


def _slices(run: Sequence[Piece]) -> tuple[FileSlice, ...]:
    """A run as file slices: neighbours joined, whole files said so."""
    slices: list[FileSlice] = []
    last = run[0]
    for piece in run[1:]:
        if last.file.path == piece.file.path and last.first + last.rows == piece.first:
            last = Piece(last.file, last.first, last.rows + piece.rows, last.bytes + piece.bytes)
        else:
            slices.append(_slice(last))
            last = piece
    return (*slices, _slice(last))


def _slice(piece: Piece) -> FileSlice:
    file = piece.file
    whole = piece.first == 0 and piece.rows == file.rows
    return FileSlice(
        path=file.path,
        size=file.size,
        version=file.version,
        first=piece.first,
        last=-1 if whole else piece.first + piece.rows - 1,
        rows=piece.rows,
        bytes=round(piece.bytes),
        reader=file.reader,
        values=file.values,
        deletes=_deletes(file),
    )


def _deletes(file: FileMeta) -> tuple[Deletes, ...]:
    return tuple(
        Deletes(path=each.path, size=each.size, version=each.version, target=each.target)
        for each in file.deletes
    )
