"""Tables of another catalog: columns as it declares them, files where it says they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from crossdock.catalog.footers import Footer, FooterCache
from crossdock.catalog.partitions import PartitionValues
from crossdock.catalog.places import Places
from crossdock.catalog.sources import FoundFile
from crossdock.catalog.tables import ColumnMeta, FileMeta, RowGroupMeta, TableMeta, TextReader
from crossdock.databases import Database, ForeignPartition, ForeignTable, Storage, Wanted
from crossdock.errors import TableError
from crossdock.formats import Format, compression_of

#: Of a table whose partitions were not looked for yet: enough to be planned like one with rows.
_OUTLINE_ROWS = 1_000
#: Bytes of a row of text, guessed: nobody looked.
_TEXT_ROW = 100
_WHOLE_NUMBERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
)
#: Types of the columns of Parquet files, by name in lower case, for each footer.
TypesOf = Callable[[Sequence[FoundFile], Sequence[Footer]], Mapping[str, Mapping[str, str]]]


class ForeignTables:
    """Reads tables of a database."""

    def __init__(
        self, database: Database, places: Places, footers: FooterCache, types_of: TypesOf
    ) -> None:
        self._database = database
        self._places = places
        self._footers = footers
        self._types_of = types_of
        self._values = PartitionValues()

    @property
    def title(self) -> str:
        return self._database.title

    def names(self) -> Mapping[str, str]:
        """Names as written, by lower-case name."""
        return self._database.names()

    def get(self, name: str) -> ForeignTable:
        """Raises ``TableError``: there is no such table any more, or it cannot be read."""
        found = self._database.get(name)
        if found is None:
            raise TableError(f"table {name} is not in {self.title} any more")
        return found

    def outline(self, table: ForeignTable) -> TableMeta:
        """Its columns, and no files: for a plan that tells which partitions are wanted."""
        rows = FileMeta(path="", size=0, version="", rows=_OUTLINE_ROWS, row_groups=())
        return replace(self._meta(table, ()), files=(rows,), outline_of=table.name)

    def read(self, table: ForeignTable, wanted: Wanted) -> TableMeta:
        """With the files of the wanted partitions. Raises ``TableError``."""
        assert table.storage is not None
        if not table.keys:
            return self._meta(table, [ForeignPartition(values=(), storage=table.storage)])
        return self._meta(table, self._database.partitions(table, wanted))

    def _meta(self, table: ForeignTable, partitions: Sequence[ForeignPartition]) -> TableMeta:
        assert table.storage is not None
        readers: dict[TextReader, int] = {}
        files: list[FileMeta] = []
        for partition in partitions:
            if partition.storage.format is not table.storage.format:
                raise TableError(
                    f"table {table.name}: the partition {partition.storage.location} is "
                    f"{partition.storage.format.words}, the table {table.storage.format.words}"
                )
        if table.storage.format is Format.PARQUET:
            files = self._parquet(table, partitions)
        else:
            files = self._texts(table, partitions, readers)
        return TableMeta(
            name=table.name,
            columns=tuple(
                ColumnMeta(name=name, type=kind) for name, kind in (*table.columns, *table.keys)
            ),
            files=self._values.of(files, table.keys),
            union_by_name=True,
            hive_types=table.keys,
            format=table.storage.format,
            readers=tuple(readers),
        )

    def _found(self, storage: Storage) -> Sequence[FoundFile]:
        return self._places.find_all(storage.location, Path.cwd())

    # -- Parquet -----------------------------------------------------------------------------------

    def _parquet(
        self, table: ForeignTable, partitions: Sequence[ForeignPartition]
    ) -> list[FileMeta]:
        pairs = [(file, each) for each in partitions for file in self._found(each.storage)]
        found = [file for file, _ in pairs]
        footers = self._footers.read(found)
        types = self._types_of(found, footers)
        declared = {name.lower(): (name, kind) for name, kind in table.columns}
        return [
            replace(
                footer.file,
                values=partition.values,
                row_groups=tuple(
                    _declared(group, declared, types[footer.schema])
                    for group in footer.file.row_groups
                ),
            )
            for (_, partition), footer in zip(pairs, footers, strict=True)
        ]

    # -- CSV and JSON ------------------------------------------------------------------------------

    def _texts(
        self,
        table: ForeignTable,
        partitions: Sequence[ForeignPartition],
        readers: dict[TextReader, int],
    ) -> list[FileMeta]:
        names = tuple(name for name, _ in table.columns)
        files = []
        for partition in partitions:
            for file in self._found(partition.storage):
                reader = _reader(partition.storage, names, file.path)
                number = readers.setdefault(reader, len(readers))
                files.append(_text_file(file, number, partition.values, names))
        return files


def _declared(
    group: RowGroupMeta, declared: Mapping[str, tuple[str, str]], types: Mapping[str, str]
) -> RowGroupMeta:
    """Under the declared names; without statistics of what is cast to another type when read."""
    sizes = {
        declared.get(name.lower(), (name, ""))[0]: size for name, size in group.column_bytes.items()
    }
    stats = {}
    for own, found in group.stats.items():
        name, kind = declared.get(own.lower(), ("", ""))
        stored = types.get(own.lower(), "")
        if name and (stored == kind or {stored, kind} <= _WHOLE_NUMBERS):
            stats[name] = found
    return replace(group, column_bytes=sizes, stats=stats)


def _reader(storage: Storage, names: tuple[str, ...], path: str) -> TextReader:
    options = {**dict(storage.options), "compression": f"'{compression_of(path)}'"}
    return TextReader(
        names=names if storage.format is Format.CSV else (),
        options=tuple(sorted(options.items())),
    )


def _text_file(
    file: FoundFile, reader: int, values: tuple[str | None, ...], names: Sequence[str]
) -> FileMeta:
    rows = max(1, file.size // _TEXT_ROW)
    share = file.size // max(1, len(names))
    group = RowGroupMeta(first_row=0, rows=rows, column_bytes=dict.fromkeys(names, share), stats={})
    return FileMeta(
        path=file.path,
        size=file.size,
        version=str(file.version),
        rows=rows,
        row_groups=(group,),
        reader=reader,
        values=values,
    )
