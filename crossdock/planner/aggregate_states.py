"""Which aggregates may be split into partial and final halves across a shuffle.

A partial aggregate ships the engine's own state (``agg(...) EXPORT_STATE``). Between stages a
state travels as the *layout* the engine stores it in; this module knows that layout for every
aggregate whose way through an exchange section was proven, and nothing else. Pure data: the planner
asks ``state_is_carried``, the executor ``state_layout``; unit tests compare both with the engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

Layout = Callable[[Sequence[str]], str | None]

_TO_BIGINT = frozenset({"TINYINT", "UTINYINT", "USMALLINT", "UINTEGER"})
_SUMMED_WIDE = frozenset({"INTEGER", "BIGINT", "HUGEINT"})
_WITHOUT_SIGN = frozenset({"UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"})
_NUMBERS = frozenset({"TINYINT", "SMALLINT", "FLOAT", "DOUBLE"}) | _SUMMED_WIDE
_TIMES = frozenset({"TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIME WITH TIME ZONE"})
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*\d+\)")
#: Narrow decimals are kept in 16 bits, and their sum in 64 bits.
_NARROW_DECIMAL_WIDTH = 4
#: Types whose minimum the engine finds under another aggregate's name, by a sort key, or whose
#: state it has no cast from, although they need a carrier.
_NO_EXTREME = frozenset(
    {
        *("BIT", "TIME WITH TIME ZONE", "VARIANT"),
        *("INTERVAL", "TIMESTAMP_S", "TIMESTAMP_MS", "BIGNUM"),
    }
)
_NO_EXTREME_KINDS = ("MAP(", "UNION(", "TUPLE(", "STRUCT(")
_BY_VALUE = frozenset(
    {"INTEGER", "BIGINT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"}
)

_VARIANCE = "STRUCT(count UBIGINT, mean DOUBLE, dsquared DOUBLE)"
_COVARIANCE = "STRUCT(count UBIGINT, meanx DOUBLE, meany DOUBLE, co_moment DOUBLE)"
_CORRELATION = f"STRUCT(cov_pop {_COVARIANCE}, dev_pop_x {_VARIANCE}, dev_pop_y {_VARIANCE})"
_SLOPE = f"STRUCT(cov_pop {_COVARIANCE}, var_pop {_VARIANCE})"


def state_is_carried(
    aggregate: str, arguments: Sequence[str], constants: Sequence[str] = ()
) -> bool:
    """Whether the state of ``aggregate`` over ``arguments`` passes an exchange section exactly.

    ``constants`` holds SQL text for the arguments that are constants (a quantile's fraction, a
    separator) and "" for the others. DISTINCT and ORDER BY inside the call have no such state.
    """
    return state_layout(aggregate, arguments, constants) is not None


def state_layout(
    aggregate: str, arguments: Sequence[str], constants: Sequence[str] = ()
) -> str | None:
    """The type the engine stores the state in, or None if the state is not carried."""
    rule = _LAYOUTS.get(aggregate.lower())
    needed = _CONSTANTS.get(aggregate.lower(), frozenset())
    given = {index for index, text in enumerate(constants) if text}
    if rule is None or len(arguments) not in _ARITY.get(aggregate.lower(), (1,)):
        return None
    if given != {index for index in needed if index < len(arguments)}:
        return None
    return rule(bound_arguments(aggregate, arguments)[1])


def bound_arguments(aggregate: str, arguments: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Name and argument types the engine binds the call to; it widens some arguments first."""
    name = aggregate.lower()
    types = tuple(_spelled(each) for each in arguments)
    if name in _SUMS:
        types = tuple(_widened(each) for each in types)
    elif name in _DOUBLES or (name == "mad" and not _kept_by_mad(types)):
        types = ("DOUBLE",) * len(types)
    elif name == "string_agg":
        types = ("VARCHAR",) * len(types)
    return name, types


