"""Tables of CSV and JSON files."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from crossdock.catalog.heads import Head, Heads
from crossdock.catalog.options import ReadOptions
from crossdock.catalog.partitions import PartitionValues
from crossdock.catalog.sources import FoundFile
from crossdock.catalog.tables import FileMeta, RowGroupMeta, TableMeta
from crossdock.catalog.texts import TextSchema, read_text_schema
from crossdock.formats import Format, compression_of
from crossdock.remote_files import RemoteFiles

#: Tables whose schemas are kept while their files stay the same.
_KEPT = 64


class TextTables:
    """What can be known of CSV and JSON files before a query; read once while they are the same."""

    def __init__(self, remote: RemoteFiles | None) -> None:
        self._heads = Heads(remote)
        self._partitions = PartitionValues()
        self._kept: OrderedDict[tuple[object, ...], TableMeta] = OrderedDict()
        self._lock = Lock()

    def read(
        self, name: str, found: Sequence[FoundFile], kind: Format, options: ReadOptions
    ) -> TableMeta:
        """The table of ``found``. Raises ``TableError`` naming a file that cannot be read."""
        key = (name, kind, options, tuple(found))
        with self._lock:
            known = self._kept.get(key)
        if known is None:
            known = self._read(name, found, kind, options)
        with self._lock:
            self._kept[key] = known
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return known

    def _read(
        self, name: str, found: Sequence[FoundFile], kind: Format, options: ReadOptions
    ) -> TableMeta:
        given = dict(options.options)
        asked = given.get("compression", "").strip("'").lower()
        compressions = [
            asked if asked not in ("", "auto") else compression_of(file.path) for file in found
        ]
        with self._heads.of(found, kind, compressions) as heads:
            text = read_text_schema(
                kind,
                heads,
                compressions,
                given,
                hive=options.hive_partitioning,
                union=options.union_by_name,
            )
        files = self._partitions.of(_files(found, heads, text), text.schema.hive_types)
        return TableMeta(
            name=name,
            columns=text.schema.columns,
            files=files,
            union_by_name=True,
            hive_types=text.schema.hive_types,
            format=kind,
            readers=text.readers,
        )


def _files(
    found: Sequence[FoundFile],
    heads: Sequence[Head],
    text: TextSchema,
) -> tuple[FileMeta, ...]:
    hive = {key for key, _ in text.schema.hive_types}
    names = [column.name for column in text.schema.columns if column.name not in hive]
    return tuple(
        FileMeta(
            path=file.path,
            size=file.size,
            version=str(file.version),
            rows=head.rows,
            row_groups=_rows(file, head, names),
            reader=number,
        )
        for file, head, number in zip(found, heads, text.reader_of, strict=True)
    )


def _rows(file: FoundFile, head: Head, names: Sequence[str]) -> tuple[RowGroupMeta, ...]:
    """All of a text as one group: it is read whole, whatever columns are asked for."""
    if not head.rows:
        return ()
    share = file.size // max(1, len(names))
    return (
        RowGroupMeta(
            first_row=0, rows=head.rows, column_bytes=dict.fromkeys(names, share), stats={}
        ),
    )
