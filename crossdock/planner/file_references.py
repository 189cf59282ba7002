"""Files named inside a statement become tables: ``FROM 'x.parquet'``, ``read_csv([...])``.

Each gets a generated name that no other table or WITH entry of the statement has, and keeps the
alias under which DuckDB would know its columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossdock.catalog import ReadOptions
from crossdock.catalog.options import SYNONYMS, supported_options
from crossdock.formats import Format, format_of
from crossdock.planner.sql_errors import sql_error
from crossdock.planner.sql_text import quote_literal
from crossdock.planner.statements import FILE_FUNCTIONS, position_of
from crossdock.planner.syntax import Node, arguments, function_name, table_path

_OTHER_FORMATS = (
    *(".txt", ".avro", ".orc", ".xlsx"),
    *(".arrow", ".feather", ".db", ".duckdb", ".sqlite", ".vortex"),
)
_COMPRESSED = (".gz", ".zst", ".bz2", ".xz")
_ENDINGS = r"(\.(parquet|parq|pq|csv|tsv|json|jsonl|ndjson))?(\.(gz|zst))?$"
#: What a table reference says beside its name and alias.
_KEPT = ("column_name_alias", "sample")
_FLAGS = ("hive_partitioning", "union_by_name")


@dataclass(frozen=True, slots=True)
class FileReference:
    """What a statement names: paths, folders or globs, and how to read them."""

    sources: tuple[str, ...]
    options: ReadOptions
    alias: str  # what DuckDB would call it without an alias
    stem: str  # what its generated name starts with


class FileReferences:
    """Gives the file references of one statement their names.

    Args:
        sql: the statement, for errors.
        known: lower-case names of tables and WITH entries, which win over files.
        values: parameters by identifier.
    """

    def __init__(
        self,
        sql: str,
        known: frozenset[str],
        values: Mapping[str, Any],
    ) -> None:
        self._sql = sql
        self._known = known
        self._values = values
        self._taken = set(known)
        self.named: dict[FileReference, str] = {}

    def change(self, node: Node) -> Node | None:
        """The table reference that takes the place of ``node``; None if it names no file.

        Raises:
            SqlError: files of other formats, options or arguments that are not supported.
        """
        kind = node.get("type")
        if kind == "BASE_TABLE":
            found = self._named_file(node)
        elif kind == "TABLE_FUNCTION" and function_name(node["function"]) in FILE_FUNCTIONS:
            found = self._function(node)
        else:
            return None
        return self._table(node, found) if found else None

    def _named_file(self, node: Node) -> FileReference | None:
        path = table_path(node)
        name = ".".join(path)
        if (len(path) == 1 and name.lower() in self._known) or not self._is_file(name, node):
            return None
        wild = any(c in name for c in "*?[")
        return FileReference(
            sources=(name,),
            options=ReadOptions(),
            alias=name if wild else _alias(name),
            stem=_stem(name),
        )

    def _is_file(self, name: str, node: Node) -> bool:
        lower = name.lower()
        for ending in _COMPRESSED:
            lower = lower.removesuffix(ending)
        if lower.endswith(_OTHER_FORMATS):
            raise self._error(f"cannot read {name}: only Parquet, CSV and JSON are read", node)
        return format_of(name) is not None or "/" in name or "*" in name

    def _function(self, node: Node) -> FileReference:
        name = function_name(node["function"])
        if node.get("with_ordinality", "WITHOUT_ORDINALITY") != "WITHOUT_ORDINALITY":
            raise self._error(f"WITH ORDINALITY over {name}() is not supported yet", node)
        positional, options = [], {}
        for argument in node["function"].get("arguments", ()):
            expression = argument["expression"]
            key, value = _option(argument.get("name", ""), expression)
            if key:
                options[key] = value
            else:
                positional.append(expression)
        if len(positional) != 1:
            raise self._error(f"{name}() takes one path or one list of paths", node)
        sources = self._paths(name, positional[0], node)
        return FileReference(
            sources, self._read_options(name, options, node), alias=name, stem=_stem(sources[0])
        )

    def _read_options(self, function: str, given: Mapping[str, Node], node: Node) -> ReadOptions:
        kind = _format_of_function(function)
        known = () if kind is Format.PARQUET else supported_options(kind)
        flags: dict[str, bool] = {}
        texts: dict[str, str] = {}
        if function.startswith("read_ndjson"):
            texts["format"] = quote_literal("newline_delimited")
        for option, value in given.items():
            if option in _FLAGS:
                flags[option] = self._flag(function, option, value, node)
            elif option in known:
                texts[SYNONYMS.get(option, option)] = self._text(function, option, value, node)
            else:
                supported = ", ".join(sorted({*_FLAGS, *known}))
                raise self._error(
                    f"{function}(): the option {option} is not supported; these are: {supported}",
                    node,
                )
        return ReadOptions(format=kind, options=tuple(sorted(texts.items())), **flags)

    def _flag(self, function: str, option: str, value: Node, node: Node) -> bool:
        constant = self._constant(value)
        if str(constant).lower() not in ("true", "false", "1", "0"):
            raise self._error(f"{function}(): {option} must be true or false", node)
        return str(constant).lower() in ("true", "1")

    def _text(self, function: str, option: str, value: Node, node: Node) -> str:
        """An option's value as SQL text: constants, lists and structs of them."""
        called = function_name(value)
        if called == "list_value":
            items = [self._text(function, option, item, node) for item in arguments(value)]
            return f"[{', '.join(items)}]"
        if called == "struct_pack":
            pairs = [
                f"{quote_literal(str(argument['name']))}: "
                + self._text(function, option, argument["expression"], node)
                for argument in value.get("arguments", ())
            ]
            return f"{{{', '.join(pairs)}}}"
        constant = self._constant(value)
        if constant is None:
            raise self._error(f"{function}(): {option} must be written as a constant", node)
        if isinstance(constant, bool | int | float):
            return str(constant).lower()
        kind = value.get("literal", {}).get("kind", "STRING")
        return quote_literal(str(constant)) if kind == "STRING" else str(constant)

    def _paths(self, function: str, expression: Node, node: Node) -> tuple[str, ...]:
        if function_name(expression) == "list_value":
            values: Any = [self._constant(item) for item in arguments(expression)]
        else:
            values = self._constant(expression)
        paths = [values] if isinstance(values, str) else values
        if not isinstance(paths, list | tuple) or not all(isinstance(p, str) for p in paths):
            raise self._error(f"{function}(): paths must be written as texts", node)
        if not paths:
            raise self._error(f"{function}(): the list of paths is empty", node)
        return tuple(paths)

    def _constant(self, expression: Node) -> Any:
        """Value of a constant or parameter; None for anything else."""
        if expression.get("class") == "PARAMETER":
            return self._values.get(expression["identifier"])
        if expression.get("class") == "CONSTANT":
            return expression["literal"].get("text", "")
        if expression.get("class") == "CAST":  # true is written CAST('t' AS BOOLEAN) in some forms
            return self._constant(expression["child"])
        return None

    def _table(self, node: Node, found: FileReference) -> Node:
        name = self.named.get(found)
        if name is None:
            name = self._free_name(found.stem)
            self.named[found] = name
        alias = node.get("alias") or (found.alias if found.alias.lower() != name.lower() else "")
        table: Node = {"type": "BASE_TABLE", "table_name": name, "qualified_name": {"path": [name]}}
        if alias:
            table["alias"] = alias
        return table | {key: node[key] for key in _KEPT if key in node}

    def _free_name(self, stem: str) -> str:
        name, number = stem, 1
        while name.lower() in self._taken:
            number += 1
            name = f"{stem}_{number}"
        self._taken.add(name.lower())
        return name

    def _error(self, reason: str, node: Node) -> Exception:
        return sql_error(reason, self._sql, position_of(node))


def _format_of_function(name: str) -> Format:
    if "parquet" in name:
        return Format.PARQUET
    if "iceberg" in name:
        return Format.ICEBERG
    return Format.CSV if "csv" in name else Format.JSON


def _option(name: str, expression: Node) -> tuple[str, Node]:
    """Key and value of ``key := value`` and ``key = value`` arguments; "" for a plain one."""
    if name:
        return name.lower(), expression
    if expression.get("type") == "COMPARE_EQUAL":
        left = expression["left"]
        if left.get("class") == "COLUMN_REF":
            return str(left["column_names"][-1]).lower(), expression["right"]
    return "", expression


def _alias(name: str) -> str:
    """DuckDB's: the file's name without its endings, that of a compression included."""
    base = Path(name).name
    for ending in _COMPRESSED:
        base = base.removesuffix(ending)
    return Path(base).stem


def _stem(source: str) -> str:
    """A readable name: the file's, or the last folder's that holds no wildcard."""
    for part in reversed(Path(source).parts):
        cleaned = re.sub(_ENDINGS, "", part, flags=re.IGNORECASE).strip("/ ")
        if cleaned and not any(c in cleaned for c in "*?[") and cleaned not in (".", ".."):
            return cleaned
    return "files"
