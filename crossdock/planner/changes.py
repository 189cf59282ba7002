"""CREATE and DROP of views and macros, and DROP of tables: checked, then written to the catalog.

Each is answered as DuckDB answers it, by a query without rows that takes the statement's place; so
every client and the HTTP API run them like any other statement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from crossdock.catalog import Catalog
from crossdock.errors import SqlError
from crossdock.planner.binder import Binder
from crossdock.planner.definitions import Create, Drop, overloads_of, read_change, view_of
from crossdock.planner.parameters import Parameters
from crossdock.tables import Entry, Kind

_CREATED = 'SELECT CAST(NULL AS BIGINT) AS "Count" WHERE false'
_DROPPED = 'SELECT CAST(NULL AS BOOLEAN) AS "Success" WHERE false'
_TITLES = {Kind.TABLE: "Table", Kind.VIEW: "View", Kind.MACRO: "Macro Function"}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement that was looked at. ``apply`` makes its change, if it is one; then comes a query.

    A change that was prepared is right as long as nobody else changes the same name.
    """

    query: str
    apply: Callable[[], object]


def _nothing() -> None:
    pass


class Changes:
    """Prepares the statements that change what a catalog's names stand for.

    Args:
        binder: says whether DuckDB takes a definition.
        sessions: whether TEMP definitions are taken, which end with the connection.
    """

    def __init__(self, catalog: Catalog, binder: Binder, *, sessions: bool) -> None:
        self._catalog = catalog
        self._binder = binder
        self._sessions = sessions

    def prepare(self, sql: str, parameters: Parameters = None, *, again: bool = False) -> Prepared:
        """The query to run: ``sql`` itself, or what answers the change once it was made.

        ``again``: an earlier attempt may have made it, so finding it made is no error.

        Raises:
            SqlError: refused, with DuckDB's reason.
        """
        change = read_change(sql)
        if change is None:
            return Prepared(sql, _nothing)
        self._binder.check_syntax(sql)
        if parameters:
            raise SqlError("a definition has no parameters: write the values out")
        if isinstance(change, Drop):
            return Prepared(_DROPPED, self._drop(change, tolerant=change.tolerant or again))
        return Prepared(_CREATED, self._create(change, sql, again=again))

    # -- create ------------------------------------------------------------------------------------

    def _create(self, change: Create, sql: str, *, again: bool) -> Callable[[], object]:
        entry = change.entry
        if change.temporary and not self._sessions:
            raise SqlError("there are no sessions here: leave TEMP out")
        if change.replace and change.tolerant:
            raise SqlError("Cannot specify both OR REPLACE and IF NOT EXISTS within CREATE")
        known = self._known(entry.kind, entry.name)
        if known is not None and known.kind is not entry.kind and change.replace:
            raise _of_another_kind(known, "replace with", entry.kind)
        if known is not None and not change.replace:
            if change.tolerant or (again and known == entry):
                return _nothing
            raise SqlError(f'{_TITLES[known.kind]} with name "{entry.name}" already exists!')
        check = {Kind.VIEW: self._check_view, Kind.MACRO: self._check_macro}[entry.kind]
        check(entry, sql)
        return partial(self._catalog.define, entry, persistent=not change.temporary)

    def _check_view(self, entry: Entry, sql: str) -> None:
        """The view's own text stays at its place in the statement, so that errors point there."""
        view = view_of(entry)
        at = sql.rindex(view.query)
        prefix = "".join("\n" if letter == "\n" else " " for letter in sql[:at])
        bound = self._binder.bind(prefix + view.query)
        if len(view.columns) > len(bound.columns):
            raise SqlError("More VIEW aliases than columns in query result")

    def _check_macro(self, entry: Entry, sql: str) -> None:
        seen = set()
        for form in overloads_of(entry):
            shape = (form.is_table, len(form.parameters))
            if shape in seen:
                raise SqlError(
                    f"{entry.name}: forms of as many parameters that differ in types only are not "
                    "supported; give them different names"
                )
            seen.add(shape)
        self._binder.check_macro(entry)

    # -- drop --------------------------------------------------------------------------------------

    def _drop(self, change: Drop, *, tolerant: bool) -> Callable[[], object]:
        known = self._known(change.kind, change.name)
        if known is not None and known.kind is not change.kind:
            raise _of_another_kind(known, "drop", change.kind)
        if known is None:
            if not tolerant:
                raise SqlError(self._missing(change))
            return _nothing
        return partial(self._catalog.undefine, change.kind, change.name)

    def _missing(self, change: Drop) -> str:
        reason = f"{_TITLES[change.kind]} with name {change.name} does not exist!"
        close = () if change.kind is Kind.MACRO else self._catalog.nearest(change.name)
        hint = " or ".join(f'"{name}"' for name in close)
        return f"{reason}\nDid you mean {hint}?" if hint else reason

    def _known(self, kind: Kind, name: str) -> Entry | None:
        """What has the name: tables and views share theirs."""
        found = self._catalog.macros() if kind is Kind.MACRO else self._catalog.views()
        entry = found.get(name.lower())
        if entry is None and kind is not Kind.MACRO and self._catalog.has(name):
            return Entry(name=name)
        return entry


def _of_another_kind(known: Entry, verb: str, wanted: Kind) -> SqlError:
    return SqlError(
        f'Existing object "{known.name}" is of type {_TITLES[known.kind]}, trying to {verb} type '
        f"{_TITLES[wanted]}"
    )
