"""Strict reading of plan JSON: whatever is not expected raises ``Unsupported`` and is named.

A field the decoder does not know may change what a node means. Guessing gives wrong rows, so the
query then runs as one task on the user's own text instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crossdock.errors import Unsupported

#: JSON objects of the engine; only this package sees them.
Json = dict[str, Any]

#: Names and positions of the user's text: no part of a plan's meaning.
COSMETIC = frozenset({"alias", "query_location", "query_location_length"})

#: What the engine writes for an absent member when it is asked not to skip any.
_ABSENT: tuple[object, ...] = (None, "", [], {})


@dataclass(frozen=True)
class Shape:
    """What one kind of JSON object may hold.

    ``fields`` are read by the decoder or hold nothing a plan's meaning depends on. ``fixed`` may
    only have the values listed: another would mean something the decoder does not restore.
    """

    kind: str
    fields: frozenset[str]
    fixed: Mapping[str, tuple[object, ...]] = field(default_factory=dict)

    def check(self, node: Json) -> None:
        """Raise ``Unsupported`` naming the first field or value that is not expected."""
        for name in sorted(node.keys() - self.fields):
            value = node[name]
            if name in COSMETIC or value in _ABSENT or value in self.fixed.get(name, ()):
                continue
            raise Unsupported(f"{self.kind}: unexpected {name} = {brief(value)}")


def shape(kind: str, fields: str, **fixed: tuple[object, ...]) -> Shape:
    """``fields`` is a space-separated list."""
    return Shape(kind, frozenset(fields.split()) | COSMETIC, fixed)


def brief(value: object) -> str:
    """The value's text, cut to what fits a reason."""
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def require(node: Json, name: str, kind: str) -> Any:
    """The member, which must be there. Raises ``Unsupported`` otherwise."""
    value = node.get(name)
    if value is None:
        raise Unsupported(f"{kind}: {name} is missing")
    return value


def one_of(table: Mapping[str, str], value: Any, kind: str) -> str:
    """Translate an enum member. Raises ``Unsupported`` for one that is not in the table."""
    try:
        return table[value]
    except (KeyError, TypeError):
        raise Unsupported(f"{kind} {brief(value)}") from None
