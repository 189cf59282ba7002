"""Random queries whose answer is one multiset of rows, or one sequence where they are ordered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import duckdb

from tests.fuzz.data import Column, Table
from tests.fuzz.expressions import Expressions, is_list
from tests.fuzz.values import INTEGERS, pool

_JOINS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")
_SET_OPERATIONS = ("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")


@dataclass(frozen=True)
class Question:
    sql: str
    ordered: bool = False
    setup: tuple[str, ...] = ()  # definitions, made before it is asked
    parameters: tuple[Any, ...] = ()


class Refused(Exception):
    """DuckDB does not take a part of a query: nothing bigger is built on it."""


class Queries:
    """Queries over tables of ``oracle``, which tells the types of what was built so far."""

    def __init__(
        self, random: Random, oracle: duckdb.DuckDBPyConnection, tables: Sequence[Table]
    ) -> None:
        self.random = random
        self.oracle = oracle
        self.tables = tables
        self.of = Expressions(random)
        self._names = 0

    def question(self) -> Question:
        """One statement. Now and then it is wrong, and DuckDB says so."""
        while True:
            try:
                return self._question()
            except Refused:
                continue

    def _question(self) -> Question:
        sql = self._query(self.random.choice((1, 2, 2, 3)))
        if self.of.chance(0.03):
            return Question(self._spoilt(sql))
        if not self.of.chance(0.4):
            return Question(sql)
        return Question(self._in_order(sql), ordered=True)

    def _spoilt(self, sql: str) -> str:
        return self.random.choice(
            (
                sql.replace("t0", "tt0", 1),
                f"SELECT nothing FROM ({sql}) AS q",
                f"{sql} WHERE",
                f"SELECT q.*, sum(1) FROM ({sql}) AS q",
                f"SELECT 1 + [1] FROM ({sql}) AS q",
                f"SELECT no_such_function(1) FROM ({sql}) AS q",
                f"SELECT 1 FROM ({sql}) AS q UNION SELECT 1, 2",
                f"SELECT sum(count(*)) FROM ({sql}) AS q",
                f"SELECT error('told so') FROM ({sql}) AS q",
                f"SELECT 'abc'::INTEGER FROM ({sql}) AS q",
                f"SELECT (SELECT * FROM (VALUES (1), (2))) FROM ({sql}) AS q",
            )
        )

    def _in_order(self, sql: str) -> str:
        keys = self._total_order(self._columns(sql, "q"))
        text = f"SELECT * FROM ({sql}) AS q ORDER BY {keys}"
        if self.of.chance(0.6):
            text += f" LIMIT {self.random.choice((0, 1, 3, 10, 1000))}"
        if self.of.chance(0.3):
            text += f" OFFSET {self.random.choice((0, 1, 5, 100))}"
        return text

    def _total_order(self, columns: Sequence[Column]) -> str:
        """Every column in some order: rows that tie are equal."""
        shuffled = self.random.sample(columns, k=len(columns))
        return ", ".join(column.sql + self._direction() for column in shuffled) or "1"

    def _direction(self) -> str:
        direction = self.random.choice(("", " ASC", " DESC"))
        return direction + self.random.choice(("", "", " NULLS FIRST", " NULLS LAST"))

    def _alias(self, stem: str = "s") -> str:
        self._names += 1
        return f"{stem}{self._names}"

    def _columns(self, sql: str, alias: str) -> list[Column]:
        try:
            rows = self.oracle.execute(f"DESCRIBE {sql}").fetchall()
        except duckdb.Error as error:
            raise Refused(str(error)) from error
        return [Column(f'{alias}."{name}"', kind) for name, kind, *_ in rows]

    # -- what a query is made of -------------------------------------------------------------------

    def _query(self, depth: int) -> str:
        simple = [self._select, self._select, self._grouped, self._grouped, self._global]
        nested = [
            *(self._windowed, self._set_operation, self._distinct, self._distinct_on, self._with),
            *(self._subquery_columns, self._unnested, self._lateral, self._typed, self._sets),
        ]
        make: Callable[[int], str] = self.random.choice(simple + (nested if depth > 0 else []))
        return make(depth - 1)

    def _source(self, depth: int) -> tuple[str, list[Column]]:
        """A FROM item and its columns."""
        alias = self._alias()
        if depth > 0 and self.of.chance(0.3):
            sql = self._query(depth)
            return f"({sql}) AS {alias}", self._columns(sql, alias)
        if self.of.chance(0.05):
            kind = self.random.choice(("INTEGER", "VARCHAR", "DECIMAL(9,2)", "DATE"))
            rows = ", ".join(f"({self.of.literal(kind)})" for _ in range(3))
            return f"(VALUES {rows}) AS {alias}(v)", [Column(f"{alias}.v", kind)]
        table = self.random.choice(self.tables)
        columns = [Column(f"{alias}.{column.sql}", column.type) for column in table.columns]
        return f"{table.name} AS {alias}", columns

    def _from(self, depth: int) -> tuple[str, list[Column]]:
        text, scope = self._source(depth)
        for _ in range(self.random.choice((0, 0, 1, 1, 2))):
            right, columns = self._source(0)
            join = self.random.choice(_JOINS)
            if self.of.chance(0.06):
                text, scope = f"{text} CROSS JOIN {right}", scope + columns
                continue
            text += f" {join} {right} ON {self._condition(scope, columns)}"
            if join not in ("SEMI JOIN", "ANTI JOIN"):
                scope = scope + columns
        return text, scope

    def _condition(self, left: list[Column], right: list[Column]) -> str:
        operator = "=" if self.of.chance(0.8) else None
        parts = [self.of.comparison(left, right, operator)]
        if self.of.chance(0.3):
            parts.append(self.of.comparison(left, right, "="))
        if self.of.chance(0.3):
            parts.append(self.of.comparison(left, right))
        if self.of.chance(0.1):
            parts.append(self.of.predicate(left + right, 1))
        return " AND ".join(f"({part})" for part in parts)

    def _where(self, scope: list[Column], depth: int) -> str:
        parts = [self.of.predicate(scope)] if self.of.chance(0.5) else []
        if depth >= 0 and self.of.chance(0.3):
            parts.append(self._subquery(scope))
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def _items(self, expressions: Sequence[str]) -> str:
        return ", ".join(f"{each} AS r{i}" for i, each in enumerate(expressions))

    def _select(self, depth: int) -> str:
        text, scope = self._from(depth)
        count = self.random.randint(1, 4)
        items = [self.of.some(scope, self.random.choice((0, 0, 1, 2))) for _ in range(count)]
        return f"SELECT {self._items(items)} FROM {text}{self._where(scope, depth)}"

    # -- aggregates --------------------------------------------------------------------------------

    def _aggregates(self, scope: list[Column]) -> list[str]:
        return [self.of.aggregate(scope) for _ in range(self.random.choice((1, 2, 3, 5)))]

    def _global(self, depth: int) -> str:
        text, scope = self._from(depth)
        items = self._items(self._aggregates(scope))
        return f"SELECT {items} FROM {text}{self._where(scope, depth)}"

    def _grouped(self, depth: int) -> str:
        text, scope = self._from(depth)
        keys = [
            self.random.choice(scope).sql if scope and self.of.chance(0.8) else self.of.some(scope)
            for _ in range(self.random.choice((1, 1, 2, 3)))
        ]
        items = self._items([*keys, *self._aggregates(scope)])
        numbers = ", ".join(str(i + 1) for i in range(len(keys)))
        having = f" HAVING {self._having(scope)}" if self.of.chance(0.2) else ""
        return f"SELECT {items} FROM {text}{self._where(scope, depth)} GROUP BY {numbers}{having}"

    def _having(self, scope: list[Column]) -> str:
        x = self.of.some(scope, 0)
        return self.random.choice(
            ("count(*) > 1", f"count({x}) < 3", f"min({x}) IS NOT NULL", f"count(DISTINCT {x}) > 1")
        )

    def _sets(self, depth: int) -> str:
        text, scope = self._from(depth)
        if not scope:
            raise Refused("no column to group by")
        keys = [c.sql for c in self.random.sample(scope, k=min(len(scope), 3))]
        chosen = [self.random.sample(keys, k=self.random.randint(0, len(keys))) for _ in range(3)]
        listed = ", ".join(f"({', '.join(each)})" for each in chosen)
        how = self.random.choice(
            (
                f"ROLLUP ({', '.join(keys)})",
                f"CUBE ({', '.join(keys)})",
                f"GROUPING SETS ({listed})",
            )
        )
        if how.startswith("GROUPING"):
            keys = [key for key in keys if any(key in each for each in chosen)]
        marks = [f"grouping({', '.join(keys)})"] if keys else []
        items = self._items([*keys, *marks, *self._aggregates(scope)])
        return f"SELECT {items} FROM {text}{self._where(scope, -1)} GROUP BY {how}"

    # -- windows, sets, distinct -------------------------------------------------------------------

    def _derived(self, depth: int) -> tuple[str, list[Column]]:
        sql, alias = self._query(depth), self._alias("q")
        return f"({sql}) AS {alias}", self._columns(sql, alias)

    def _windowed(self, depth: int) -> str:
        text, scope = self._derived(depth)
        items = [column.sql for column in scope]
        items += [self._window(scope) for _ in range(self.random.choice((1, 2, 3)))]
        sql = f"SELECT {self._items(items)} FROM {text}"
        if self.of.chance(0.15):
            sql += f" QUALIFY row_number() OVER (ORDER BY {self._total_order(scope)}) <= 5"
        return sql

    def _window(self, scope: list[Column]) -> str:
        keys = [self.random.choice(scope).sql for _ in range(self.random.choice((0, 1, 1, 2)))]
        partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
        x = self.random.choice(scope)
        order = f"ORDER BY {self._total_order(scope)}"
        frame = self.random.choice(
            (
                *("", " ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING", " ROWS UNBOUNDED PRECEDING"),
                " GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW",
                " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE TIES",
            )
        )
        small = self.of.small(scope)
        call = self.random.choice(
            (
                *("row_number()", "rank()", "dense_rank()", "ntile(3)", "percent_rank()"),
                *(f"lag({x.sql})", f"lead({x.sql}, 2)", "cume_dist()"),
            )
        )
        framed = self.random.choice(
            (
                *(f"count({x.sql})", f"min({x.sql})", f"max({x.sql})", "count(*)"),
                *(f"first_value({x.sql})", f"last_value({x.sql})", f"nth_value({x.sql}, 2)"),
                f"first_value({x.sql} IGNORE NULLS)",
                f"count(DISTINCT {x.sql})",
                f"count({x.sql}) FILTER (WHERE {self.of.predicate(scope, 0)})",
            )
        )
        whole = f"round(sum({small}) OVER ({partition.strip()})::DOUBLE, 4)"
        return self.random.choice(
            (
                f"{call} OVER ({partition}{order})",
                f"{framed} OVER ({partition}{order}{frame})",
                whole,
            )
        )

    def _of_types(self, kinds: Sequence[str], depth: int) -> str:
        text, scope = self._from(depth)
        items = self._items([self.of.of(kind, scope, 1) for kind in kinds])
        return f"SELECT {items} FROM {text}{self._where(scope, depth)}"

    def _set_operation(self, depth: int) -> str:
        sql = self._query(depth)
        kinds = [column.type for column in self._columns(sql, "q")]
        for _ in range(self.random.choice((1, 1, 2))):
            other = self._of_types(kinds, 0)
            sql = f"({sql}) {self.random.choice(_SET_OPERATIONS)} ({other})"
        return f"SELECT * FROM ({sql}) AS {self._alias('u')}"

    def _distinct(self, depth: int) -> str:
        text, scope = self._from(depth)
        items = [self.of.some(scope, 1) for _ in range(self.random.randint(1, 3))]
        return f"SELECT DISTINCT {self._items(items)} FROM {text}{self._where(scope, depth)}"

    def _distinct_on(self, depth: int) -> str:
        text, scope = self._derived(depth)
        keys = [c.sql for c in self.random.sample(scope, k=self.random.randint(1, len(scope)))]
        keys = keys[:2]
        rest = self._total_order(scope)
        return (
            f"SELECT DISTINCT ON ({', '.join(keys)}) {self._items([c.sql for c in scope])} "
            f"FROM {text} ORDER BY {', '.join(keys)}, {rest}"
        )

    # -- subqueries --------------------------------------------------------------------------------

    def _subquery(self, scope: list[Column]) -> str:
        """A predicate with a subquery, correlated or not."""
        text, inner = self._source(0)
        if not scope or not inner:
            return "true"
        linked = f" WHERE {self.of.comparison(inner, scope, '=')}"
        if self.of.chance(0.6):
            linked += f" AND {self.of.comparison(inner, scope)}"
        where = self.random.choice(("", f" WHERE {self.of.predicate(inner, 1)}", linked, linked))
        column = self.random.choice(scope)
        alike = [each.sql for each in inner if each.type == column.type]
        target = self.random.choice(alike) if alike else self.of.of(column.type, inner, 1)
        negated = self.random.choice(("", "NOT "))
        operator = self.random.choice(("=", "<", ">=", "<>"))
        count = f"(SELECT count(*) FROM {text}{where})"
        return self.random.choice(
            (
                f"{column.sql} {negated}IN (SELECT {target} FROM {text}{where})",
                f"{column.sql} {negated}IN (SELECT {target} FROM {text}{where})",
                f"{negated}EXISTS (SELECT 1 FROM {text}{where})",
                f"{column.sql} {operator} (SELECT max({target}) FROM {text}{where})",
                f"{column.sql} {operator} ANY (SELECT {target} FROM {text}{where})",
                f"{column.sql} {operator} ALL (SELECT {target} FROM {text}{where})",
                f"{count} > 2",
            )
        )

    def _subquery_columns(self, depth: int) -> str:
        """Subqueries as values."""
        text, scope = self._from(0)
        items = [column.sql for column in scope[:2]] + [self._subquery(scope)]
        inside, inner = self._source(0)
        if scope and inner:
            linked = self.of.comparison(inner, scope, "=")
            items.append(f"(SELECT {self.of.aggregate(inner)} FROM {inside} WHERE {linked})")
        # Without a filter the engine may join the subquery to the table itself.
        where = self._where(scope, depth) if self.of.chance(0.5) else ""
        return f"SELECT {self._items(items)} FROM {text}{where}"

    def _lateral(self, depth: int) -> str:
        text, scope = self._source(depth)
        inside, inner = self._source(0)
        if not inner or not scope:
            raise Refused("nothing to correlate")
        alias, linked = self._alias("l"), self.of.comparison(inner, scope, "=")
        lateral = f"(SELECT {self._items(self._aggregates(inner))} FROM {inside} WHERE {linked})"
        left = self.random.choice(scope).sql
        return f"SELECT {left} AS k, {alias}.* FROM {text}, LATERAL {lateral} AS {alias}"

    def _with(self, depth: int) -> str:
        """A common table expression that is read twice."""
        sql, name = self._query(depth), self._alias("w")
        a, b = self._alias(), self._alias()
        first, second = self._columns(sql, a), self._columns(sql, b)
        hint = self.random.choice(("", "", " MATERIALIZED", " NOT MATERIALIZED"))
        start = f"WITH {name} AS{hint} ({sql})"
        if self.of.chance(0.4):
            kinds = self._items([column.sql for column in first])
            return (
                f"{start} SELECT {kinds} FROM {name} AS {a} WHERE {self.of.predicate(first, 1)} "
                f"UNION ALL SELECT * FROM {name} AS {b}"
            )
        items = self._items([self.of.some(first + second, 0) for _ in range(2)])
        condition = self._condition(first, second)
        join = self.random.choice(("JOIN", "LEFT JOIN", "FULL JOIN"))
        return f"{start} SELECT {items} FROM {name} AS {a} {join} {name} AS {b} ON {condition}"

    def _unnested(self, depth: int) -> str:
        text, scope = self._from(0)
        lists = [column.sql for column in scope if is_list(column.type)]
        whole = [c.sql for c in scope if c.type in INTEGERS]
        if lists and self.of.chance(0.7):
            item = f"unnest({self.random.choice(lists)})"
        elif whole:
            item = f"unnest(range((abs({self.random.choice(whole)} % 4))::BIGINT))"
        else:
            item = f"unnest({self.random.choice(pool('INTEGER[]'))})"
        keys = [column.sql for column in scope[:2]]
        return f"SELECT {self._items([*keys, item])} FROM {text}{self._where(scope, -1)}"

    def _typed(self, depth: int) -> str:
        """Columns of types that no Parquet file has."""
        text, scope = self._from(0)
        kinds = [
            *("HUGEINT", "UHUGEINT", "TIMESTAMP_S", "TIMESTAMP_MS", "TIME WITH TIME ZONE", "BIT"),
            *("INTERVAL", "HUGEINT[]", "INTEGER[2]", "STRUCT(h HUGEINT, i INTERVAL)"),
        ]
        chosen = [self.random.choice(kinds) for _ in range(self.random.randint(1, 3))]
        items = [self.of.of(kind, scope, 2) for kind in chosen] + [c.sql for c in scope[:1]]
        return f"SELECT {self._items(items)} FROM {text}"
