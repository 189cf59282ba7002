"""Type JSON to DuckDB's own type text."""

from __future__ import annotations

from collections.abc import Callable

from crossdock.errors import Unsupported
from crossdock.planner.decode.strict import Json, shape
from crossdock.planner.sql_text import optionally_quoted, quote_literal

NULL_TYPE = '"NULL"'

#: Types without parameters, whose id is their text.
_PLAIN_NAMES = """
    BOOLEAN TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT
    FLOAT DOUBLE VARCHAR BLOB BIT BIGNUM DATE TIME TIME_NS TIMESTAMP TIMESTAMP_S TIMESTAMP_MS
    TIMESTAMP_NS INTERVAL UUID GEOMETRY
"""
_PLAIN = frozenset(_PLAIN_NAMES.split()) | {"TIME WITH TIME ZONE", "TIMESTAMP WITH TIME ZONE"}

_TYPE = shape("type", "id type_info")
_DECIMAL = shape("DECIMAL", "type width scale")
_NESTED = shape("nested type", "type child_type")
_STRUCT = shape("STRUCT", "type child_types")
_ARRAY = shape("ARRAY", "type child_type size")
_ENUM = shape("ENUM", "type values values_count")


def type_text(node: Json) -> str:
    """DuckDB's text of a type. Raises ``Unsupported`` for one it has no exact text for."""
    info = node.get("type_info")
    if len(node) != 1:
        _TYPE.check(node)
    if not info:
        name: str = node["id"]
        if name in _PLAIN:
            return name
        if name == "NULL":
            return NULL_TYPE
        raise Unsupported(f"type {name}")
    alias = info.get("alias", "")
    if alias:
        return _aliased(node["id"], info, alias)
    build = _DETAILED.get(node["id"])
    if build is None:
        raise Unsupported(f"type {node['id']} with {info.get('type')}")
    return build(info)


def struct_fields(node: Json) -> list[tuple[str, Json]]:
    """(name, type) of each field of a STRUCT, TUPLE or UNION type."""
    children = (node.get("type_info") or {}).get("child_types") or []
    return [(child.get("first", ""), child["second"]) for child in children]


def element_type(node: Json) -> Json:
    """Type of the elements of a LIST, ARRAY or MAP type."""
    element: Json = node["type_info"]["child_type"]
    return element


def _aliased(name: str, info: Json, alias: str) -> str:
    if name == "VARCHAR" and alias == "JSON" and info.get("type") == "GENERIC_TYPE_INFO":
        return "JSON"
    raise Unsupported(f"type {alias} (a named {name})")


def _string(info: Json) -> str:
    # the binder resolved collations into function calls; in a type they would apply once more
    return "VARCHAR"


def _decimal(info: Json) -> str:
    _DECIMAL.check(info)
    return f"DECIMAL({info.get('width', 0)},{info.get('scale', 0)})"


def _list(info: Json) -> str:
    _NESTED.check(info)
    return f"{type_text(info['child_type'])}[]"


def _array(info: Json) -> str:
    _ARRAY.check(info)
    return f"{type_text(info['child_type'])}[{info['size']}]"


def _fields(children: list[Json]) -> str:
    return ", ".join(
        f"{optionally_quoted(child.get('first', ''))} {type_text(child['second'])}"
        for child in children
    )


def _struct(info: Json) -> str:
    _STRUCT.check(info)
    children = info.get("child_types") or []
    if any(not child.get("first") for child in children):
        raise Unsupported("STRUCT with unnamed fields")
    return f"STRUCT({_fields(children)})"


def _tuple(info: Json) -> str:
    _STRUCT.check(info)
    return f"TUPLE({', '.join(type_text(c['second']) for c in info.get('child_types') or [])})"


def _union(info: Json) -> str:
    _STRUCT.check(info)
    return f"UNION({_fields(info['child_types'][1:])})"  # the first is the tag


def _map(info: Json) -> str:
    _NESTED.check(info)
    key, value = info["child_type"]["type_info"]["child_types"]
    return f"MAP({type_text(key['second'])}, {type_text(value['second'])})"


def _enum(info: Json) -> str:
    _ENUM.check(info)
    return f"ENUM({', '.join(map(quote_literal, info.get('values') or []))})"


def _variant(info: Json) -> str:
    return "VARIANT"


_DETAILED: dict[str, Callable[[Json], str]] = {
    "VARCHAR": _string,
    "DECIMAL": _decimal,
    "LIST": _list,
    "ARRAY": _array,
    "STRUCT": _struct,
    "TUPLE": _tuple,
    "UNION": _union,
    "MAP": _map,
    "ENUM": _enum,
    "VARIANT": _variant,
}
