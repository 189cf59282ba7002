"""From a statement that writes to its plan: the query's stages, and what becomes of its rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from crossdock.errors import CarrierError, PlatformError, PlatformUnavailable, SqlError
from crossdock.executor.carriers import encode
from crossdock.planner.binder import Binder, BoundStatement
from crossdock.planner.options import PlannerOptions
from crossdock.planner.parameters import Parameters
from crossdock.planner.plan import Existing, ResultColumn, StagePlan, Write, WriteKind
from crossdock.planner.planning import plan_query
from crossdock.planner.sql_text import quote_identifier
from crossdock.writes.casts import why_never
from crossdock.writes.copying import CopyTarget
from crossdock.writes.header import Copy, CreateTable, DeclareTable, Insert, read_header
from crossdock.writes.values import coerced_values

if TYPE_CHECKING:
    from crossdock.catalog import Catalog, TableMeta
    from crossdock.writes.outbox import Outbox

#: A struct without fields, as DuckDB writes its type.
_EMPTY_STRUCT = re.compile(r"\bSTRUCT\b(?!\()")
#: What a statement that writes answers.
COUNT = (ResultColumn(name="Count", type="BIGINT"),)
_NOTHING = 'SELECT CAST(NULL AS BIGINT) AS "Count" WHERE false'


class WritePlanner:
    """Plans statements that write; one at a time, as its binder binds.

    Args:
        outbox: where files of a COPY go; it says what is there already.
        local: whether files of this machine may be written.
    """

    def __init__(self, catalog: Catalog, binder: Binder, outbox: Outbox, *, local: bool) -> None:
        self._catalog = catalog
        self._binder = binder
        self._outbox = outbox
        self._local = local
        self._engine = binder.engine

    def plan(self, sql: str, parameters: Parameters, options: PlannerOptions) -> StagePlan | None:
        """None for a statement that does not write.

        Raises:
            SqlError: refused, with DuckDB's reason; nothing was started.
            TableError: a table cannot be read.
        """
        header = read_header(self._engine, sql)
        if header is None:
            return None
        match header:
            case CreateTable() | DeclareTable():
                plan = self._create(header, parameters, options)
            case Insert():
                plan = self._insert(header, parameters, options)
            case Copy():
                plan = self._copy(header, parameters, options)
        return msgspec.structs.replace(plan, sql=sql)

    # -- CREATE TABLE ------------------------------------------------------------------------------

    def _create(
        self, header: CreateTable | DeclareTable, parameters: Parameters, options: PlannerOptions
    ) -> StagePlan:
        if self._is_there(header):
            return plan_query(self._binder.bind(_NOTHING), options)
        if isinstance(header, DeclareTable):
            columns = self._binder.declared_columns(header.definition)
            bound = self._binder.bind(f"SELECT {_nulls(columns)} WHERE false")
        else:
            query = header.query if header.with_data else _emptied(header.query)
            bound = self._binder.bind(query, parameters)
            columns = self._binder.created_columns(bound, header.columns)
        write = Write(
            kind=WriteKind.TABLE, target=header.name, columns=columns, existing=header.existing
        )
        return _writing(bound, write, options)

    def _is_there(self, header: CreateTable | DeclareTable) -> bool:
        """Whether nothing is to be done. Raises ``SqlError`` if the name is taken."""
        name = header.name
        if name.lower() in self._catalog.views():
            raise SqlError(
                f'Existing object "{name}" is of type View, trying to replace with type Table'
            )
        if not self._catalog.has(name):
            return False
        if header.existing is Existing.SKIP:
            return True
        if header.existing is Existing.REFUSE:
            raise SqlError(
                f'Table with name "{name}" already exists!\n'
                "CREATE OR REPLACE TABLE replaces it, IF NOT EXISTS leaves it"
            )
        if not self._catalog.is_written(name):
            raise SqlError(
                f'Table "{name}" names files that are yours and is not replaced: remove the name '
                "first (`crossdock tables remove`, or DROP TABLE), the files stay"
            )
        return False

    # -- INSERT ------------------------------------------------------------------------------------

    def _insert(self, header: Insert, parameters: Parameters, options: PlannerOptions) -> StagePlan:
        table = self._target(header.name)
        columns = tuple(ResultColumn(name=c.name, type=c.type) for c in table.columns)
        if header.query:
            query = coerced_values(header.query, _given_types(header, columns)) or header.query
            bound = self._binder.bind(query, parameters)
            self._binder.check_insert(table, header.around, bound)
            given = _places(header, bound, columns)
            self._check_casts(bound, given, columns)
            text = _coerced(query, given, columns, len(bound.columns))
        else:
            text = f"SELECT {_nulls(columns)}"
        bound = self._binder.bind(text, parameters)
        write = Write(
            kind=WriteKind.TABLE, target=table.name, columns=columns, existing=Existing.ADD
        )
        return _writing(bound, write, options)

    def _check_casts(
        self, bound: BoundStatement, given: Mapping[str, int], columns: Sequence[ResultColumn]
    ) -> None:
        for column in columns:
            place = given.get(column.name.lower())
            if place is not None:
                source = bound.columns[place].type
                if reason := why_never(self._engine, source, column.type):
                    raise SqlError(f'column "{column.name}": {reason}')

    def _target(self, name: str) -> TableMeta:
        if not self._catalog.has(name):
            close = " or ".join(f'"{each}"' for each in self._catalog.nearest(name))
            hint = f"\nDid you mean {close}?" if close else ""
            raise SqlError(f"Table with name {name} does not exist!{hint}")
        if not self._catalog.is_written(name):
            raise SqlError(
                f'Table "{name}" names files that are yours, which are only read: CREATE TABLE AS '
                "makes a table to insert into, COPY ... TO (APPEND) adds files to a folder"
            )
        return self._catalog.get(name)

    # -- COPY --------------------------------------------------------------------------------------

    def _copy(self, header: Copy, parameters: Parameters, options: PlannerOptions) -> StagePlan:
        bound = self._binder.bind(header.query, parameters)
        target = CopyTarget(header, bound.columns, local=self._local)
        write = target.write()
        target.refuse_present(self._present(write.target))
        return _writing(bound, write, replace(options, one_output=write.one_file))

    def _present(self, target: str) -> Sequence[str]:
        """What is there already. Raises ``SqlError`` for a place that cannot be looked at."""
        try:
            return self._outbox.present(target)
        except PlatformUnavailable:
            raise
        except PlatformError as error:
            raise SqlError(f"COPY: cannot write to {target}: {error}") from error


def _writing(bound: BoundStatement, write: Write, options: PlannerOptions) -> StagePlan:
    """The query's plan, whose last stage writes."""
    _check_types(write)
    plan = plan_query(bound, options)
    last = plan.stages[-1]
    last = msgspec.structs.replace(last, label=f"{last.label}, write")
    return msgspec.structs.replace(
        plan, columns=COUNT, stages=(*plan.stages[:-1], last), write=write
    )


