"""Frozen relational nodes and expressions: DuckDB's bound plan, decoded.

A node states its children and what it adds; ``types`` are the SQL types of its output columns,
which are positional, and computed once. Expressions refer to a child's output by position
(``ColumnRef``); in a join the left child's columns come first, then the right child's.
Type texts are DuckDB's own, quotes included (``DECIMAL(12,2)``, ``STRUCT(a INTEGER)``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

# -- expressions -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """Output column ``index`` of the child (of left + right in a join)."""

    index: int
    type: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal, already written as SQL text that has exactly this type."""

    sql: str
    type: str


@dataclass(frozen=True, slots=True)
class Cast:
    child: Expression
    type: str
    safe: bool = False  # TRY_CAST


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar function or operator; decimal arithmetic is re-cast to ``type`` when rendered."""

    name: str
    arguments: tuple[Expression, ...]
    type: str
    #: struct_pack and kin: names of the arguments
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    operator: str  # =, <>, <, >, <=, >=, IS DISTINCT FROM, IS NOT DISTINCT FROM
    left: Expression
    right: Expression
    type: str = "BOOLEAN"


@dataclass(frozen=True, slots=True)
class Between:
    child: Expression
    lower: Expression
    upper: Expression
    lower_inclusive: bool = True
    upper_inclusive: bool = True
    type: str = "BOOLEAN"


@dataclass(frozen=True, slots=True)
class Conjunction:
    operator: str  # AND, OR
    children: tuple[Expression, ...]
    type: str = "BOOLEAN"


@dataclass(frozen=True, slots=True)
class Operator:
    """NOT, IS NULL, IS NOT NULL, COALESCE, TRY, IN, NOT IN (first child is the tested value)."""

    name: str
    children: tuple[Expression, ...]
    type: str


@dataclass(frozen=True, slots=True)
class Case:
    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression
    type: str


@dataclass(frozen=True, slots=True)
class SortKey:
    expression: Expression
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class AggregateCall:
    name: str  # count_star for count(*)
    arguments: tuple[Expression, ...]
    type: str
    distinct: bool = False
    filter: Expression | None = None
    order: tuple[SortKey, ...] = ()
    within_group: tuple[SortKey, ...] = ()  # ordered-set forms, when they must be written so


@dataclass(frozen=True, slots=True)
class WindowFrame:
    mode: str  # ROWS, RANGE, GROUPS
    start: str  # UNBOUNDED PRECEDING, CURRENT ROW, PRECEDING, FOLLOWING, UNBOUNDED FOLLOWING
    end: str
    start_offset: Expression | None = None
    end_offset: Expression | None = None
    exclude: str = ""  # "", CURRENT ROW, GROUP, TIES


@dataclass(frozen=True, slots=True)
class WindowCall:
    name: str
    arguments: tuple[Expression, ...]
    type: str
    partition: tuple[Expression, ...] = ()
    order: tuple[SortKey, ...] = ()
    frame: WindowFrame | None = None
    distinct: bool = False
    ignore_nulls: bool = False
    filter: Expression | None = None
    argument_order: tuple[SortKey, ...] = ()


@dataclass(frozen=True, slots=True)
class LambdaParameter:
    """A parameter of an enclosing ``Lambda``, by its unique name."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Lambda:
    """Argument of list_transform and kin; ``body`` sees the child's columns and ``parameters``."""

    parameters: tuple[str, ...]
    body: Expression
    type: str = "LAMBDA"


Expression = (
    ColumnRef
    | Constant
    | Cast
    | Call
    | Comparison
    | Between
    | Conjunction
    | Operator
    | Case
    | AggregateCall
    | WindowCall
    | Lambda
    | LambdaParameter
)

# -- relations -------------------------------------------------------------------------------------


class JoinKind(StrEnum):
    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"
    SEMI = "SEMI"
    ANTI = "ANTI"
    RIGHT_SEMI = "RIGHT SEMI"
    RIGHT_ANTI = "RIGHT ANTI"
    SINGLE = "SINGLE"  # scalar subquery: at most one right row per left row, error on more
    MARK = "MARK"  # IN / ANY as a value: left columns, then one BOOLEAN with SQL's NULL rules


@dataclass(frozen=True)
class Scan:
    """Read columns of a catalog table. ``emit`` picks output from ``columns`` after filtering."""

    table: str
    columns: tuple[str, ...]  # names read; "" is a row placeholder that carries no column
    column_types: tuple[str, ...]
    filters: tuple[Expression, ...] = ()  # ColumnRef over ``columns``
    emit: tuple[int, ...] = ()
    source: str = ""  # name to read from in a fragment (a ScanInput's); "" is the table itself
    #: What holds for every row that counts, because operators above see to it: only for pruning.
    hints: tuple[Expression, ...] = ()

    @cached_property
    def types(self) -> tuple[str, ...]:
        return tuple(self.column_types[i] for i in self.emit)


