"""LOGICAL_GET: scans of catalog tables and file-less table functions."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from crossdock.errors import Unsupported
from crossdock.planner.decode.constants import decode_constant
from crossdock.planner.decode.functions import struct_path
from crossdock.planner.decode.strict import Json, brief, require, shape
from crossdock.planner.decode.table_filters import FilterColumn, decode_hints, decode_table_filters
from crossdock.planner.decode.types import type_text
from crossdock.planner.nodes import ColumnRef, Project, Relation, Scan, TableFunction

_GET = shape(
    "LOGICAL_GET",
    "type children table_index returned_types names projection_ids table_filters arguments qname "
    "has_serialize positional_arguments function_data parameters named_parameters "
    "input_table_types input_table_names projected_input column_indexes extra_info "
    "source_ordinality",
    table_filters_by_projection=(True,),
    ordinality_idx=(2**64 - 1,),
    has_pushed_projection=(False,),
)
_EXTRA = shape(
    "scan information",
    "",
    total_files=(2**64 - 1,),
    filtered_files=(2**64 - 1,),
)
_TABLE = shape(
    "seq_scan",
    "catalog table qualified_name",
    schema=("main",),
    is_index_scan=(False,),
    is_create_index=(False,),
)
_COLUMN = shape("column of a scan", "index child_indexes index_type type", has_index=(True,))
_FIRST_VIRTUAL = 2**63
_FUNCTIONS = frozenset({"range", "generate_series", "repeat"})


def decode_get(node: Json) -> Relation:
    """A scan, with a projection above it if fields of structs were pushed into it."""
    _GET.check(node)
    _EXTRA.check(node.get("extra_info") or {})
    name = node["qname"]["path"][-1]
    for field in ("children", "named_parameters", "projected_input"):
        if node.get(field):
            raise Unsupported(f"table function {name} with {field}")
    if name == "seq_scan":
        return _table_scan(node)
    if name in _FUNCTIONS:
        return _table_function(name, node)
    raise Unsupported(f"table function {name}")


def _table_scan(node: Json) -> Relation:
    data = require(node, "function_data", "seq_scan")
    _TABLE.check(data)
    reader = _Columns(node)
    reads = tuple([reader.read(column) for column in node.get("column_indexes") or ()])
    filters = decode_table_filters(node.get("table_filters") or {}, reads)
    hints = decode_hints(node.get("table_filters") or {}, reads)
    if "" in reader.names and _reads_placeholder(filters, reader.names):
        raise Unsupported("row identifiers (rowid) of a table")
    positions = node.get("projection_ids") or range(len(reads))
    outputs = [reads[position].expression for position in positions]
    names, types = tuple(reader.names), tuple(reader.types)
    if all(isinstance(output, ColumnRef) for output in outputs):
        emit = tuple([output.index for output in outputs if isinstance(output, ColumnRef)])
        return Scan(data["table"], names, types, filters, emit, hints=hints)
    if "" in reader.names:
        raise Unsupported("row identifiers (rowid) of a table")
    scan = Scan(data["table"], names, types, filters, tuple(range(len(names))), hints=hints)
    return Project(scan, tuple(outputs))


def _reads_placeholder(part: object, names: list[str]) -> bool:
    """True if an expression reads the column that stands for no column at all."""
    if isinstance(part, ColumnRef):
        return names[part.index] == ""
    if isinstance(part, tuple):
        return any(_reads_placeholder(item, names) for item in part)
    if is_dataclass(part):
        return any(_reads_placeholder(getattr(part, f.name), names) for f in fields(part))
    return False


class _Columns:
    """Collects the columns a scan reads, each once."""

    def __init__(self, node: Json) -> None:
        self.names: list[str] = []
        self.types: list[str] = []
        self._node = node
        self._position: dict[int, int] = {}

    def read(self, column: Json) -> FilterColumn:
        """What one entry of column_indexes yields: a column, or a field of a struct column."""
        _COLUMN.check(column)
        index = column.get("index", 0)
        position = self._add(index)
        reference = ColumnRef(position, self.types[position])
        if index >= _FIRST_VIRTUAL:
            return FilterColumn(reference, {"id": "BIGINT"})
        type_node: Json = self._node["returned_types"][index]
        how = column.get("index_type", "FULL_READ")
        if how == "PUSHDOWN_EXTRACT":
            return FilterColumn(*struct_path(reference, type_node, _field_path(column)))
        if how not in {"FULL_READ", "OPTIONAL_PRUNE_HINT"}:
            raise Unsupported(f"column of a scan read as {brief(how)}")
        return FilterColumn(reference, type_node)

    def _add(self, index: int) -> int:
        if index not in self._position:
            virtual = index >= _FIRST_VIRTUAL
            self._position[index] = len(self.names)
            self.names.append("" if virtual else self._node["names"][index])
            self.types.append(
                "BIGINT" if virtual else type_text(self._node["returned_types"][index])
            )
        return self._position[index]


def _field_path(column: Json) -> list[int]:
    path: list[int] = []
    children = column.get("child_indexes")
    while children:
        (child,) = children
        path.append(child.get("index", 0))
        children = child.get("child_indexes")
    return path


def _table_function(name: str, node: Json) -> Relation:
    if node.get("function_data"):
        raise Unsupported(f"table function {name} with bound data")
    types = tuple([type_text(type_node) for type_node in node["returned_types"]])
    indexes = [_plain_index(name, column) for column in node.get("column_indexes") or ()]
    reads = tuple(
        [FilterColumn(ColumnRef(i, types[i]), node["returned_types"][i]) for i in indexes]
    )
    positions = node.get("projection_ids") or range(len(indexes))
    return TableFunction(
        name,
        tuple([decode_constant(value) for value in node.get("parameters") or ()]),
        tuple(node["names"]),
        types,
        decode_table_filters(node.get("table_filters") or {}, reads),
        tuple([indexes[position] for position in positions]),
    )


def _plain_index(name: str, column: Json) -> int:
    _COLUMN.check(column)
    index: int = column.get("index", 0)
    if index >= _FIRST_VIRTUAL or column.get("index_type", "FULL_READ") != "FULL_READ":
        raise Unsupported(f"virtual columns of table function {name}")
    return index
