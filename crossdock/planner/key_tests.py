"""What a statement wants of partition keys, read from its plan before any file is looked for."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from crossdock.databases import KeyTest, KeyValue, Wanted
from crossdock.planner.distribute.drafts import leaves
from crossdock.planner.literals import literal_value
from crossdock.planner.nodes import (
    Between,
    ColumnRef,
    Comparison,
    Conjunction,
    Constant,
    Expression,
    Operator,
    Relation,
    Scan,
)

if TYPE_CHECKING:
    from crossdock.catalog import TableMeta

_Operator = Literal["=", "<", "<=", ">", ">="]
_OPERATORS: dict[str, _Operator] = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_FLIPPED: dict[str, _Operator] = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def wanted_partitions(relation: Relation, table: TableMeta) -> Wanted:
    """Tests of the table's partition keys, for each scan of it; None if a scan has none."""
    keys = {key.lower() for key, _ in table.hive_types}
    scans = [
        each for each in leaves(relation) if isinstance(each, Scan) and each.table == table.name
    ]
    alternatives = [tuple(_tests(scan, (*scan.filters, *scan.hints), keys)) for scan in scans]
    return tuple(alternatives) if alternatives and all(alternatives) else None


def _tests(scan: Scan, predicates: Iterable[Expression], keys: set[str]) -> list[KeyTest]:
    """Those of the predicates, which all hold, that are about a key."""
    found = []
    for predicate in predicates:
        match predicate:
            case Conjunction("AND", children):
                found += _tests(scan, children, keys)
            case Comparison(operator, ColumnRef() as column, Constant() as value):
                found += _test(scan, column, _OPERATORS.get(operator), [value], keys)
            case Comparison(operator, Constant() as value, ColumnRef() as column):
                found += _test(scan, column, _FLIPPED.get(operator), [value], keys)
            case Between(ColumnRef() as column, Constant() as low, Constant() as high):
                found += _test(scan, column, ">=", [low], keys)
                found += _test(scan, column, "<=", [high], keys)
            case Operator("IN", (ColumnRef() as column, *values)):
                constants = [value for value in values if isinstance(value, Constant)]
                if len(constants) == len(values):
                    found += _test(scan, column, "IN", constants, keys)
    return found


def _test(
    scan: Scan,
    column: ColumnRef,
    operator: _Operator | Literal["IN"] | None,
    constants: list[Constant],
    keys: set[str],
) -> list[KeyTest]:
    name = scan.columns[column.index].lower()
    if operator is None or name not in keys:
        return []
    values: list[KeyValue] = []
    for constant in constants:
        value = literal_value(constant)
        same = constant.type == scan.column_types[column.index]
        if not same or isinstance(value, datetime) or not isinstance(value, KeyValue):
            return []
        values.append(value)
    return [KeyTest(name, operator, tuple(values))]