@dataclass(frozen=True)
class Input:
    """Rows that arrive from another stage under ``name``; placed by distribution."""

    name: str
    types: tuple[str, ...]


@dataclass(frozen=True)
class Filter:
    child: Relation
    predicates: tuple[Expression, ...]
    emit: tuple[int, ...]

    @cached_property
    def types(self) -> tuple[str, ...]:
        return tuple(self.child.types[i] for i in self.emit)


@dataclass(frozen=True)
class Project:
    child: Relation
    expressions: tuple[Expression, ...]

    @cached_property
    def types(self) -> tuple[str, ...]:
        return tuple(e.type for e in self.expressions)


@dataclass(frozen=True, slots=True)
class JoinCondition:
    """``left operator right``; ``left`` refers to the left child only, ``right`` to the right child
    only (indexes from 0 in each).
    """

    left: Expression
    operator: str
    right: Expression


@dataclass(frozen=True)
class Join:
    kind: JoinKind
    left: Relation
    right: Relation
    conditions: tuple[JoinCondition, ...]
    residual: tuple[Expression, ...] = ()  # over left + right columns
    left_emit: tuple[int, ...] = ()
    right_emit: tuple[int, ...] = ()

    @cached_property
    def types(self) -> tuple[str, ...]:
        left = tuple(self.left.types[i] for i in self.left_emit)
        right = tuple(self.right.types[i] for i in self.right_emit)
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return left
        if self.kind in (JoinKind.RIGHT_SEMI, JoinKind.RIGHT_ANTI):
            return right
        if self.kind is JoinKind.MARK:
            return (*left, "BOOLEAN")
        return left + right


@dataclass(frozen=True)
class CrossProduct:
    left: Relation
    right: Relation

    @cached_property
    def types(self) -> tuple[str, ...]:
        return self.left.types + self.right.types


@dataclass(frozen=True)
class PositionalJoin:
    left: Relation
    right: Relation

    @cached_property
    def types(self) -> tuple[str, ...]:
        return self.left.types + self.right.types


@dataclass(frozen=True)
class AsofJoin:
    kind: JoinKind
    left: Relation
    right: Relation
    conditions: tuple[JoinCondition, ...]
    left_emit: tuple[int, ...]
    right_emit: tuple[int, ...]

    @cached_property
    def types(self) -> tuple[str, ...]:
        return tuple(self.left.types[i] for i in self.left_emit) + tuple(
            self.right.types[i] for i in self.right_emit
        )


@dataclass(frozen=True)
class Aggregate:
    """Outputs: groups, then aggregates, then one BIGINT per entry of ``groupings``."""

    child: Relation
    groups: tuple[Expression, ...]
    aggregates: tuple[AggregateCall, ...]
    sets: tuple[
        tuple[int, ...], ...
    ] = ()  # grouping sets as indexes into groups; () = one full set
    groupings: tuple[tuple[int, ...], ...] = ()  # GROUPING(...) calls

    @cached_property
    def types(self) -> tuple[str, ...]:
        return (
            tuple(g.type for g in self.groups)
            + tuple(a.type for a in self.aggregates)
            + ("BIGINT",) * len(self.groupings)
        )


@dataclass(frozen=True)
class PartialAggregate:
    """Engine states instead of values: groups, [grouping id BIGINT], one state per aggregate."""

    child: Relation
    groups: tuple[Expression, ...]
    aggregates: tuple[AggregateCall, ...]
    sets: tuple[tuple[int, ...], ...] = ()
    with_grouping_id: bool = False

    @cached_property
    def types(self) -> tuple[str, ...]:
        identity = ("BIGINT",) if self.with_grouping_id else ()
        return (
            tuple(g.type for g in self.groups)
            + identity
            + ("AGGREGATE_STATE",) * len(self.aggregates)
        )


@dataclass(frozen=True)
class FinalAggregate:
    """Combine and finalize states; same outputs as the ``Aggregate`` it completes."""

    child: Relation  # PartialAggregate's output, gathered by its keys
    groups: int
    aggregates: tuple[AggregateCall, ...]
    group_types: tuple[str, ...]
    groupings: tuple[tuple[int, ...], ...] = ()
    with_grouping_id: bool = False

    @cached_property
    def types(self) -> tuple[str, ...]:
        return (
            self.group_types
            + tuple(a.type for a in self.aggregates)
            + ("BIGINT",) * len(self.groupings)
        )