def _check_types(write: Write) -> None:
    """Raises ``SqlError`` naming a column that the files cannot hold unchanged."""
    from crossdock.executor.stored_types import in_parquet

    if write.kind is WriteKind.FILES and write.format != "parquet":
        return
    check = encode if write.kind is WriteKind.TABLE else in_parquet
    for column in write.columns:
        if _EMPTY_STRUCT.search(column.type):
            raise SqlError(f"column {column.name}: Parquet cannot hold {column.type}")
        try:
            check("x", column.type)
        except CarrierError as error:
            raise SqlError(f"column {column.name}: {error}") from error


def _nulls(columns: Sequence[ResultColumn]) -> str:
    return ", ".join(f"CAST(NULL AS {c.type}) AS {quote_identifier(c.name)}" for c in columns)


def _emptied(query: str) -> str:
    return f"SELECT * FROM ({query}\n) WHERE false"


def _given_types(header: Insert, columns: Sequence[ResultColumn]) -> Sequence[str]:
    """Types of the columns that values are given for; () where their names decide."""
    if header.by_name:
        return ()
    types = {column.name.lower(): column.type for column in columns}
    names = header.columns or tuple(types)
    if unknown := [name for name in names if name.lower() not in types]:
        known = ", ".join(f'"{column.name}"' for column in columns)
        raise SqlError(
            f'Table "{header.name}" does not have a column with name "{unknown[0]}"\n'
            f"Its columns: {known}"
        )
    return [types[name.lower()] for name in names]


def _places(
    header: Insert, bound: BoundStatement, columns: Sequence[ResultColumn]
) -> Mapping[str, int]:
    """For each column that is given, by lower-case name: which of the query's columns it is.

    DuckDB has checked that the names are there and the numbers right.
    """
    if header.by_name:
        names = [column.name for column in bound.columns]
    else:
        names = list(header.columns) or [column.name for column in columns]
    return {name.lower(): place for place, name in enumerate(names)}


def _coerced(
    query: str, given: Mapping[str, int], columns: Sequence[ResultColumn], width: int
) -> str:
    """The query's rows as rows of the table: cast, in the table's order, NULL where not given."""
    items = [
        f"CAST({_value(given.get(column.name.lower()))} AS {column.type}) "
        f"AS {quote_identifier(column.name)}"
        for column in columns
    ]
    names = ", ".join(f"v{place}" for place in range(width))
    text = query.strip().rstrip(";")
    return f"SELECT {', '.join(items)} FROM ({text}\n) AS inserted({names})"


def _value(place: int | None) -> str:
    return "NULL" if place is None else f"v{place}"
