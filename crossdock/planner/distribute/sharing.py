"""Equal inputs of a stage, computed and sent once.

The optimizer repeats a subquery that a statement uses twice (``x IN (SELECT ...)`` beside a join
with the same rows); its common-subplan rule makes nodes that do not serialise.
"""

from __future__ import annotations

from dataclasses import replace

from crossdock.planner.distribute.drafts import EdgeDraft, Sheet, StageDraft, leaves
from crossdock.planner.distribute.expressions import is_volatile
from crossdock.planner.distribute.rebuild import rebuilt
from crossdock.planner.labels import parts_of
from crossdock.planner.nodes import Input, Relation, Sample, Scan


def share_inputs(final: StageDraft, sheet: Sheet) -> None:
    """Where leaves of one fragment read equal rows by equal exchanges, let them read one edge.

    Only when every exchange is chosen. What no leaf reads any more is never built.
    """
    _Sharing(sheet).visit(final)


class _Sharing:
    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self._numbers: dict[object, int] = {}
        self._known: dict[int, int | None] = {}  # by identity of a stage
        self._visited: set[int] = set()

    def visit(self, draft: StageDraft) -> None:
        if id(draft) in self._visited:
            return
        self._visited.add(id(draft))
        first: dict[object, EdgeDraft] = {}
        for name in _input_names(draft.placed.relation):
            edge = self._sheet.edges[name]
            rows = self._rows_of(edge)
            if rows is not None:
                self._sheet.edges[name] = edge = first.setdefault(rows, edge)
            self.visit(edge.producer)

    def _rows_of(self, edge: EdgeDraft) -> object | None:
        """Equal for edges that bring equal rows to equal tasks; None: equal to no other."""
        producer = self._number(edge.producer)
        return None if producer is None else (producer, edge.mode, edge.keys)

    def _number(self, draft: StageDraft) -> int | None:
        """The same for stages with equal output; None if two runs would differ."""
        if id(draft) not in self._known:
            self._known[id(draft)] = self._new_number(draft)
        return self._known[id(draft)]

    def _new_number(self, draft: StageDraft) -> int | None:
        relation = draft.placed.relation
        if is_volatile(relation) or any(isinstance(p, Sample) for p in parts_of(relation)):
            return None
        inputs = {n: self._rows_of(self._sheet.edges[n]) for n in _input_names(relation)}
        if None in inputs.values():
            return None
        anonymous = rebuilt(relation, lambda leaf: self._anonymous(leaf, inputs))
        return self._numbered((anonymous, draft.prefix_limit))

    def _anonymous(self, leaf: Relation, inputs: dict[str, object | None]) -> Relation:
        """The leaf named by what it reads."""
        if isinstance(leaf, Input):
            return replace(leaf, name=f"rows {self._numbered(inputs[leaf.name])}")
        if isinstance(leaf, Scan):
            return replace(leaf, source=f"whole {self._sheet.scans[leaf.source].whole}")
        return leaf

    def _numbered(self, thing: object) -> int:
        return self._numbers.setdefault(thing, len(self._numbers))


def _input_names(relation: Relation) -> list[str]:
    return list(dict.fromkeys(leaf.name for leaf in leaves(relation) if isinstance(leaf, Input)))