def _spelled(type: str) -> str:
    """The engine's own spelling of the two types that have a short one."""
    return {
        "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
        "TIMETZ": "TIME WITH TIME ZONE",
    }.get(type, type)


def _widened(type: str) -> str:
    if type in _TO_BIGINT:
        return "BIGINT"
    return {"UBIGINT": "HUGEINT", "UHUGEINT": "DOUBLE", "FLOAT": "DOUBLE"}.get(type, type)


def _kept_by_mad(types: Sequence[str]) -> bool:
    return types[0] not in _NUMBERS | _WITHOUT_SIGN or types[0] == "FLOAT"


def _constant(layout: str) -> Layout:
    return lambda types: layout


def _one_of(layout: str, accepted: frozenset[str]) -> Layout:
    return lambda types: layout if types[0] in accepted else None


def _sum(types: Sequence[str]) -> str | None:
    """128 bits, but 64 where the engine knows that those are enough."""
    (type,) = types
    if decimal := _DECIMAL.fullmatch(type):
        return "BIGINT" if int(decimal[1]) <= _NARROW_DECIMAL_WIDTH else "HUGEINT"
    if type in ("BOOLEAN", "SMALLINT"):
        return "BIGINT"
    if type in _SUMMED_WIDE:
        return "HUGEINT"
    return "DOUBLE" if type == "DOUBLE" else None


def _average(types: Sequence[str]) -> str | None:
    if types[0] == "INTERVAL":
        return "STRUCT(count BIGINT, value INTERVAL)"
    total = "HUGEINT" if types[0] in _TIMES | {"TIMESTAMP_NS"} else _sum(types)
    if total is None or types[0] == "BOOLEAN":
        return None
    return f"STRUCT(count UBIGINT, value {total})"


def _extreme(types: Sequence[str]) -> str | None:
    if types[0] in _NO_EXTREME or types[0].startswith(_NO_EXTREME_KINDS):
        return None
    return types[0]


def _first(types: Sequence[str]) -> str | None:
    return None if "VARIANT" in types[0] else f"STRUCT(value {types[0]})"


def _list(types: Sequence[str]) -> str | None:
    return None if "VARIANT" in types[0] else f"{types[0]}[]"


def _argument_of_extreme(types: Sequence[str]) -> str | None:
    if types[1] not in _BY_VALUE or "VARIANT" in types[0]:
        return None
    return f'STRUCT(arg {types[0]}, "by" {types[1]})'


def _kept_values(types: Sequence[str]) -> str | None:
    """Holistic aggregates keep every value; unsigned ones are converted first, so they are out."""
    return None if types[0] in _WITHOUT_SIGN or "VARIANT" in types[0] else f"{types[0]}[]"


def _kept_numbers(types: Sequence[str]) -> str | None:
    """The same where values are interpolated or subtracted."""
    if types[0] in _NUMBERS | _TIMES | {"DATE"} or _DECIMAL.fullmatch(types[0]):
        return f"{types[0]}[]"
    return None


def _bits(types: Sequence[str]) -> str | None:
    return types[0] if types[0].endswith("INT") or types[0] in ("INTEGER", "UINTEGER") else None


_SUMS = frozenset({"sum", "avg", "mean"})
_BOOLEAN = frozenset({"BOOLEAN"})

