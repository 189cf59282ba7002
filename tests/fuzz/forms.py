"""Forms of queries beyond joins, groups and windows: the rest of the grammar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from tests.fuzz.expressions import is_list
from tests.fuzz.queries import Queries, Question, Refused
from tests.fuzz.values import DECIMALS, FLOATS, INTEGERS, MOMENTS, NUMBERS

_COMPARED = (*NUMBERS, *MOMENTS, "VARCHAR")
#: Python values of parameters, by the type of the column they are compared with.
_VALUES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(INTEGERS, (0, 1, 7, -1)),
    **dict.fromkeys(DECIMALS, (Decimal("1.5"), Decimal("-1.50"), 2)),
    **dict.fromkeys(FLOATS, (1.5, float("nan"), -0.0)),
    "VARCHAR": ("a", "it's", "é", ""),
    "DATE": (date(2024, 2, 29), date(1970, 1, 1)),
    "BOOLEAN": (True, False),
}


class Forms(Queries):
    """All of the grammar."""

    def question(self) -> Question:
        """One statement, now and then over a view or a macro, or with parameters."""
        while True:
            try:
                if self.of.chance(0.06):
                    return self._defined()
                if self.of.chance(0.05):
                    return self._parametrized()
            except Refused:
                continue
            return super().question()

    def _query(self, depth: int) -> str:
        if depth <= 0 or self.of.chance(0.65):
            return super()._query(depth)
        forms: Sequence[Callable[[int], str]] = (
            *(self._asof, self._positional, self._using, self._recursive, self._pivot),
            *(self._unpivot, self._limited, self._sampled, self._inside, self._star),
            *(self._clock, self._chance, self._ordered_sets, self._by_name, self._coerced),
            *(self._nested_subquery, self._counted_in_pieces, self._lists),
        )
        return self.random.choice(forms)(depth - 1)

    # -- statements --------------------------------------------------------------------------------

    def _defined(self) -> Question:
        """A view or a macro, and a query over it."""
        if self.of.chance(0.7):
            name = self._alias("v")
            sql = self._query(2)
            columns = self._columns(sql, name)
            made = f"CREATE OR REPLACE VIEW {name} AS {sql}"
            items = self._items([self.random.choice(columns).sql for _ in range(2)])
            where = f" WHERE {self.of.predicate(columns, 1)}" if self.of.chance(0.5) else ""
            return Question(f"SELECT {items} FROM {name}{where}", setup=(made,))
        text, scope = self._source(0)
        name, column = self._alias("m"), self.random.choice(scope)
        body = self.random.choice(
            (
                "coalesce(x, y)",
                "CASE WHEN x IS NULL THEN y ELSE x END",
                "list_filter([x, y], lambda e: e IS NOT NULL)",
                "(SELECT count(*) FROM t0 WHERE x IS NULL)",
            )
        )
        made = f"CREATE OR REPLACE MACRO {name}(x, y := NULL) AS {body}"
        other = self.random.choice(scope).sql if "y" not in body else column.sql
        calls = [f"{name}({column.sql})", f"{name}({column.sql}, y := {other})"]
        return Question(f"SELECT {self._items(calls)} FROM {text}", setup=(made,))

    def _parametrized(self) -> Question:
        text, scope = self._source(1)
        known = [column for column in scope if column.type in _VALUES]
        if not known:
            raise Refused("no column to compare with")
        column = self.random.choice(known)
        value = self.random.choice(_VALUES[column.type])
        operator = self.random.choice(("=", "<>", "<", ">="))
        items = self._items([each.sql for each in scope[:3]])
        return Question(
            f"SELECT {items}, $2 AS p FROM {text} WHERE {column.sql} {operator} $1",
            parameters=(value, self.random.choice((None, "text", 3, [1, 2], {"a": 1}))),
        )

    # -- joins -------------------------------------------------------------------------------------

    def _asof(self, depth: int) -> str:
        """Only columns that are compared come from the right: which of equal rows is anyone's."""
        left, columns = self._source(depth)
        right, others = self._source(0)
        pairs = [(a.sql, b.sql) for a in columns for b in others if a.type == b.type in _COMPARED]
        if not pairs:
            raise Refused("nothing to compare")
        chosen = self.random.sample(pairs, k=min(len(pairs), self.random.choice((1, 2, 2))))
        *equal, (first, second) = chosen
        operator = self.random.choice((">=", ">", "<=", "<"))
        parts = [f"{a} = {b}" for a, b in equal] + [f"{first} {operator} {second}"]
        items = self._items([columns[0].sql, first, second])
        join = self.random.choice(("ASOF JOIN", "ASOF LEFT JOIN"))
        return f"SELECT {items} FROM {left} {join} {right} ON {' AND '.join(parts)}"

    def _positional(self, depth: int) -> str:
        a, b = self._alias(), self._alias()
        first, second = self.random.choice(self.tables), self.random.choice(self.tables)
        left = [f"{a}.{column.sql}" for column in first.columns[:2]]
        right = [f"{b}.{column.sql}" for column in second.columns[:2]]
        items = self._items([*left, *right])
        return f"SELECT {items} FROM {first.name} AS {a} POSITIONAL JOIN {second.name} AS {b}"

    def _using(self, depth: int) -> str:
        a, b = self._alias(), self._alias()
        first, second = self.random.choice(self.tables), self.random.choice(self.tables)
        # Of other pairs of types a cast may fail, for rows DuckDB need not look at.
        shared = {
            a.sql
            for a in first.columns
            for b in second.columns
            if a.sql == b.sql and (a.type == b.type or {a.type, b.type} <= {*NUMBERS})
        }
        if not shared:
            raise Refused("no columns to join by")
        keys = self.random.sample(sorted(shared), k=min(len(shared), self.random.choice((1, 2))))
        join = self.random.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN"))
        items = [*keys, f"{a}.{first.columns[0].sql}"]
        if join != "SEMI JOIN":
            items.append(f"{b}.{second.columns[-1].sql}")
        return (
            f"SELECT {self._items(items)} FROM {first.name} AS {a} {join} {second.name} AS {b} "
            f"USING ({', '.join(keys)})"
        )

    # -- recursion, pivots -------------------------------------------------------------------------

    def _recursive(self, depth: int) -> str:
        text, scope = self._source(0)
        name, table, alias = self._alias("r"), self.random.choice(self.tables), self._alias()
        start = f"SELECT {self.of.small(scope)}::BIGINT % 7, 0 FROM {text}"
        union = self.random.choice(("UNION", "UNION ALL"))
        key = next((c.sql for c in table.columns if c.type in INTEGERS), None)
        step = f"SELECT n + 1, level + 1 FROM {name} WHERE level < {self.random.choice((0, 2, 4))}"
        if key and self.of.chance(0.5):
            step += f" AND n IN (SELECT {alias}.{key} FROM {table.name} AS {alias})"
        return (
            f"WITH RECURSIVE {name}(n, level) AS ({start} {union} {step}) "
            f"SELECT n, level, count(*) AS c FROM {name} GROUP BY n, level"
        )

    def _pivot(self, depth: int) -> str:
        sql = self._query(depth)
        columns = self._columns(sql, "q")
        if len(columns) < 2:
            raise Refused("too few columns to pivot")
        on, value = (c.sql.partition(".")[2] for c in self.random.sample(columns, k=2))
        kind = next(c.type for c in columns if c.sql.partition(".")[2] == on)
        entries = dict.fromkeys(self.of.literal(kind) for _ in range(3))
        listed = ", ".join(f"{literal} AS p{i}" for i, literal in enumerate(entries))
        calls = self.random.choice(
            (f"count({value}) AS n", f"min({value}) AS a, max({value}) AS b", "count(*) AS n")
        )
        groups = [c.sql.partition(".")[2] for c in columns[:2]]
        grouped = [name for name in groups if name not in (on, value)]
        group = f" GROUP BY {', '.join(grouped)}" if grouped else ""
        return f"SELECT * FROM (PIVOT ({sql}) ON {on} IN ({listed}) USING {calls}{group})"

    def _unpivot(self, depth: int) -> str:
        text, scope = self._from(0)
        kind = self.of.some_type(scope)
        items = self._items([self.of.of(kind, scope, 1) for _ in range(3)])
        nulls = self.random.choice(("", " INCLUDE NULLS"))
        source = f"(SELECT {items} FROM {text})"
        return f"SELECT * FROM {source} UNPIVOT{nulls} (v FOR n IN (r0, r1))"

    # -- limits and samples ------------------------------------------------------------------------

    def _limited(self, depth: int) -> str:
        """How many rows, or which if they are in order."""
        text, scope = self._derived(depth)
        bound = self.random.choice(("3", "0", "30%", "12.5 %", "(SELECT 2)", "1 + 2", "100%"))
        if not scope or self.of.chance(0.4):
            return f"SELECT count(*) AS r0 FROM (SELECT 1 FROM {text} LIMIT {bound})"
        items = self._items([column.sql for column in scope])
        offset = self.random.choice(("", " OFFSET 1", " OFFSET (SELECT 1)"))
        order = self._total_order(scope)
        inner = f"SELECT {items} FROM {text} ORDER BY {order} LIMIT {bound}{offset}"
        return f"SELECT * FROM ({inner}) AS {self._alias()}"

    def _sampled(self, depth: int) -> str:
        text, _ = self._derived(depth)
        sample = self.random.choice(
            ("reservoir(3 ROWS)", "bernoulli(100%)", "system(100%)", "0 ROWS", "1000 ROWS")
        )
        return f"SELECT count(*) AS r0 FROM (SELECT * FROM {text} USING SAMPLE {sample})"

    # -- values ------------------------------------------------------------------------------------

    def _inside(self, depth: int) -> str:
        """Fields, keys, elements and slices of nested values."""
        text, scope = self._from(0)
        items = []
        for column in scope:
            x = column.sql
            if column.type == "STRUCT(a INTEGER, b VARCHAR)":
                items += [f"{x}.a", f"{x}['b']", f"struct_extract({x}, 'a')", f"struct_keys({x})"]
            if column.type.startswith("MAP("):
                items += [f"{x}['a']", f"map_keys({x})", f"cardinality({x})", f"map_values({x})"]
            if is_list(column.type):
                items += [f"{x}[1]", f"{x}[-1]", f"{x}[2:]", f"list_distinct({x}) IS NULL"]
            if column.type == "VARCHAR":
                items += [f"{x}[1]", f"{x}[1:2]", f"string_split({x}, 'a')"]
        if not items:
            first = self.of.some(scope, 1)
            items = [f"{{'k': {first}, 'l': [{first}]}}", f"[{first}, NULL]", f"row({first}, 1)"]
        chosen = self.random.sample(items, k=min(len(items), self.random.randint(1, 3)))
        return f"SELECT {self._items(chosen)} FROM {text}{self._where(scope, -1)}"

    def _lists(self, depth: int) -> str:
        """Lambdas and functions of lists."""
        text, scope = self._from(0)
        lists = [
            column for column in scope if column.type in ("INTEGER[]", "VARCHAR[]", "DOUBLE[]")
        ]
        number = self.of.small(scope)
        x = self.random.choice(lists).sql if lists else f"[{number}, NULL, 2]"
        items = [
            f"list_transform({x}, lambda e: e IS NULL)",
            f"list_filter({x}, lambda e: e IS NOT NULL)",
            f"list_transform({x}, lambda e, i: i + len({x}))",
            f"[e for e in {x} if e IS NOT NULL]",
            f"list_transform([1, 2], lambda e: e + ({number}))",
            f"list_sort({x})",
            f"list_reverse({x})",
            f"list_contains({x}, NULL)",
            f"list_concat({x}, {x})",
            f"list_unique({x})",
            f"len({x})",
        ]
        chosen = self.random.sample(items, k=self.random.randint(1, 3))
        return f"SELECT {self._items(chosen)} FROM {text}"

    def _star(self, depth: int) -> str:
        text, scope = self._derived(depth)
        if not scope:
            raise Refused("no columns")
        names = [column.sql.partition(".")[2] for column in scope]
        one = self.random.choice(names)
        return self.random.choice(
            (
                f"FROM {text}",
                f"FROM {text} SELECT {one} AS r0",
                f"SELECT * REPLACE ({self.of.some(scope, 1)} AS {one}) FROM {text}",
                f"SELECT * EXCLUDE ({one}), 1 AS r_last FROM {text}",
                f"SELECT COLUMNS('.*') FROM {text}",
                f"SELECT min(COLUMNS(*)) FROM {text}",
                f"SELECT * RENAME ({one} AS renamed) FROM {text}",
            )
        )

    def _clock(self, depth: int) -> str:
        text, _ = self._from(0)
        return self.random.choice(
            (
                f"SELECT count(DISTINCT now()) AS r0, count(*) AS r1 FROM {text}",
                f"SELECT now() = current_timestamp AS r0, today() = current_date AS r1 FROM {text}",
                f"SELECT current_date - today() AS r0 FROM {text} WHERE now() IS NOT NULL",
            )
        )

    def _chance(self, depth: int) -> str:
        """What is certain of random values."""
        text, scope = self._from(0)
        name = self._alias("w")
        key = self.random.choice(scope).sql if scope else "1"
        return self.random.choice(
            (
                f"SELECT count(*) AS r0 FROM (SELECT random() AS r FROM {text}) WHERE r < 1",
                f"SELECT count(DISTINCT uuid()) = count(*) AS r0 FROM {text}",
                f"WITH {name} AS MATERIALIZED (SELECT {key} AS k, uuid() AS u FROM {text}) "
                f"SELECT count(*) AS r0 FROM {name} AS a JOIN {name} AS b ON a.u = b.u",
                f"SELECT count(*) AS r0 FROM (SELECT {key} AS k, random() AS r FROM {text}) "
                "WHERE r <> r",
            )
        )

    def _ordered_sets(self, depth: int) -> str:
        text, scope = self._from(0)
        small, x = self.of.small(scope), self.of.some(scope, 0)
        calls = [
            f"round((percentile_cont(0.3) WITHIN GROUP (ORDER BY {small}))::DOUBLE, 4)",
            f"percentile_disc(0.5) WITHIN GROUP (ORDER BY {x} DESC)",
            f"quantile_disc({x}, [0.1, 0.9])",
            f"list({x} ORDER BY {x})[1:2]",
            f"list(DISTINCT {x} ORDER BY {x} NULLS FIRST)",
        ]
        chosen = self._items(self.random.sample(calls, k=2))
        if not scope or self.of.chance(0.4):
            return f"SELECT {chosen} FROM {text}"
        return f"SELECT {self.random.choice(scope).sql} AS k, {chosen} FROM {text} GROUP BY 1"

    # -- sets and subqueries -----------------------------------------------------------------------

    def _by_name(self, depth: int) -> str:
        first, second = self._query(depth), self._query(0)
        union = self.random.choice(("UNION ALL BY NAME", "UNION BY NAME"))
        return f"SELECT * FROM (({first}) {union} ({second})) AS {self._alias('u')}"

    def _coerced(self, depth: int) -> str:
        """Inputs of types that are made one."""
        kinds = self.random.sample((*INTEGERS, *DECIMALS[:3], "DOUBLE"), k=2)
        parts = [self._of_types([kind, "VARCHAR"], 0) for kind in kinds]
        operation = self.random.choice(("UNION ALL", "UNION", "EXCEPT", "INTERSECT ALL"))
        return f"SELECT * FROM (({parts[0]}) {operation} ({parts[1]})) AS {self._alias('u')}"

    def _nested_subquery(self, depth: int) -> str:
        """Two levels, each correlated with the one above."""
        text, scope = self._source(0)
        middle, inner = self._source(0), self._source(0)
        if not (scope and middle[1] and inner[1]):
            raise Refused("nothing to correlate")
        first = self.of.comparison(middle[1], scope, "=")
        second = self.of.comparison(inner[1], middle[1], "=")
        level = f"(SELECT count(*) FROM {inner[0]} WHERE {second})"
        test = self.random.choice(
            (f"{level} > 1", f"NOT EXISTS (SELECT 1 FROM {inner[0]} WHERE {second})")
        )
        items = self._items(
            [scope[0].sql, f"(SELECT count(*) FROM {middle[0]} WHERE {first} AND {test})"]
        )
        return f"SELECT {items} FROM {text}"

    def _counted_in_pieces(self, depth: int) -> str:
        """A table function that depends on the row."""
        text, scope = self._source(0)
        whole = [c.sql for c in scope if c.type in INTEGERS]
        if not whole:
            raise Refused("no whole number")
        n, alias = self.random.choice(whole), self._alias("g")
        call = f"unnest(range((abs({n} % 3))::BIGINT))"
        lateral = f"LATERAL (SELECT {call} AS v) AS {alias}"
        return f"SELECT {n} AS r0, {alias}.v AS r1 FROM {text}, {lateral}"
