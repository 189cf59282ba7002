"""Random typed expressions over columns in scope.

Deterministic and free of run-time errors as far as that is cheap: casts are TRY_CAST, arithmetic
stays among small numbers, aggregates that depend on row order get one.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.fuzz.data import Column
from tests.fuzz.values import DECIMALS, FLOATS, INTEGERS, MOMENTS, NUMBERS, TYPES, pool

Scope = Sequence[Column]
#: Where FILTER stands, if not at the end.
_CONDITION = "<filter>"
_COMPARISONS = ("=", "=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")


def is_list(kind: str) -> bool:
    return kind.endswith("[]")


class Expressions:
    def __init__(self, random: Random) -> None:
        self.random = random

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def literal(self, kind: str) -> str:
        if kind not in TYPES:
            return f"NULL::{kind}"
        return f"NULL::{kind}" if self.chance(0.05) else self.random.choice(pool(kind))

    def some_type(self, scope: Scope) -> str:
        if scope and self.chance(0.8):
            return self.random.choice(scope).type
        return self.random.choice(TYPES)

    def some(self, scope: Scope, depth: int = 2) -> str:
        """An expression of any type."""
        return self.of(self.some_type(scope), scope, depth)

    def of(self, kind: str, scope: Scope, depth: int = 2) -> str:
        """An expression of exactly this type."""
        same = [column for column in scope if column.type == kind]
        if same and (depth <= 0 or self.chance(0.6)):
            return self.random.choice(same).sql
        if depth <= 0:
            return self.literal(kind)
        if self.chance(0.25):
            return self._general(kind, scope, depth - 1)
        if kind == "BOOLEAN":
            return self.predicate(scope, depth - 1)
        if kind in NUMBERS:
            return f"TRY_CAST({self._number(scope, depth - 1)} AS {kind})"
        if kind == "VARCHAR":
            return self._text(scope, depth - 1)
        if kind in MOMENTS:
            return self._moment(kind, scope, depth - 1)
        return self._general(kind, scope, depth - 1)

    def _general(self, kind: str, scope: Scope, depth: int) -> str:
        first, second = (self.of(kind, scope, depth) for _ in range(2))
        return self.random.choice(
            (
                f"coalesce({first}, {second})",
                f"CASE WHEN {self.predicate(scope, depth)} THEN {first} ELSE {second} END",
                f"nullif({first}, {second})",
                f"(CASE {first} WHEN {second} THEN {first} END)",
                self.literal(kind),
            )
        )

    def small(self, scope: Scope, depth: int = 1) -> str:
        """A number whose sums neither overflow nor lose digits."""
        numbers = [column for column in scope if column.type in NUMBERS]
        if not numbers:
            return self.random.choice(("1", "2.5", "NULL::INTEGER", "3::BIGINT"))
        column = self.random.choice(numbers)
        if column.type in INTEGERS:
            return f"({column.sql} % 100)"
        if column.type in FLOATS:
            return f"(CASE WHEN abs({column.sql}) BETWEEN 0.01 AND 1e6 THEN {column.sql} END)"
        if column.type in DECIMALS[:3]:
            return column.sql
        return f"TRY_CAST({column.sql} AS DECIMAL(18,3))"

    def _number(self, scope: Scope, depth: int) -> str:
        a, b = self.small(scope), self.small(scope)
        texts = [column.sql for column in scope if column.type == "VARCHAR"]
        lists = [column.sql for column in scope if is_list(column.type)]
        options = [
            a,
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * 2)",
            f"-({a})",
            f"abs({a})",
            f"greatest({a}, {b})",
            f"({a} / 4)",
            f"round({a}, 1)",
        ]
        options += [f"length({each})" for each in texts] + [f"len({each})" for each in lists]
        return self.random.choice(options)

    def _text(self, scope: Scope, depth: int) -> str:
        a = self.of("VARCHAR", scope, depth)
        exact = [
            column.sql
            for column in scope
            if column.type in INTEGERS or column.type in (*DECIMALS, "UUID", "BLOB", *MOMENTS)
        ]
        options = [f"upper({a})", f"{a} || 'z'", f"substr({a}, 1, 2)", f"replace({a}, 'a', 'b')"]
        options += [f"{each}::VARCHAR" for each in exact]
        return self.random.choice(options)

    def _moment(self, kind: str, scope: Scope, depth: int) -> str:
        others = [column for column in scope if column.type in MOMENTS]
        if not others:
            return self.literal(kind)
        other = self.random.choice(others).sql
        part = self.random.choice(("year", "month", "day", "hour", "week"))
        return self.random.choice(
            (f"TRY_CAST({other} AS {kind})", f"TRY_CAST(date_trunc('{part}', {other}) AS {kind})")
        )

    # -- predicates --------------------------------------------------------------------------------

    def comparable(self, kind: str) -> str:
        """Usually the same type, else one the engine compares it with."""
        for family in (NUMBERS, MOMENTS):
            if kind in family and self.chance(0.3):
                return self.random.choice(family)
        return kind

    def comparison(self, left: Scope, right: Scope, operator: str | None = None) -> str:
        if not left or not right:
            return self.random.choice(("true", "false", "NULL::BOOLEAN"))
        column = self.random.choice(left)
        alike = [c for c in right if c.type == column.type]
        near = [c for c in right if {c.type, column.type} <= {*NUMBERS}]
        near += [c for c in right if {c.type, column.type} <= {*MOMENTS}]
        operator = operator or self.random.choice(_COMPARISONS)
        if alike and self.chance(0.7):
            return f"{column.sql} {operator} {self.random.choice(alike).sql}"
        if near:
            return f"{column.sql} {operator} {self.random.choice(near).sql}"
        kind = self.comparable(column.type)
        return f"{column.sql} {operator} {self.of(kind, right, 1)}"

    def predicate(self, scope: Scope, depth: int = 2) -> str:
        if depth > 0 and self.chance(0.35):
            a, b = self.predicate(scope, depth - 1), self.predicate(scope, depth - 1)
            return self.random.choice((f"({a} AND {b})", f"({a} OR {b})", f"(NOT {a})"))
        if not scope:
            return self.random.choice(("true", "false"))
        column = self.random.choice(scope)
        kind = column.type
        options = [
            f"({self.comparison(scope, scope)})",
            f"({column.sql} {self.random.choice(_COMPARISONS)} {self.literal(kind)})",
            f"({column.sql} {self.random.choice(_COMPARISONS)} {self.literal(kind)})",
            f"({column.sql} IS NULL)",
            f"({column.sql} IS NOT NULL)",
            f"({column.sql} BETWEEN {self.literal(kind)} AND {self.of(kind, scope, 1)})",
            f"({column.sql} {self.random.choice(('IN', 'NOT IN'))} "
            f"({', '.join(self.literal(kind) for _ in range(self.random.choice((1, 3))))}))",
        ]
        if kind == "VARCHAR":
            pattern = self.random.choice(("a%", "%a%", "_", "%", "A%"))
            options += [f"({column.sql} LIKE '{pattern}')", f"({column.sql} ILIKE '{pattern}')"]
        if kind in FLOATS:
            options.append(f"isnan({column.sql})")
        if kind == "BOOLEAN":
            options.append(column.sql)
        if is_list(kind):
            options.append(f"(len({column.sql}) > 1)")
        return self.random.choice(options)

    # -- aggregates --------------------------------------------------------------------------------

    def aggregate(self, scope: Scope) -> str:
        """A call that does not depend on row order; floats are rounded, so that they compare."""
        call = self.random.choice((self._any, self._counted, self._numeric, self._special))(scope)
        condition = f" FILTER (WHERE {self.predicate(scope, 1)})" if self.chance(0.2) else ""
        return call.replace(_CONDITION, condition) if _CONDITION in call else call + condition

    def _counted(self, scope: Scope) -> str:
        x = self.some(scope, 1)
        return self.random.choice(
            (
                "count(*)",
                f"count({x})",
                f"count(DISTINCT {x})",
                f"count_if({self.predicate(scope, 1)})",
                f"bool_and({self.predicate(scope, 1)})",
                f"bool_or({self.predicate(scope, 1)})",
            )
        )

    def _any(self, scope: Scope) -> str:
        kind = self.some_type(scope)
        x = self.of(kind, scope, 1)
        return self.random.choice(
            (
                f"min({x})",
                f"max({x})",
                f"min({x})",
                f"max(DISTINCT {x})",
                f"list({x} ORDER BY {x} DESC NULLS LAST)",
                f"array_agg(DISTINCT {x} ORDER BY {x})",
                f"first({x} ORDER BY {x} NULLS LAST)",
                f"last({x} ORDER BY {x} DESC NULLS FIRST)",
                f"quantile_disc({x}, 0.5)",
                f"max({x}, 2)",
                f"min({x}, 3)",
                f"arg_max({x}, {x})",
                f"arg_min({x}, {x})",
            )
        )

    def _numeric(self, scope: Scope) -> str:
        x, y = self.small(scope), self.small(scope)
        name = self.random.choice(
            ("avg", "stddev", "var_pop", "median", "mad", "fsum", "skewness", "kurtosis", "sem")
        )
        fraction = self.random.choice((0, 0.25, 0.9))
        pair = self.random.choice(("covar_pop", "regr_avgx", "regr_count", "covar_samp"))
        return self.random.choice(
            (
                f"round(sum({x}){_CONDITION}::DOUBLE, 4)",
                f"round(sum(DISTINCT {x}){_CONDITION}::DOUBLE, 4)"
                if self.chance(0.5)
                else f"count({x})",
                f"round({name}({x}){_CONDITION}::DOUBLE, 4)",
                f"round({pair}({x}, {y}){_CONDITION}::DOUBLE, 4)",
                f"round(quantile_cont({x}, {fraction}){_CONDITION}::DOUBLE, 4)",
                *self._exact_sums(scope),
            )
        )

    def _exact_sums(self, scope: Scope) -> list[str]:
        exact = [
            column.sql
            for column in scope
            if column.type in (*DECIMALS, "INTERVAL")
            or (column.type in INTEGERS and "HUGE" not in column.type)
        ]
        return [f"sum({x})" for x in exact]

    def _special(self, scope: Scope) -> str:
        text = self.of("VARCHAR", scope, 1)
        whole = [c.sql for c in scope if c.type in INTEGERS] or ["1"]
        n = self.random.choice(whole)
        x = self.some(scope, 1)
        return self.random.choice(
            (
                f"string_agg({text}, ',' ORDER BY {text})",
                f"string_agg(DISTINCT {text}, '|' ORDER BY {text} DESC)",
                f"bit_and({n})",
                f"bit_or({n})",
                f"bit_xor({n})",
                f"histogram({x})",
                f"approx_count_distinct({x})",
                f"round(entropy({x}){_CONDITION}, 4)",
                f"round(product(sign({self.small(scope)})::DOUBLE){_CONDITION}, 4)",
            )
        )
