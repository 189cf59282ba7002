"""From drafts to the stage plan: order, numbers, task counts, splits and SQL text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from crossdock.planner.distribute import Sheet, StageDraft
from crossdock.planner.distribute.aggregates import constant_arguments
from crossdock.planner.distribute.drafts import EdgeDraft, ScanDraft, leaves
from crossdock.planner.distribute.exchange import partition_count
from crossdock.planner.distribute.expressions import is_volatile
from crossdock.planner.distribute.rebuild import rebuilt
from crossdock.planner.distribute.sharing import share_inputs
from crossdock.planner.labels import is_sequential, label_of, order_matters, parts_of
from crossdock.planner.nodes import (
    AggregateCall,
    Expression,
    Input,
    PartialAggregate,
    Relation,
    Sample,
    Scan,
)
from crossdock.planner.options import PlannerOptions
from crossdock.planner.plan import (
    CarriedColumn,
    Edge,
    ExchangeInput,
    ScanInput,
    ShuffleMode,
    Stage,
    StoredField,
    TextReader,
)
from crossdock.planner.render import render, render_expression
from crossdock.planner.splits import whole_table

if TYPE_CHECKING:
    from crossdock.catalog import TableMeta


@dataclass(frozen=True, slots=True)
class NumberedEdge:
    number: int
    draft: EdgeDraft
    producer: int
    consumer: int
    partitions: int

    @property
    def name(self) -> str:
        return f"edge_{self.number}"


@dataclass(frozen=True, slots=True)
class Cut:
    """All stages that lead to the final one, producers first, and the edges between them."""

    drafts: tuple[StageDraft, ...]
    edges: tuple[NumberedEdge, ...]

    def into(self, stage: int) -> tuple[NumberedEdge, ...]:
        return tuple(edge for edge in self.edges if edge.consumer == stage)

    def out_of(self, stage: int) -> tuple[NumberedEdge, ...]:
        return tuple(edge for edge in self.edges if edge.producer == stage)


def assemble(
    final: StageDraft, sheet: Sheet, tables: Mapping[str, TableMeta], options: PlannerOptions
) -> tuple[tuple[Stage, ...], tuple[Edge, ...]]:
    """Stages and edges of the plan whose result ``final`` makes; what it never reads is dropped."""
    share_inputs(final, sheet)
    cut = _cut(final, sheet, options)
    stages = tuple(
        _Drawing(cut, sheet, tables, options, number).stage() for number in range(len(cut.drafts))
    )
    edges = tuple(_edge(edge, stages[edge.producer]) for edge in cut.edges)
    return stages, edges


# -- order and numbers -----------------------------------------------------------------------------


def _cut(final: StageDraft, sheet: Sheet, options: PlannerOptions) -> Cut:
    drafts = _producers_first(final, sheet)
    numbers = {id(draft): number for number, draft in enumerate(drafts)}
    edges: list[NumberedEdge] = []
    for consumer, draft in enumerate(drafts):
        inputs = _inputs(draft, sheet)
        partitions = _partitions(inputs, options)
        for edge in inputs:
            count = partitions if edge.mode is ShuffleMode.HASH else 1
            producer = numbers[id(edge.producer)]
            edges.append(NumberedEdge(len(edges), edge, producer, consumer, count))
    return Cut(drafts, tuple(edges))


def _producers_first(final: StageDraft, sheet: Sheet) -> tuple[StageDraft, ...]:
    ordered: dict[int, StageDraft] = {}

    def visit(draft: StageDraft) -> None:
        if id(draft) in ordered:
            return
        for edge in _inputs(draft, sheet):
            visit(edge.producer)
        ordered[id(draft)] = draft

    visit(final)
    return tuple(ordered.values())


def _inputs(draft: StageDraft, sheet: Sheet) -> list[EdgeDraft]:
    """The edges a fragment reads, left to right."""
    return list({id(edge): edge for edge in _edges_by_leaf(draft, sheet).values()}.values())


def _edges_by_leaf(draft: StageDraft, sheet: Sheet) -> dict[str, EdgeDraft]:
    names = [leaf.name for leaf in leaves(draft.placed.relation) if isinstance(leaf, Input)]
    return {name: sheet.edges[name] for name in names}


def _partitions(inputs: Iterable[EdgeDraft], options: PlannerOptions) -> int:
    """One count for all hashed inputs of a stage: partition i of each must meet in task i."""
    return max(
        (
            partition_count(options, edge.producer.placed.size.bytes)
            for edge in inputs
            if edge.mode is ShuffleMode.HASH
        ),
        default=1,
    )


# -- one stage -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Drawing:
    """One stage on its way into the plan."""

    cut: Cut
    sheet: Sheet
    tables: Mapping[str, TableMeta]
    options: PlannerOptions
    number: int

    @property
    def draft(self) -> StageDraft:
        return self.cut.drafts[self.number]

    def stage(self) -> Stage:
        placed, inputs = self.draft.placed, self.cut.into(self.number)
        scans = self._scans()
        tasks, inputs_of_scans = self._tasks_and_scans(scans)
        relation = _renamed(
            placed.relation,
            self._edge_names(inputs)
            | {name: scan.name for name, scan in zip(scans, inputs_of_scans, strict=True)},
        )
        return Stage(
            stage=self.number,
            fragment=render(relation),
            columns=_carried(placed.relation),
            tasks=tasks,
            scans=inputs_of_scans,
            exchanges=tuple(ExchangeInput(name=e.name, edge=e.number) for e in inputs),
            outputs=tuple(edge.number for edge in self.cut.out_of(self.number)),
            deterministic=_repeats(placed.relation),
            prefix_limit=self.draft.prefix_limit,
            ordered=order_matters(placed.relation),
            sequential=is_sequential(placed.relation),
            label=label_of(placed.relation),
            reasons=placed.reasons,
            estimated_rows=round(placed.size.rows),
            estimated_bytes=round(placed.size.bytes),
        )

    def _edge_names(self, inputs: Sequence[NumberedEdge]) -> dict[str, str]:
        """What each leaf is called in the plan; several may read one edge."""
        numbered = {id(edge.draft): edge.name for edge in inputs}
        drafts = _edges_by_leaf(self.draft, self.sheet)
        return {leaf: numbered[id(draft)] for leaf, draft in drafts.items()}

    def _scans(self) -> dict[str, ScanDraft]:
        found = [n.source for n in leaves(self.draft.placed.relation) if isinstance(n, Scan)]
        return {name: self.sheet.scans[name] for name in dict.fromkeys(found)}

    def _tasks_and_scans(self, scans: Mapping[str, ScanDraft]) -> tuple[int, tuple[ScanInput, ...]]:
        """Tasks follow hashed inputs if there are any, else the splits of scans, one after the
        other: a task of the second scan finds the first one empty.
        """
        hashed = [e for e in self.cut.into(self.number) if e.draft.mode is ShuffleMode.HASH]
        cut = {name: draft for name, draft in scans.items() if not draft.whole}
        if hashed:
            tasks = hashed[0].partitions
            offsets = dict.fromkeys(cut, (0, tasks))
        elif self.draft.placed.is_one:
            tasks, offsets = 1, dict.fromkeys(cut, (0, 1))
        else:
            tasks, offsets = 0, {}
            for name, draft in cut.items():
                count = draft.work.natural_tasks(self.options)
                offsets[name] = (tasks, count)
                tasks += count
        return max(tasks, 1), tuple(
            self._scan(f"scan_{place}", draft, max(tasks, 1), *offsets.get(name, (0, 0)))
            for place, (name, draft) in enumerate(scans.items())
        )

    def _scan(self, name: str, draft: ScanDraft, tasks: int, first: int, count: int) -> ScanInput:
        table = self.tables[draft.scan.table]
        columns = dict(zip(draft.scan.columns, draft.scan.column_types, strict=True))
        columns.pop("", None)
        own = draft.work.cut(1 if draft.whole else count)
        after = () if draft.whole else ((),) * (tasks - first - count)
        return ScanInput(
            name=name,
            table=draft.scan.table,
            columns=tuple(columns),
            types=tuple(columns.values()),
            splits=((),) * first + own + after,
            whole=draft.whole,
            union_by_name=table.union_by_name,
            hive_types=table.hive_types,
            carried=table.carried,
            hidden_nan=tuple(name for name in columns if name.lower() in table.hidden_nan),
            format=table.format,
            readers=text_readers(table),
            file_types=file_types(table),
            fields=stored_fields(table, tuple(columns)),
        )


def _renamed(relation: Relation, names: Mapping[str, str]) -> Relation:
    def change(leaf: Relation) -> Relation:
        if isinstance(leaf, Input):
            return replace(leaf, name=names[leaf.name])
        if isinstance(leaf, Scan):
            return replace(leaf, source=names[leaf.source])
        return leaf

    return rebuilt(relation, change)


def _repeats(relation: Relation) -> bool:
    parts = parts_of(relation)
    return not is_volatile(relation) and not any(isinstance(part, Sample) for part in parts)


def _carried(relation: Relation) -> tuple[CarriedColumn, ...]:
    if not isinstance(relation, PartialAggregate):
        return tuple(CarriedColumn(type=t) for t in relation.types)
    keys = relation.types[: len(relation.types) - len(relation.aggregates)]
    return tuple(CarriedColumn(type=t) for t in keys) + tuple(map(_state, relation.aggregates))


def _state(call: AggregateCall) -> CarriedColumn:
    constants = constant_arguments(call)
    return CarriedColumn(
        type=call.type,
        aggregate=call.name,
        arguments=tuple(argument.type for argument in call.arguments),
        constants=constants if any(constants) else (),
    )


# -- edges and scans -------------------------------------------------------------------------------


def _edge(edge: NumberedEdge, producer: Stage) -> Edge:
    return Edge(
        edge=edge.number,
        producer=edge.producer,
        consumer=edge.consumer,
        mode=edge.draft.mode,
        partitions=edge.partitions,
        keys=_keys(edge.draft.keys),
        columns=producer.columns,
        estimated_rows=producer.estimated_rows,
        estimated_bytes=producer.estimated_bytes,
    )


def _keys(keys: Sequence[Expression]) -> tuple[str, ...]:
    return tuple(render_expression(key, _column) for key in keys)


def _column(index: int) -> str:
    return f"c{index}"


def whole_scan(name: str, table: TableMeta) -> ScanInput:
    """A table under its own name, all columns, all files, for every task."""
    return ScanInput(
        name=name,
        table=table.name,
        columns=tuple(c.name for c in table.columns),
        types=tuple(c.type for c in table.columns),
        splits=(whole_table(table),),
        whole=True,
        union_by_name=table.union_by_name,
        hive_types=table.hive_types,
        carried=table.carried,
        hidden_nan=tuple(c.name for c in table.columns if c.name.lower() in table.hidden_nan),
        format=table.format,
        readers=text_readers(table),
        file_types=file_types(table),
        fields=stored_fields(table, tuple(c.name for c in table.columns)),
    )


def stored_fields(table: TableMeta, columns: Sequence[str]) -> tuple[StoredField, ...]:
    """The numbers by which the table's files know ``columns``; () where names count."""
    by_name = {field.name: field for field in table.fields}
    return tuple(
        StoredField(number=each.number, name=each.name, default=each.default, names=each.names)
        for each in (by_name[name] for name in columns if name in by_name)
    )


def text_readers(table: TableMeta) -> tuple[TextReader, ...]:
    """How the table's texts are read; () for Parquet."""
    return tuple(TextReader(options=each.options, names=each.names) for each in table.readers)


def file_types(table: TableMeta) -> tuple[tuple[str, str], ...]:
    """All columns that the table's texts may have, with their types; () for Parquet."""
    if not table.readers:
        return ()
    keys = {key for key, _ in table.hive_types}
    return tuple((c.name, c.type) for c in table.columns if c.name not in keys)
