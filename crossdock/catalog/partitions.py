"""Values of ``key=value`` folders, as statistics: what they rule out is not read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

import duckdb

from crossdock.catalog.tables import ColumnStats, FileMeta, RowGroupMeta
from crossdock.partition_folders import partition_value

#: Tables whose files are kept with their values, while they stay the same.
_KEPT = 64

Types = tuple[tuple[str, str], ...]  # (key, DuckDB's type)


class PartitionValues:
    """Adds the values of partition folders to files' statistics. Threads may share it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, ...], tuple[FileMeta, ...]] = OrderedDict()
        self._lock = Lock()

    def of(self, files: Sequence[FileMeta], types: Types) -> tuple[FileMeta, ...]:
        """``files`` with the values of ``types``; a file's own column of that name is hidden."""
        if not types:
            return tuple(files)
        key = (
            types,
            tuple((each.path, each.size, each.version, each.reader, each.values) for each in files),
        )
        with self._lock:
            known = self._kept.get(key)
        if known is None:
            known = _with_values(files, types)
        with self._lock:
            self._kept[key] = known
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return known


def _with_values(files: Sequence[FileMeta], types: Types) -> tuple[FileMeta, ...]:
    texts = {
        key: [
            file.values[number] if file.values else partition_value(key, file.path)
            for file in files
        ]
        for number, (key, _) in enumerate(types)
    }
    values = {key: _typed(texts[key], kind) for key, kind in types}
    hidden = {key.lower() for key, _ in types}
    found = []
    for number, file in enumerate(files):
        own = {key: (texts[key][number], values[key]) for key, _ in types}
        groups = tuple(_group(group, own, hidden) for group in file.row_groups)
        found.append(replace(file, row_groups=groups))
    return tuple(found)


def _group(
    group: RowGroupMeta,
    values: Mapping[str, tuple[str | None, Mapping[str, Any]]],
    hidden: set[str],
) -> RowGroupMeta:
    stats = {name: each for name, each in group.stats.items() if name.lower() not in hidden}
    for key, (text, typed) in values.items():
        if text is None:
            stats[key] = ColumnStats(minimum=None, maximum=None, nulls=group.rows)
        elif (value := typed.get(text)) is not None:
            stats[key] = ColumnStats(minimum=value, maximum=value, nulls=0)
    return replace(group, stats=stats)


def _typed(texts: Iterable[str | None], kind: str) -> dict[str, Any]:
    """Values by text, as the engine casts them; without those that it cannot."""
    wanted = sorted({text for text in texts if text is not None})
    with duckdb.connect(config={"threads": 1}) as connection:
        rows = connection.execute(
            f"SELECT text, TRY_CAST(text AS {kind}) FROM unnest($1::VARCHAR[]) AS given(text)",
            [wanted],
        ).fetchall()
    return {text: value for text, value in rows if value is not None}
