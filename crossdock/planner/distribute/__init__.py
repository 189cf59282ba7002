"""Placing exchanges on a decoded relation.

``distribute`` walks the relation bottom-up. Each rule takes its placed children and says where the
rows of its own output are: in one task, along the splits of scans, or hashed by known keys. It adds
an exchange only where its operator needs rows that are not together yet, so operators on the same
keys share a stage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from crossdock.errors import Unsupported
from crossdock.planner.distribute.aggregates import place_aggregate
from crossdock.planner.distribute.context import Context
from crossdock.planner.distribute.ctes import place_cte, place_cte_ref
from crossdock.planner.distribute.drafts import Placed, Sheet, StageDraft
from crossdock.planner.distribute.exchange import close, gathered
from crossdock.planner.distribute.joins import place_asof_join, place_cross_product, place_join
from crossdock.planner.distribute.limits import (
    place_limit,
    place_order,
    place_sample,
    place_top_n,
)
from crossdock.planner.distribute.local import place_positional_join, place_recursive_cte
from crossdock.planner.distribute.rowwise import (
    place_constant,
    place_expression_rows,
    place_filter,
    place_project,
    place_unnest,
)
from crossdock.planner.distribute.scans import place_scan
from crossdock.planner.distribute.sets import place_distinct, place_set_operation
from crossdock.planner.distribute.windows import place_window
from crossdock.planner.nodes import (
    Aggregate,
    AsofJoin,
    CrossProduct,
    Cte,
    CteRef,
    Distinct,
    ExpressionRows,
    Filter,
    Join,
    Limit,
    OneRow,
    Order,
    PositionalJoin,
    Project,
    RecursiveCte,
    Relation,
    Sample,
    Scan,
    SetOperation,
    TableFunction,
    TopN,
    Unnest,
    Values,
    Window,
)
from crossdock.planner.options import PlannerOptions
from crossdock.planner.splits import ScanWorks

if TYPE_CHECKING:
    from crossdock.catalog import TableMeta

__all__ = ["Sheet", "StageDraft", "distribute"]

Rule = Callable[[Context, Any], Placed]

_RULES: dict[type[Any], Rule] = {
    Aggregate: place_aggregate,
    AsofJoin: place_asof_join,
    CrossProduct: place_cross_product,
    Cte: place_cte,
    CteRef: place_cte_ref,
    Distinct: place_distinct,
    ExpressionRows: place_expression_rows,
    Filter: place_filter,
    Join: place_join,
    Limit: place_limit,
    OneRow: place_constant,
    Order: place_order,
    PositionalJoin: place_positional_join,
    Project: place_project,
    RecursiveCte: place_recursive_cte,
    Sample: place_sample,
    Scan: place_scan,
    SetOperation: place_set_operation,
    TableFunction: place_constant,
    TopN: place_top_n,
    Unnest: place_unnest,
    Values: place_constant,
    Window: place_window,
}


def distribute(
    relation: Relation,
    tables: Mapping[str, TableMeta],
    options: PlannerOptions,
    works: ScanWorks,
) -> tuple[StageDraft, Sheet]:
    """The final stage, and all drafts it leads to. Raises Unsupported for what has no rule."""

    def place(node: Relation) -> Placed:
        rule = _RULES.get(type(node))
        if rule is None:
            raise Unsupported(f"no distributed form of {type(node).__name__}")
        return rule(context, node)

    context = Context(options, tables, place, works)
    placed = place(relation)
    if placed.is_pending or options.one_output:
        placed = gathered(context, placed, "one file of output" if options.one_output else "")
    return close(placed), context.sheet
