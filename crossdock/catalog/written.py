"""Tables that statements wrote: files that never change, and what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from crossdock.catalog.footers import FooterCache
from crossdock.catalog.sources import FoundFile
from crossdock.catalog.tables import ColumnMeta, FileMeta, TableMeta
from crossdock.tables import WrittenTable

#: Files looked at, at once.
_LOOKERS = 16
#: Types that a file holds as they are: of all others its statistics are of another type.
_PLAIN = frozenset(
    {
        *("TINYINT", "SMALLINT", "INTEGER", "BIGINT"),
        *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "DECIMAL"),
        *("VARCHAR", "DATE", "TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"),
    }
)


class WrittenFiles:
    """Reads written tables. A file is looked at once a process: its object never changes."""

    def __init__(
        self, find: Callable[[Sequence[str]], Sequence[FoundFile]], footers: FooterCache
    ) -> None:
        """``find`` looks at files by their paths or URLs."""
        self._find = find
        self._footers = footers
        self._found: dict[str, FoundFile] = {}

    def read(self, table: WrittenTable) -> TableMeta:
        """With the types it was made with. Raises ``TableError`` for a file that is gone."""
        columns = tuple(ColumnMeta(name=name, type=kind) for name, kind in table.columns)
        plain = {column.name for column in columns if column.type.partition("(")[0] in _PLAIN}
        footers = self._footers.read(self._looked_at(table.paths))
        return TableMeta(
            name=table.name,
            columns=columns,
            files=tuple(_with_statistics_of(footer.file, plain) for footer in footers),
            carried=True,
        )

    def _looked_at(self, paths: Sequence[str]) -> Sequence[FoundFile]:
        missing = [path for path in paths if path not in self._found]
        if missing:
            with ThreadPoolExecutor(_LOOKERS, thread_name_prefix="look") as pool:
                looked = pool.map(lambda path: self._find([path])[0], missing)
                self._found.update(zip(missing, looked, strict=True))
        return [self._found[path] for path in paths]


def _with_statistics_of(file: FileMeta, names: set[str]) -> FileMeta:
    groups = tuple(
        replace(group, stats={name: s for name, s in group.stats.items() if name in names})
        for group in file.row_groups
    )
    return replace(file, row_groups=groups)
