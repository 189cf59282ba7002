"""The tables a connection knows, and how a name becomes files, columns and statistics."""

from __future__ import annotations

import difflib
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock

import pyarrow as pa

from crossdock.catalog.arrow_tables import write_arrow_table
from crossdock.catalog.footers import Footer, FooterCache
from crossdock.catalog.foreign import ForeignTables
from crossdock.catalog.iceberg import IcebergTables
from crossdock.catalog.options import AUTOMATIC, ReadOptions, read_options
from crossdock.catalog.partitions import PartitionValues
from crossdock.catalog.places import Places
from crossdock.catalog.registry import FileRegistry
from crossdock.catalog.schemas import Schema, read_schema
from crossdock.catalog.sources import FoundFile
from crossdock.catalog.tables import TableMeta
from crossdock.catalog.text_tables import TextTables
from crossdock.catalog.written import WrittenFiles
from crossdock.databases import Database, Wanted
from crossdock.errors import TableError
from crossdock.formats import Format, format_of
from crossdock.remote_files import RemoteFiles
from crossdock.tables import Entry, Kind, Registry, WrittenTable, WrittenTables, entry_key

Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | pa.Table


class Catalog:
    """Tables of one connection: those of ``<home>/tables.json`` and those added in memory.

    Names ignore case; an in-memory table hides a persistent one. Every look lists the files again,
    so new, changed and removed files are seen; unchanged footers and schemas are not read again.

    Args:
        home: folder of the persistent entries; None: in memory only.
        scratch: where Arrow tables are written; None: a temporary one that ends with it.
        registry: where persistent entries are kept, instead of in ``home``.
        remote: reads files behind URLs; None: there are none.
        local: whether files of this machine may be read.
        written: tables that statements made; they hide entries of their name.
        database: tables of another catalog; whatever has the same name here hides them.
    """

    def __init__(
        self,
        home: Path | None = None,
        *,
        scratch: Path | None = None,
        registry: Registry | None = None,
        remote: RemoteFiles | None = None,
        local: bool = True,
        written: WrittenTables | None = None,
        database: Database | None = None,
    ) -> None:
        self._written = written
        self._registry = registry or (FileRegistry(home) if home else None)
        self._scratch = scratch
        self._places = Places(remote=remote, local=local)
        self._removal: weakref.finalize[..., Catalog] | None = None
        self._memory: dict[str, Entry] = {}
        self._footers = FooterCache(remote=remote)
        self._written_files = WrittenFiles(
            lambda paths: self._places.find(paths, Path.cwd(), Format.PARQUET), self._footers
        )
        self._texts = TextTables(remote)
        self._partitions = PartitionValues()
        self._iceberg = IcebergTables(remote, local=local)
        self._schemas: dict[tuple[object, ...], Schema] = {}
        self._lock = Lock()
        self._foreign = (
            ForeignTables(database, self._places, self._footers, self._types_of)
            if database
            else None
        )

    # -- names -------------------------------------------------------------------------------------

    def names(self) -> tuple[str, ...]:
        """Table names as written, sorted."""
        return tuple(sorted(entry.name for entry in self._of(Kind.TABLE).values()))

    def has(self, name: str) -> bool:
        return name.lower() in self._of(Kind.TABLE)

    def sources(self, name: str) -> tuple[str, ...]:
        """Paths and globs the table was named with. Raises ``TableError``: unknown name."""
        entry = self._entry(name)
        if entry.foreign and self._foreign is not None:
            return (f"{self._foreign.title}/{entry.name}",)
        written = self._written_table(entry)
        return written.paths if written else entry.sources

    def add(
        self,
        name: str,
        source: Source,
        *,
        persistent: bool = False,
        format: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> TableMeta:
        """Name a table, replacing one of that name; it is read once, so errors show here.

        Args:
            name: what statements call it.
            source: file, folder, glob, several of them, or an Arrow table.
            persistent: whether later connections know it too.
            format: ``parquet``, ``csv`` or ``json``, where files' names do not say it.
            options: of DuckDB's reader of CSV or JSON: ``{"delim": ";"}``.

        Raises:
            TableError: a source cannot be read, or an Arrow table cannot be kept.
        """
        if not isinstance(name, str) or not name.strip():
            raise TableError(f"a table needs a name, not {name!r}")
        if name.lower() in self._of(Kind.VIEW):
            raise TableError(f"{name} is a view; DROP VIEW it first")
        sources = self._sources(name, source, persistent)
        wanted = read_options(sources, format, options or {})
        entry = Entry(name=name, sources=sources, format=wanted.format, options=wanted.options)
        meta = self._read_entry(entry)
        self._put(entry, persistent=persistent)
        return meta

    def remove(self, name: str) -> None:
        """Forget a table; its files stay. Raises ``TableError``: unknown name."""
        entry = self._entry(name)
        if entry.foreign and self._foreign is not None:
            raise TableError(f"table {name} is kept in {self._foreign.title}; remove it there")
        self._remove(entry)

    def _put(self, entry: Entry, *, persistent: bool) -> None:
        if not persistent:
            self._memory[entry.key] = entry
        elif self._registry is None:
            raise TableError("this catalog keeps nothing: it has no home folder")
        else:
            self._registry.put(entry)
            if self._written is not None and entry.kind is not Kind.MACRO:
                self._written.drop(entry.name)

    def _remove(self, entry: Entry) -> None:
        if self._memory.pop(entry.key, None) is not None:
            return
        dropped = entry.written and self._written is not None and self._written.drop(entry.name)
        if not dropped and self._registry is not None:
            self._registry.remove(entry.key)

    # -- views and macros --------------------------------------------------------------------------

    def views(self) -> Mapping[str, Entry]:
        """By lower-case name."""
        return self._of(Kind.VIEW)

    def macros(self) -> Mapping[str, Entry]:
        """By lower-case name."""
        return self._of(Kind.MACRO)

    def define(self, entry: Entry, *, persistent: bool) -> None:
        """Keep a view or macro, replacing one of that name. It is not looked at."""
        self._put(entry, persistent=persistent)

    def undefine(self, kind: Kind, name: str) -> bool:
        """Forget a table, view or macro; whether there was one."""
        entry = self._entries().get(entry_key(kind, name))
        if entry is None or entry.kind is not kind:
            return False
        self._remove(entry)
        return True

    # -- reading -----------------------------------------------------------------------------------

    def get(self, name: str) -> TableMeta:
        """The table as its files are now.

        Raises:
            TableError: unknown name (with the nearest known), or files that cannot be read.
        """
        entry = self._entry(name)
        if entry.foreign:
            return self._read_foreign(entry.name, None)
        written = self._written_table(entry)
        return self._written_files.read(written) if written else self._read_entry(entry)

    def look(self, name: str) -> TableMeta:
        """As ``get``, but of a table whose partitions another catalog keeps the columns alone.

        ``narrowed`` gives its files, once it is known which partitions a statement wants.
        """
        entry = self._entry(name)
        if not entry.foreign or self._foreign is None:
            return self.get(name)
        table = self._foreign.get(entry.name)
        if not table.keys:
            return self._read_foreign(entry.name, None)
        return self._foreign.outline(table)

    def narrowed(self, name: str, wanted: Wanted) -> TableMeta:
        """The table with the files that may be ``wanted``. Raises as ``get``."""
        return self._read_foreign(name, wanted)

    def describe(self, name: str) -> TableMeta:
        """Same as ``get``; the word of the command line."""
        return self.get(name)

    def read(
        self,
        name: str,
        sources: Sequence[str],
        options: ReadOptions = AUTOMATIC,
    ) -> TableMeta:
        """Read files that need not be in the catalog, as table ``name``."""
        if options.format is Format.ICEBERG:
            return self._iceberg.read(name, sources, dict(options.options))
        found = self._places.find(sources, Path.cwd(), options.format or Format.PARQUET)
        kind = options.format or _format_of(name, found)
        if kind is not Format.PARQUET:
            return self._texts.read(name, found, kind, options)
        footers = self._footers.read(found)
        schema = self._schema(found, footers, options)
        return TableMeta(
            name=name,
            columns=schema.columns,
            files=self._partitions.of([footer.file for footer in footers], schema.hive_types),
            union_by_name=schema.union_by_name,
            hive_types=schema.hive_types,
        )

    def is_written(self, name: str) -> bool:
        """Whether statements made the table. Raises ``TableError``: unknown name."""
        return self._entry(name).written

    def _read_entry(self, entry: Entry) -> TableMeta:
        options = ReadOptions(format=entry.format, options=entry.options)
        return self.read(entry.name, entry.sources, options)

    def _read_foreign(self, name: str, wanted: Wanted) -> TableMeta:
        if self._foreign is None:
            raise TableError(f"no table is named {name}")
        table = self._foreign.get(name)
        if table.metadata:
            return self._iceberg.read(table.name, [table.metadata], {})
        return self._foreign.read(table, wanted)

    def _types_of(
        self, found: Sequence[FoundFile], footers: Sequence[Footer]
    ) -> dict[str, dict[str, str]]:
        """DuckDB's types of the files' columns, by lower-case name, for each distinct footer."""
        types: dict[str, dict[str, str]] = {}
        plain = ReadOptions(hive_partitioning=False)
        for file, footer in zip(found, footers, strict=True):
            if footer.schema not in types:
                schema = self._schema([file], [footer], plain)
                types[footer.schema] = {c.name.lower(): c.type for c in schema.columns}
        return types

    def _written_table(self, entry: Entry) -> WrittenTable | None:
        if not entry.written or self._written is None:
            return None
        found = self._written.get(entry.name)
        if found is None:
            raise TableError(f"table {entry.name} was dropped meanwhile")
        return found

    def nearest(self, name: str) -> tuple[str, ...]:
        """Up to three known names of tables and views that resemble ``name``."""
        entries = self._entries().values()
        known = {each.key: each.name for each in entries if each.kind is not Kind.MACRO}
        close = difflib.get_close_matches(name.lower(), list(known), n=3, cutoff=0.5)
        return tuple(known[entry] for entry in close)

    def close(self) -> None:
        """Remove the temporary folder of Arrow tables, if one was made."""
        if self._removal is not None:
            self._removal()
            self._scratch = self._removal = None

    def _schema(
        self, found: Sequence[FoundFile], footers: Sequence[Footer], options: ReadOptions
    ) -> Schema:
        distinct: dict[str, str] = {}
        for footer in footers:
            distinct.setdefault(footer.schema, footer.file.path)
        key = (options, tuple(file.path for file in found), tuple(distinct))
        with self._lock:
            known = self._schemas.get(key)
        if known is None:
            with self._places.stand_ins(found, list(distinct.values())) as (paths, shown):
                known = read_schema(
                    paths,
                    shown,
                    hive=options.hive_partitioning,
                    union=options.union_by_name,
                )
            with self._lock:
                self._schemas[key] = known
        return known

    # -- entries -----------------------------------------------------------------------------------

    def _entries(self) -> dict[str, Entry]:
        persistent = self._registry.entries() if self._registry else {}
        names = self._written.names().values() if self._written else ()
        written = {each.key: each for each in (Entry(name=n, written=True) for n in names)}
        return {**self._foreign_entries(), **persistent, **written, **self._memory}

    def _foreign_entries(self) -> dict[str, Entry]:
        names = self._foreign.names().values() if self._foreign else ()
        return {each.key: each for each in (Entry(name=n, foreign=True) for n in names)}

    def _of(self, kind: Kind) -> dict[str, Entry]:
        found = self._entries().values()
        return {entry.name.lower(): entry for entry in found if entry.kind is kind}

    def _entry(self, name: str) -> Entry:
        entry = self._entries().get(name.lower())
        if entry is not None and entry.kind is not Kind.TABLE:
            raise TableError(f"{name} is a {entry.kind}, which has no files; ask it by SQL")
        if entry is None:
            close = self.nearest(name)
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            raise TableError(f"no table is named {name}{hint}")
        return entry

    def _sources(self, name: str, source: Source, persistent: bool) -> tuple[str, ...]:
        if isinstance(source, pa.Table):
            if persistent:
                raise TableError(f"table {name}: an Arrow table ends with its connection")
            return (str(write_arrow_table(source, self._folder(), name)),)
        paths = [source] if isinstance(source, str | os.PathLike) else source
        try:
            return tuple(_absolute(os.fspath(path)) for path in paths)
        except TypeError as error:
            raise TableError(
                f"table {name}: a path, a glob, a folder, a list of them or a pyarrow.Table is "
                f"wanted, not {source!r}"
            ) from error

    def _folder(self) -> Path:
        if self._scratch is None:
            folder = tempfile.mkdtemp(prefix="crossdock-tables-")
            self._removal = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._scratch = Path(folder)
        return self._scratch


def _format_of(name: str, found: Sequence[FoundFile]) -> Format:
    """What the files' names say; of one that says nothing, Parquet."""
    kinds = {format_of(file.path) or Format.PARQUET: file.path for file in found}
    if len(kinds) > 1:
        (first, one), (second, other), *_ = kinds.items()
        raise TableError(
            f"table {name} is of two formats: {one} is {first.words}, {other} is {second.words}"
        )
    return next(iter(kinds))


def _absolute(source: str) -> str:
    """Sources are kept absolute: a later look may come from another working directory."""
    if "://" in source:
        return source
    return os.path.normpath(Path.cwd() / Path(source).expanduser())
