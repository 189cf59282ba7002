"""Records as DynamoDB items and back; expressions from changes and named conditions.

Every field of a record that is not None is an attribute of its own name: conditions compare them
and updates count on them, so even a default must be there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from boto3.dynamodb.types import TypeSerializer

from coordinator_state.changes import Append, Changes, Increment, Tally
from coordinator_state.records import TaskRecord

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef

    Item = dict[str, AttributeValueTypeDef]

R = TypeVar("R", bound=msgspec.Struct)

_serialize = TypeSerializer().serialize

_NAME = re.compile(r"#(\w+)")
_VALUE = re.compile(r":(\w+)")
_CONSTANTS: Mapping[str, object] = {"true": True, "false": False, "empty": "", "zero": 0}

_BOUND = "bound"


@dataclass(frozen=True, slots=True)
class Update:
    """An update expression and the values it names."""

    expression: str
    values: Mapping[str, object]


def update_of(changes: Changes) -> Update:
    """One expression that makes ``changes``."""
    assign: list[str] = []
    remove: list[str] = []
    values: dict[str, object] = {}
    for field, change in changes.items():
        token = f"new_{field}"
        if change is None:
            remove.append(f"#{field}")
            continue
        if isinstance(change, Increment):
            assign.append(f"#{field} = #{field} + :{token}")
            values[token] = change.by
        elif isinstance(change, Append):
            assign.append(f"#{field} = list_append(#{field}, :{token})")
            values[token] = list(change.items)
        elif isinstance(change, Tally):
            for kind, count in change.counts.items():
                counter = f"#{field}.#{kind}"
                assign.append(f"{counter} = if_not_exists({counter}, :zero) + :{kind}")
                values[kind] = count
        else:
            assign.append(f"#{field} = :{token}")
            values[token] = change if field != _BOUND else pack_bound(_bound(change))
    parts = [f"SET {', '.join(assign)}"] if assign else []
    parts += [f"REMOVE {', '.join(remove)}"] if remove else []
    return Update(" ".join(parts), values)


def names_in(*expressions: str) -> dict[str, str]:
    """ExpressionAttributeNames: ``#name`` stands for itself, so none clashes with a keyword."""
    return {f"#{name}": name for text in expressions for name in _NAME.findall(text)}


def values_in(expressions: Iterable[str], values: Mapping[str, object]) -> Item:
    """ExpressionAttributeValues; a token in capitals stands for its own text."""
    found: Item = {}
    for token in (token for text in expressions for token in _VALUE.findall(text)):
        if token in values:
            found[f":{token}"] = serialize(values[token])
        elif token in _CONSTANTS:
            found[f":{token}"] = serialize(_CONSTANTS[token])
        elif token.isupper():
            found[f":{token}"] = serialize(token)
        else:
            raise KeyError(f"no value for :{token}")
    return found


def serialize(value: object) -> AttributeValueTypeDef:
    return _serialize(_plain(msgspec.to_builtins(value)))


def _plain(value: object) -> object:
    """Floats as decimals, which is what numbers are in DynamoDB."""
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _native(typed: Mapping[str, Any]) -> object:
    """What ``TypeDeserializer`` makes of a value, but numbers as int or float.

    Through decimals, decoding was most of a coordinator's look at a stage of many tasks.
    """
    ((kind, value),) = typed.items()
    if kind == "N":
        return float(value) if "." in value or "E" in value else int(value)
    if kind == "L":
        return [_native(inner) for inner in value]
    if kind == "M":
        return {key: _native(inner) for key, inner in value.items()}
    return None if kind == "NULL" else value


def encode(record: msgspec.Struct) -> Item:
    """The record's attributes, without its keys."""
    item: Item = {}
    for field in record.__struct_fields__:
        value = getattr(record, field)
        if value is None:
            continue
        item[field] = serialize(pack_bound(value) if field == _BOUND else value)
    return item


def attributes(item: Item) -> dict[str, object]:
    """The item in Python's own types."""
    return {name: _native(value) for name, value in item.items()}


def decode(item: Item, record: type[R]) -> R:
    """The item as a record; keys and other attributes beside the record's are passed over."""
    values = attributes(item)
    if record is TaskRecord:
        values[_BOUND] = unpack_bound(str(values.get(_BOUND, "")))
    return msgspec.convert(values, record)


# -- bound inputs ------------------------------------------------------------------------------
# A consumer of a thousand producers names a thousand attempts, nearly always the first of each.
# As runs ("stage:first-last@attempt") they keep the item under the 1 KB that a write is billed by.
Bound = tuple[tuple[int, int, int], ...]


def _bound(value: object) -> Bound:
    return msgspec.convert(value, Bound)


def pack_bound(bound: Bound) -> str:
    """Runs of neighbouring tasks bound at one attempt; sorted, so order is not kept."""
    runs: list[str] = []
    keyed = enumerate(sorted(bound, key=lambda b: (b[0], b[2], b[1])))
    for _, group in groupby(keyed, key=lambda e: (e[1][0], e[1][2], e[1][1] - e[0])):
        members = [entry for _, entry in group]
        (stage, first, attempt), last = members[0], members[-1][1]
        runs.append(f"{stage}:{first}-{last}@{attempt}")
    return ",".join(runs)


def unpack_bound(text: str) -> Bound:
    """What ``pack_bound`` packed, sorted."""
    bound: list[tuple[int, int, int]] = []
    for run in filter(None, text.split(",")):
        stage, indexes, attempt = re.split("[:@]", run)
        first, last = indexes.split("-")
        bound += [(int(stage), i, int(attempt)) for i in range(int(first), int(last) + 1)]
    return tuple(sorted(bound))
