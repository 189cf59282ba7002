"""Relations to SELECT statements, one small function a node."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from crossdock.errors import Unsupported
from crossdock.planner.nodes import (
    Aggregate,
    AsofJoin,
    CrossProduct,
    Cte,
    CteRef,
    Distinct,
    ExpressionRows,
    Filter,
    FinalAggregate,
    Input,
    Join,
    Limit,
    LimitBound,
    OneRow,
    Order,
    PartialAggregate,
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
from crossdock.planner.render import aggregates, joins
from crossdock.planner.render.expressions import (
    function_text,
    render_conjunction,
    render_expression,
    render_list,
    render_sort_keys,
)
from crossdock.planner.render.names import Names, Source, select
from crossdock.planner.sql_text import quote_identifier

#: What WITH clauses define; a table of such a name would be hidden by them.
_OWN_NAMES = re.compile(r"(?:cte_\d+|limited_t\d+|rows_t\d+)\Z", re.IGNORECASE)


def render_relation(relation: Relation, names: Names) -> str:
    """The SELECT of ``relation``. Raises ``Unsupported`` for a node without a text form."""
    write = _WRITERS.get(type(relation))
    if write is None:
        raise Unsupported(f"relation {type(relation).__name__}")
    return write(relation, names)


def render_source(relation: Relation, names: Names) -> Source:
    """``relation`` as a subselect under a fresh alias."""
    text = render_relation(relation, names)
    alias = names.alias()
    return Source(f"({text}) AS {alias}", alias)


def _where(predicates: str) -> str:
    return f" WHERE {predicates}" if predicates else ""


def _scan(scan: Scan, names: Names) -> str:
    alias = names.alias()
    columns = [
        f"{alias}.{quote_identifier(name)}" if name else f"CAST(1 AS {type_name})"
        for name, type_name in zip(scan.columns, scan.column_types, strict=True)
    ]
    table = scan.source or scan.table
    if _OWN_NAMES.match(table):
        raise Unsupported(f"a table named {table}, as subqueries are named here")
    source = f"{quote_identifier(table)} AS {alias}"
    predicates = render_conjunction(scan.filters, columns.__getitem__)
    return select([columns[i] for i in scan.emit], source) + _where(predicates)


def _input(relation: Input, names: Names) -> str:
    alias = names.alias()
    source = Source(f"{quote_identifier(relation.name)} AS {alias}", alias)
    return select(source.columns(range(len(relation.types))), source.text)


def _filter(relation: Filter, names: Names) -> str:
    source = render_source(relation.child, names)
    predicates = render_conjunction(relation.predicates, source.column)
    return select(source.columns(relation.emit), source.text) + _where(predicates)


def _project(relation: Project, names: Names) -> str:
    source = render_source(relation.child, names)
    columns = [render_expression(e, source.column) for e in relation.expressions]
    return select(columns, source.text)


def _window(relation: Window, names: Names) -> str:
    source = render_source(relation.child, names)
    columns = source.columns(range(len(relation.child.types)))
    columns += [render_expression(call, source.column) for call in relation.calls]
    return select(columns, source.text)


def _unnest(relation: Unnest, names: Names) -> str:
    source = render_source(relation.child, names)
    columns = source.columns(range(len(relation.child.types)))
    columns += [f"unnest({render_expression(e, source.column)})" for e in relation.lists]
    return select(columns, source.text)


def _distinct(relation: Distinct, names: Names) -> str:
    source = render_source(relation.child, names)
    columns = source.columns(range(len(relation.types)))
    if not relation.on:
        return select(columns, source.text, "SELECT DISTINCT ")
    targets = render_list(relation.targets, source.column)
    text = select(columns, source.text, f"SELECT DISTINCT ON ({targets}) ")
    if relation.order:
        text += f" ORDER BY {render_sort_keys(relation.order, source.column)}"
    return text


def _order(relation: Order, names: Names) -> str:
    source = render_source(relation.child, names)
    keys = render_sort_keys(relation.keys, source.column)
    return f"{select(source.columns(relation.emit), source.text)} ORDER BY {keys}"


def _top_n(relation: TopN, names: Names) -> str:
    source = render_source(relation.child, names)
    keys = render_sort_keys(relation.keys, source.column)
    text = f"{select(source.columns(relation.emit), source.text)} ORDER BY {keys}"
    return f"{text} LIMIT {relation.limit}" + (
        f" OFFSET {relation.offset}" if relation.offset else ""
    )


def _limit(relation: Limit, names: Names) -> str:
    bounds = [b for b in (relation.limit, relation.offset) if b]
    if any(bound.expression for bound in bounds):
        return _computed_limit(relation, names)
    if isinstance(relation.child, Order):
        text = render_relation(relation.child, names)  # a subselect's order is not promised
    else:
        source = render_source(relation.child, names)
        text = select(source.columns(range(len(relation.types))), source.text)
    return text + _limit_clauses(relation, _limit_text)


def _computed_limit(relation: Limit, names: Names) -> str:
    """The bound is a column of the child, which must not be computed twice."""
    name = f"limited_{names.alias()}"
    child = render_relation(relation.child, names)
    source = Source(name, name)

    def bound_text(bound: LimitBound) -> str:
        if bound.expression is None:
            return _limit_text(bound)
        value = render_expression(bound.expression, source.column)
        return f"(SELECT {value} FROM {name} LIMIT 1)"

    text = select(source.columns(range(len(relation.types))), name)
    clauses = _limit_clauses(relation, bound_text)
    return f"WITH {name} AS MATERIALIZED ({child}) {text}{clauses}"


def _limit_clauses(relation: Limit, write: Callable[[LimitBound], str]) -> str:
    text = f" LIMIT {write(relation.limit)}" if relation.limit else ""
    return text + (f" OFFSET {write(relation.offset)}" if relation.offset else "")


def _limit_text(bound: LimitBound) -> str:
    return f"{bound.percent!r}%" if bound.percent is not None else str(bound.rows)


def _set_operation(relation: SetOperation, names: Names) -> str:
    operator = f" {relation.kind}{' ALL' if relation.all else ''} "
    return operator.join([f"({render_relation(child, names)})" for child in relation.children])


def _cte(relation: Cte, names: Names) -> str:
    definition = render_relation(relation.definition, names)
    source = render_source(relation.body, names)
    text = select(source.columns(range(len(relation.types))), source.text)
    return f"WITH cte_{relation.index} AS MATERIALIZED ({definition}) {text}"


def _cte_ref(relation: CteRef, names: Names) -> str:
    source = Source(f"cte_{relation.index} AS {(alias := names.alias())}", alias)
    return select(source.columns(range(len(relation.types))), source.text)


def _recursive_cte(relation: RecursiveCte, names: Names) -> str:
    name = f"cte_{relation.index}"
    columns = [f"c{i}" for i in range(len(relation.types))]
    anchor = render_relation(relation.anchor, names)
    step = render_relation(relation.step, names)
    union = "UNION ALL" if relation.all else "UNION"
    source = Source(name, name)
    return (
        f"WITH RECURSIVE {name}({', '.join(columns)}) AS (({anchor}) {union} ({step})) "
        + select(source.columns(range(len(columns))), name)
    )


def _values(relation: Values, names: Names) -> str:
    if not relation.rows:
        columns = [f"CAST(NULL AS {type_name})" for type_name in relation.types]
        return f"{select(columns, f'(SELECT 1) AS {names.alias()}')} WHERE false"
    rows = [f"({render_list(row, _no_column)})" for row in relation.rows]
    return _values_select(rows, len(relation.types), names)


def _values_select(rows: list[str], width: int, names: Names) -> str:
    alias = names.alias()
    columns = [f"c{i}" for i in range(width)]
    source = f"(VALUES {', '.join(rows)}) AS {alias}({', '.join(columns)})"
    return select([f"{alias}.{column}" for column in columns], source)


def _no_column(index: int) -> str:
    raise Unsupported(f"constant rows that refer to column {index}")


def _expression_rows(relation: ExpressionRows, names: Names) -> str:
    """One arm a row over a child that is computed once."""
    if isinstance(relation.child, OneRow):
        rows = [f"({render_list(row, _no_column)})" for row in relation.rows]
        return _values_select(rows, len(relation.types), names)
    name = f"rows_{names.alias()}"
    child = render_relation(relation.child, names)
    source = Source(name, name)
    arms = [
        select([render_expression(e, source.column) for e in row], name) for row in relation.rows
    ]
    return f"WITH {name} AS MATERIALIZED ({child}) {' UNION ALL '.join(arms)}"


def _one_row(relation: OneRow, names: Names) -> str:
    return "SELECT 0 AS c0"


def _table_function(relation: TableFunction, names: Names) -> str:
    alias = names.alias()
    labels = ", ".join(map(quote_identifier, relation.column_names))
    call = f"{function_text(relation.name)}({render_list(relation.arguments, _no_column)})"
    columns = [f"{alias}.{quote_identifier(name)}" for name in relation.column_names]
    predicates = render_conjunction(relation.filters, columns.__getitem__)
    text = select([columns[i] for i in relation.emit], f"{call} AS {alias}({labels})")
    return text + _where(predicates)


def _sample(relation: Sample, names: Names) -> str:
    source = render_source(relation.child, names)
    text = select(source.columns(range(len(relation.types))), source.text)
    return f"{text} USING SAMPLE {relation.clause}"


def _aggregate(relation: Aggregate, names: Names) -> str:
    return aggregates.aggregate(relation, render_source(relation.child, names), names)


def _partial_aggregate(relation: PartialAggregate, names: Names) -> str:
    return aggregates.partial_aggregate(relation, render_source(relation.child, names), names)


def _final_aggregate(relation: FinalAggregate, names: Names) -> str:
    return aggregates.final_aggregate(relation, render_source(relation.child, names))


def _join(relation: Join, names: Names) -> str:
    left = render_source(relation.left, names)
    return joins.join(relation, left, render_source(relation.right, names), names)


def _asof_join(relation: AsofJoin, names: Names) -> str:
    left = render_source(relation.left, names)
    return joins.asof_join(relation, left, render_source(relation.right, names))


def _cross_product(relation: CrossProduct, names: Names) -> str:
    left = render_source(relation.left, names)
    return joins.pair(relation, "CROSS", left, render_source(relation.right, names))


def _positional_join(relation: PositionalJoin, names: Names) -> str:
    left = render_source(relation.left, names)
    return joins.pair(relation, "POSITIONAL", left, render_source(relation.right, names))


_WRITERS: dict[type[Any], Callable[[Any, Names], str]] = {
    Scan: _scan,
    Input: _input,
    Filter: _filter,
    Project: _project,
    Join: _join,
    CrossProduct: _cross_product,
    PositionalJoin: _positional_join,
    AsofJoin: _asof_join,
    Aggregate: _aggregate,
    PartialAggregate: _partial_aggregate,
    FinalAggregate: _final_aggregate,
    Window: _window,
    Distinct: _distinct,
    Order: _order,
    Limit: _limit,
    TopN: _top_n,
    SetOperation: _set_operation,
    Cte: _cte,
    CteRef: _cte_ref,
    RecursiveCte: _recursive_cte,
    Values: _values,
    ExpressionRows: _expression_rows,
    OneRow: _one_row,
    TableFunction: _table_function,
    Sample: _sample,
    Unnest: _unnest,
}
