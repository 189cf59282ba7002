"""What every placement rule is given: options, tables, the sheet, and how to place a child."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crossdock.errors import Unsupported
from crossdock.planner.distribute.column_facts import ColumnFacts, read_facts
from crossdock.planner.distribute.drafts import Placed, Sheet, StageDraft
from crossdock.planner.nodes import Relation
from crossdock.planner.options import PlannerOptions
from crossdock.planner.splits import ScanWorks

if TYPE_CHECKING:
    from crossdock.catalog import TableMeta


@dataclass(slots=True)
class Context:
    """``place`` is the dispatcher over all rules; rules call it for their children."""

    options: PlannerOptions
    tables: Mapping[str, TableMeta]
    place: Callable[[Relation], Placed]
    works: ScanWorks
    sheet: Sheet = field(default_factory=Sheet)
    #: By CTE index: a stage several readers share, a fragment cheap to repeat, or the definition
    #: of one that is read once.
    ctes: dict[int, StageDraft | Placed | Relation] = field(default_factory=dict)
    _facts: dict[tuple[str, str], ColumnFacts] = field(default_factory=dict)

    def facts(self, table: TableMeta, column: str) -> ColumnFacts:
        """What footers say of a column; looked for once."""
        key = (table.name, column)
        known = self._facts.get(key)
        if known is None:
            known = self._facts[key] = read_facts(table, column)
        return known

    def table(self, name: str) -> TableMeta:
        """Raises Unsupported for a relation that is no catalog table."""
        if name not in self.tables:
            raise Unsupported(f"{name} is not a table of files")
        return self.tables[name]