_DOUBLES: dict[str, str] = {
    "stddev": _VARIANCE,
    "stddev_samp": _VARIANCE,
    "stddev_pop": _VARIANCE,
    "variance": _VARIANCE,
    "var_samp": _VARIANCE,
    "var_pop": _VARIANCE,
    "sem": _VARIANCE,
    "kurtosis": "STRUCT(n UBIGINT, mean DOUBLE, m2 DOUBLE, m3 DOUBLE, m4 DOUBLE)",
    "kurtosis_pop": "STRUCT(n UBIGINT, mean DOUBLE, m2 DOUBLE, m3 DOUBLE, m4 DOUBLE)",
    "skewness": "STRUCT(n UBIGINT, mean DOUBLE, m2 DOUBLE, m3 DOUBLE)",
    "product": "DOUBLE",
    "fsum": "STRUCT(value DOUBLE, err DOUBLE)",
    "kahan_sum": "STRUCT(value DOUBLE, err DOUBLE)",
    "sumkahan": "STRUCT(value DOUBLE, err DOUBLE)",
    "favg": "STRUCT(count UBIGINT, value DOUBLE, err DOUBLE)",
    "covar_pop": _COVARIANCE,
    "covar_samp": _COVARIANCE,
    "corr": _CORRELATION,
    "regr_count": "UBIGINT",
    "regr_avgx": "STRUCT(sum DOUBLE, count UBIGINT)",
    "regr_avgy": "STRUCT(sum DOUBLE, count UBIGINT)",
    "regr_sxx": f"STRUCT(count UBIGINT, var_pop {_VARIANCE})",
    "regr_syy": f"STRUCT(count UBIGINT, var_pop {_VARIANCE})",
    "regr_sxy": f"STRUCT(count UBIGINT, cov_pop {_COVARIANCE})",
    "regr_slope": _SLOPE,
    "regr_intercept": (f"STRUCT(count UBIGINT, sum_x DOUBLE, sum_y DOUBLE, slope {_SLOPE})"),
    "regr_r2": (f"STRUCT(corr {_CORRELATION}, var_pop_x {_VARIANCE}, var_pop_y {_VARIANCE})"),
}

_LAYOUTS: dict[str, Layout] = {
    **{name: _constant(layout) for name, layout in _DOUBLES.items()},
    "count": _constant("BIGINT"),
    "count_star": _constant("BIGINT"),
    "count_if": _one_of("BIGINT", _BOOLEAN),
    "countif": _one_of("BIGINT", _BOOLEAN),
    "bool_and": _one_of("BOOLEAN", _BOOLEAN),
    "bool_or": _one_of("BOOLEAN", _BOOLEAN),
    "bit_and": _bits,
    "bit_or": _bits,
    "bit_xor": _bits,
    "sum": _sum,
    "sum_no_overflow": _one_of("BIGINT", frozenset({"INTEGER", "BIGINT"})),
    "avg": _average,
    "mean": _average,
    "min": _extreme,
    "max": _extreme,
    "first": _first,
    "last": _first,
    "any_value": _first,
    "arbitrary": _first,
    "arg_min": _argument_of_extreme,
    "arg_max": _argument_of_extreme,
    "arg_min_null": _argument_of_extreme,
    "arg_max_null": _argument_of_extreme,
    "min_by": _argument_of_extreme,
    "max_by": _argument_of_extreme,
    "list": _list,
    "array_agg": _list,
    "string_agg": _constant("VARCHAR"),
    "median": _kept_values,
    "mad": _kept_numbers,
    "quantile_cont": _kept_numbers,
    "quantile_disc": _kept_values,
    "approx_count_distinct": _constant("STRUCT(precision UTINYINT, registers UTINYINT[])"),
}

#: How many arguments; one where nothing is said.
_ARITY: dict[str, tuple[int, ...]] = {
    "count": (0, 1),
    "count_star": (0,),
    "quantile_cont": (2,),
    "quantile_disc": (2,),
    "string_agg": (1, 2),
    **{name: (2,) for name in _LAYOUTS if _LAYOUTS[name] is _argument_of_extreme},
    **{name: (2,) for name in _DOUBLES if name.startswith(("regr_", "corr", "covar_"))},
}

#: Positions that must be constants, because the engine binds them into the function.
_CONSTANTS: dict[str, frozenset[int]] = {
    "quantile_cont": frozenset({1}),
    "quantile_disc": frozenset({1}),
    "string_agg": frozenset({1}),
}

#: Aggregates some of whose states are carried; ``state_is_carried`` decides on the arguments.
STATES_CARRIED: frozenset[str] = frozenset(_LAYOUTS)
