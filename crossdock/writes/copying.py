"""COPY: what its options say, checked by DuckDB, and where its files go."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb

from crossdock.errors import SqlError
from crossdock.planner.plan import Existing, ResultColumn, Write, WriteKind
from crossdock.planner.sql_text import quote_identifier
from crossdock.remote_files import SCHEME
from crossdock.writes.header import Copy
from crossdock.writes.tokens import TokenReader, string_of

#: By name of the format: what a target ends in that is one file, and files of a folder.
_ENDINGS = {"parquet": ("parquet", "parq", "pq"), "csv": ("csv", "tsv"), "json": ("json", "ndjson")}
_COMPRESSED = {"gzip": "gz", "zstd": "zst"}
_FORMATS = {"PARQUET": "parquet", "CSV": "csv", "JSON": "json"}
#: Options that say what is done, not what files are like.
_OWN = frozenset(
    {
        *("FORMAT", "PARTITION_BY", "OVERWRITE", "OVERWRITE_OR_IGNORE", "APPEND"),
        *("FILE_EXTENSION", "PER_THREAD_OUTPUT"),
    }
)
_REFUSED = {
    "FILENAME_PATTERN": "file names carry query, task and attempt",
    "FILE_SIZE_BYTES": "each task writes a file; choose partitions or split sizes instead",
    "ENCRYPTION_CONFIG": "keys cannot travel with a plan",
    "RETURN_FILES": "a statement that writes answers a count",
    "RETURN_STATS": "a statement that writes answers a count",
    "USE_TMP_FILE": "no file is seen before the commit",
    "PRESERVE_ORDER": "ORDER BY in the query keeps its order",
    "HIVE_FILE_PATTERN": "partition folders are named as Hive names them",
}


class CopyTarget:
    """One COPY statement's target. Raises ``SqlError`` for what cannot be written."""

    def __init__(self, header: Copy, columns: Sequence[ResultColumn], *, local: bool) -> None:
        self._header = header
        self._columns = tuple(columns)
        self._local = local
        self._options = _by_name(header.options)
        for name, reason in _REFUSED.items():
            if name in self._options:
                raise SqlError(f"COPY: the option {name} is not supported: {reason}")

    def write(self) -> Write:
        """What the plan is to say."""
        self._let_duckdb_check()
        one_file = self._is_one_file()
        return Write(
            kind=WriteKind.FILES,
            target=self._place(),
            columns=self._columns,
            existing=self._existing(one_file),
            format=self._format,
            ending=self._ending(),
            options=", ".join(
                f"{name} {value}".strip()
                for name, value in self._header.options
                if name not in _OWN
            ),
            partition_by=self._partition_by(),
            one_file=one_file,
        )

    def refuse_present(self, present: Sequence[str]) -> None:
        """Raises ``SqlError`` if files are there, and nothing says what is to be done."""
        refusal = refusal_of(self._header.target, self._existing(self._is_one_file()), present)
        if refusal:
            raise SqlError(refusal)

    @property
    def _format(self) -> str:
        given = self._options.get("FORMAT", "").strip("'\"").upper()
        if given:
            if given not in _FORMATS:
                raise SqlError(
                    f"COPY: the format {given.lower()} is not supported; write parquet, csv or json"
                )
            return _FORMATS[given]
        last = _bare_name(self._header.target).rpartition(".")[2].lower()
        return next((name for name, endings in _ENDINGS.items() if last in endings), "csv")

    def _ending(self) -> str:
        if given := self._options.get("FILE_EXTENSION", "").strip("'"):
            return given.lstrip(".")
        packed = self._options.get("COMPRESSION", "").strip("'").lower()
        if self._format != "parquet" and packed in _COMPRESSED:
            return f"{self._format}.{_COMPRESSED[packed]}"
        return self._format

    def _is_one_file(self) -> bool:
        """As DuckDB has it, a name with an ending is a file, unless files are asked for."""
        if "PARTITION_BY" in self._options or self._flag("PER_THREAD_OUTPUT"):
            return False
        target = self._header.target
        if target.endswith("/") or (SCHEME not in target and Path(target).expanduser().is_dir()):
            return False
        last = _bare_name(target).rpartition(".")[2].lower()
        return "." in _bare_name(target) and last in {e for each in _ENDINGS.values() for e in each}

    def _existing(self, one_file: bool) -> Existing:
        adding = self._flag("APPEND") or self._flag("OVERWRITE_OR_IGNORE")
        if self._flag("OVERWRITE") or (one_file and self._flag("OVERWRITE_OR_IGNORE")):
            return Existing.REPLACE
        if one_file and adding:
            raise SqlError("COPY: rows cannot be appended to a file; name a folder")
        return Existing.ADD if adding else Existing.REFUSE

    def _place(self) -> str:
        target = self._header.target
        if target.startswith(SCHEME):
            bucket, _, key = target.removeprefix(SCHEME).partition("/")
            if not bucket or not key.strip("/"):
                raise SqlError(
                    f"COPY: {target} must name a bucket and a prefix: s3://bucket/prefix"
                )
            return target.rstrip("/")
        if "://" in target:
            raise SqlError(f"COPY: cannot write to {target}; a folder or s3://bucket/prefix can be")
        if not self._local:
            raise SqlError(f"COPY: cannot write to {target} from here; name s3://bucket/prefix")
        return os.path.normpath(Path.cwd() / Path(target).expanduser())

    def _partition_by(self) -> tuple[str, ...]:
        if "PARTITION_BY" not in self._options:
            return ()
        by_name = {column.name.lower(): column.name for column in self._columns}
        reader = TokenReader(self._options["PARTITION_BY"])
        found: list[str] = []
        while reader.word:
            token = reader.take()
            if token.text == "*":
                return tuple(column.name for column in self._columns)
            if token.text not in "(),":
                found.append(by_name[(string_of(token) or token.name).lower()])
        return tuple(found)

    def _flag(self, name: str) -> bool:
        value = self._options.get(name)
        return value is not None and value.strip("'").lower() in ("", "true", "1", "on")

    def _let_duckdb_check(self) -> None:
        """Names, values and columns of the options; nothing is run."""
        items = ", ".join(
            f"CAST(NULL AS {column.type}) AS {quote_identifier(column.name)}"
            for column in self._columns
        )
        given = [(name, value) for name, value in self._header.options if name != "FORMAT"]
        options = ", ".join(f"{name} {value}".strip() for name, value in given)
        form = f"FORMAT {self._format}" + (f", {options}" if options else "")
        with duckdb.connect(
            config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
        ) as engine:
            try:
                engine.execute(f"EXPLAIN COPY (SELECT {items}) TO 'crossdock' ({form})")
            except duckdb.Error as error:
                reason = str(error).partition("Error: ")[2] or str(error)
                raise SqlError(f"COPY: {reason.split(chr(10) + chr(10) + 'LINE ')[0]}") from error


def refusal_of(target: str, existing: Existing, present: Sequence[str]) -> str:
    """Why nothing is written beside or over ``present``; "" if something may be."""
    if not present or existing is not Existing.REFUSE:
        return ""
    if present == [""]:
        return f"{target} exists already; OVERWRITE true replaces it"
    count = "a file is" if len(present) == 1 else f"{len(present)} files are"
    return (
        f"{target} is not empty: {count} there already, such as {present[0] or target}; "
        "OVERWRITE true replaces them, APPEND true adds to them"
    )


def _bare_name(target: str) -> str:
    name = target.rstrip("/").rpartition("/")[2]
    for ending in _COMPRESSED.values():
        name = name.removesuffix(f".{ending}")
    return name


def _by_name(options: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name, value in options:
        if name in found:
            raise SqlError(f"COPY: the option {name} is given twice")
        found[name] = value
    return found
