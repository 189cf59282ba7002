"""Plans of one task: the statement's own text over whole tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import duckdb

from crossdock.planner.distribute.drafts import leaves
from crossdock.planner.nodes import Relation, Scan
from crossdock.planner.plan import CarriedColumn, Stage, StagePlan
from crossdock.planner.splits import ScanWorks
from crossdock.planner.stages import whole_scan

if TYPE_CHECKING:
    from crossdock.catalog import TableMeta
    from crossdock.planner.binder import BoundStatement


def one_task_plan(bound: BoundStatement, size: int, reason: str = "") -> StagePlan:
    """One stage, one task, no edges. ``reason`` is set where distribution was not possible."""
    reasons = (reason,) if reason else ()
    stage = Stage(
        stage=0,
        fragment=bound.sql,
        columns=tuple(CarriedColumn(type=column.type) for column in bound.columns),
        tasks=1,
        scans=tuple(whole_scan(name, bound.tables[name]) for name in sorted(bound.tables)),
        deterministic=not bound.volatile,
        ordered=True,
        label="whole statement",
        reasons=reasons,
    )
    return StagePlan(
        engine=duckdb.__version__,
        sql=bound.original,
        columns=bound.columns,
        stages=(stage,),
        session=bound.session,
        one_task=True,
        scanned_bytes=size,
        notes=reasons,
    )


def scanned_bytes(relation: Relation, tables: Mapping[str, TableMeta], works: ScanWorks) -> int:
    """Column bytes a statement reads, row groups ruled out by statistics not counted."""
    return round(
        sum(
            works.of(tables[leaf.table], leaf).bytes
            for leaf in leaves(relation)
            if isinstance(leaf, Scan) and leaf.table in tables
        )
    )


def whole_bytes(bound: BoundStatement) -> int:
    """Bytes of all columns of all tables, when it is not known which are read."""
    return sum(
        sum(group.column_bytes.values())
        for table in bound.tables.values()
        for file in table.files
        for group in file.row_groups
    )
