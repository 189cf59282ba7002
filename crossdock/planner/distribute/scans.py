"""Scans: one split a task, or one task for a table too small to cut."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from crossdock.planner import cost
from crossdock.planner.distribute.column_facts import ColumnFacts
from crossdock.planner.distribute.context import Context
from crossdock.planner.distribute.drafts import Placed, ScanDraft
from crossdock.planner.distribute.partitioning import ONE, SPLIT
from crossdock.planner.nodes import Scan
from crossdock.planner.splits import ScanWork

if TYPE_CHECKING:
    from crossdock.catalog import TableMeta

_LONGEST_CODE_BITS = 14
#: Types whose range bounds how many distinct values there are, with values per number of range.
_COUNTABLE = {
    "TINYINT": 1.0,
    "SMALLINT": 1.0,
    "INTEGER": 1.0,
    "BIGINT": 1.0,
    "UTINYINT": 1.0,
    "USMALLINT": 1.0,
    "UINTEGER": 1.0,
    "UBIGINT": 1.0,
    "DATE": 1.0 / 86400.0,
}


def place_scan(context: Context, node: Scan) -> Placed:
    table = context.table(node.table)
    work = context.works.of(table, node)
    whole = work.natural_tasks(context.options) == 1
    name = context.sheet.new_name("scan")
    context.sheet.scans[name] = ScanDraft(node, work, whole)
    size = _estimate(context, table, node, work)
    return Placed(replace(node, source=name), ONE if whole else SPLIT, size)


def _estimate(context: Context, table: TableMeta, scan: Scan, work: ScanWork) -> cost.Estimate:
    """Rows and columns a scan gives, after its filters."""
    rows = float(work.rows)
    columns = tuple(
        _column(context.facts(table, name), type_text, rows)
        for name, type_text in zip(scan.columns, scan.column_types, strict=True)
    )
    kept = cost.filtered(cost.Estimate(rows, columns), scan.filters)
    return kept.emitted(scan.emit)


def _column(facts: ColumnFacts, type_text: str, rows: float) -> cost.ColumnEstimate:
    plain = cost.column_of(type_text)
    if facts.stored is None:
        return plain
    # Dictionary and run-length codes are lost once rows are shuffled; half the plain width is not.
    column = replace(
        plain,
        width=max(facts.stored, plain.width / 2),
        distinct=plain.distinct or _coded_values(facts.stored, rows),
    )
    if not facts.complete:
        return column
    low, high, distinct = facts.low, facts.high, column.distinct
    if low is not None and high is not None and type_text in _COUNTABLE:
        distinct = min((high - low) * _COUNTABLE[type_text] + 1.0, max(rows, 1.0))
    return cost.ColumnEstimate(column.width, distinct, low, high, facts.may_be_null)


def _coded_values(stored_width: float, rows: float) -> float | None:
    """Distinct values a column so narrow in the file can have, if it is dictionary coded.

    A code of n bits tells 2^n values apart; a few more are granted for compression of the codes.
    Wide columns tell nothing.
    """
    bits = stored_width * 8
    return min(2.0**bits * 8, max(rows, 1.0)) if bits <= _LONGEST_CODE_BITS else None