@dataclass(frozen=True)
class Window:
    """Child columns, then one per call."""

    child: Relation
    calls: tuple[WindowCall, ...]

    @cached_property
    def types(self) -> tuple[str, ...]:
        return self.child.types + tuple(c.type for c in self.calls)


@dataclass(frozen=True)
class Distinct:
    child: Relation
    targets: tuple[Expression, ...]
    on: bool = False  # DISTINCT ON
    order: tuple[SortKey, ...] = ()

    @cached_property
    def types(self) -> tuple[str, ...]:
        return self.child.types


@dataclass(frozen=True)
class Order:
    child: Relation
    keys: tuple[SortKey, ...]
    emit: tuple[int, ...]

    @cached_property
    def types(self) -> tuple[str, ...]:
        return tuple(self.child.types[i] for i in self.emit)


@dataclass(frozen=True, slots=True)
class LimitBound:
    """One of: rows, percent, or an expression over the child's single row."""

    rows: int | None = None
    percent: float | None = None
    expression: Expression | None = None


@dataclass(frozen=True)
class Limit:
    """Over an ``Order`` child the order is kept."""

    child: Relation
    limit: LimitBound | None
    offset: LimitBound | None

    @cached_property
    def types(self) -> tuple[str, ...]:
        return self.child.types


@dataclass(frozen=True)
class TopN:
    child: Relation
    keys: tuple[SortKey, ...]
    limit: int
    offset: int
    emit: tuple[int, ...]

    @cached_property
    def types(self) -> tuple[str, ...]:
        return tuple(self.child.types[i] for i in self.emit)


@dataclass(frozen=True)
class SetOperation:
    kind: str  # UNION, EXCEPT, INTERSECT
    all: bool
    children: tuple[Relation, ...]

    @cached_property
    def types(self) -> tuple[str, ...]:
        return self.children[0].types


@dataclass(frozen=True)
class Cte:
    """``definition`` is computed once; ``body`` refers to it by ``index``."""

    index: int
    definition: Relation
    body: Relation

    @cached_property
    def types(self) -> tuple[str, ...]:
        return self.body.types


@dataclass(frozen=True)
class CteRef:
    index: int
    types: tuple[str, ...]


@dataclass(frozen=True)
class RecursiveCte:
    index: int
    all: bool
    anchor: Relation
    step: Relation

    @cached_property
    def types(self) -> tuple[str, ...]:
        return self.anchor.types


@dataclass(frozen=True)
class Values:
    """Constant rows; no rows at all is an empty result of these types."""

    rows: tuple[tuple[Expression, ...], ...]
    types: tuple[str, ...]


@dataclass(frozen=True)
class ExpressionRows:
    """One row per entry for each child row (VALUES with expressions)."""

    child: Relation
    rows: tuple[tuple[Expression, ...], ...]
    types: tuple[str, ...]


@dataclass(frozen=True)
class OneRow:
    """SELECT without FROM."""

    types: tuple[str, ...] = ("INTEGER",)


@dataclass(frozen=True)
class TableFunction:
    """range, generate_series and other file-less functions with constant arguments."""

    name: str
    arguments: tuple[Expression, ...]
    column_names: tuple[str, ...]
    column_types: tuple[str, ...]
    filters: tuple[Expression, ...]
    emit: tuple[int, ...]

    @cached_property
    def types(self) -> tuple[str, ...]:
        return tuple(self.column_types[i] for i in self.emit)


@dataclass(frozen=True)
class Sample:
    child: Relation
    clause: str  # what stands after USING SAMPLE

    @cached_property
    def types(self) -> tuple[str, ...]:
        return self.child.types


@dataclass(frozen=True)
class Unnest:
    """Child columns, then one per unnested list."""

    child: Relation
    lists: tuple[Expression, ...]
    list_types: tuple[str, ...]

    @cached_property
    def types(self) -> tuple[str, ...]:
        return self.child.types + self.list_types


Relation = (
    Scan
    | Input
    | Filter
    | Project
    | Join
    | CrossProduct
    | PositionalJoin
    | AsofJoin
    | Aggregate
    | PartialAggregate
    | FinalAggregate
    | Window
    | Distinct
    | Order
    | Limit
    | TopN
    | SetOperation
    | Cte
    | CteRef
    | RecursiveCte
    | Values
    | ExpressionRows
    | OneRow
    | TableFunction
    | Sample
    | Unnest
)
