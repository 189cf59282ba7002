"""Aggregate states through Parquet: the layouts are the engine's, and the results are exact."""

from __future__ import annotations

import json
import math
from pathlib import Path

import duckdb
import pytest

from crossdock.executor.carriers import decode_column, encode_column
from crossdock.executor.types import parse_type
from crossdock.planner.aggregate_states import STATES_CARRIED, state_is_carried, state_layout
from crossdock.planner.plan import CarriedColumn

COLUMNS = {
    "x": "DOUBLE", "v": "INTEGER", "d": "DECIMAL(10,2)", "dd": "DECIMAL(38,2)",
    "d4": "DECIMAL(4,1)", "n": "BIGINT", "s": "VARCHAR",
    "b": "BOOLEAN", "dt": "DATE", "ts": "TIMESTAMP", "h": "HUGEINT",
    "uh": "UHUGEINT", "f": "FLOAT", "l": "HUGEINT[]", "st": "STRUCT(a HUGEINT)", "u": "UTINYINT",
    "iv": "INTERVAL", "nan": "DOUBLE", "si": "SMALLINT", "ub": "UBIGINT", "tms": "TIMESTAMP_MS",
    "tz": "TIMESTAMP WITH TIME ZONE", "uu": "UUID", "bt": "BIT", "e": "ENUM('p', 'q')",
    "ttz": "TIME WITH TIME ZONE", "ar": "INTEGER[2]", "un": "UNION(a INTEGER, b VARCHAR)",
    "m": "MAP(INTEGER, HUGEINT)", "tp": "TUPLE(INTEGER, HUGEINT)", "nst": "TIMESTAMP_NS",
}  # fmt: skip
ROWS = """
SELECT i, i % 5 AS g, i % 3 AS part,
  CASE WHEN i % 11 > 0 THEN i * 1.5 + 0.1 END::DOUBLE AS x,
  CASE WHEN i % 13 > 0 THEN (i * 7) % 11 END::INTEGER AS v,
  (i * 1.37)::DECIMAL(10,2) AS d, (i * 1.37)::DECIMAL(38,2) AS dd, (i % 9)::DECIMAL(4,1) AS d4,
  9007199254740993 + i * 1000000007 AS n, 's' || i % 7 AS s, i % 2 = 0 AS b,
  DATE '2020-01-01' + i::INTEGER AS dt, TIMESTAMP '2020-01-01' + to_hours(i::INTEGER) AS ts,
  (i - 9)::HUGEINT * 1000000000000000000000000000000000 AS h,
  i::UHUGEINT * 1000000000000000000000000000000000000 AS uh, i::FLOAT AS f,
  [i::HUGEINT << 70] AS l, {'a': i::HUGEINT << 70} AS st, (i % 4)::UTINYINT AS u,
  to_months(i::INTEGER % 3) + to_days(i::INTEGER) + to_microseconds(i) AS iv,
  CASE WHEN i % 9 = 0 THEN 'nan'::DOUBLE ELSE i END AS nan, (i % 100)::SMALLINT AS si,
  i::UBIGINT AS ub, TIMESTAMP_MS '2020-01-01' AS tms,
  TIMESTAMPTZ '2020-01-01 00:00:00+00' + to_hours(i::INTEGER) AS tz,
  lpad(i::VARCHAR, 32, '0')::UUID AS uu, (i % 8)::INTEGER::BIT AS bt,
  CASE WHEN i % 2 = 0 THEN 'p' ELSE 'q' END::ENUM('p', 'q') AS e, '10:00:00+01'::TIMETZ AS ttz,
  [i, NULL]::INTEGER[2] AS ar, union_value(a := i::INTEGER)::UNION(a INTEGER, b VARCHAR) AS un,
  MAP {i::INTEGER: i::HUGEINT << 70} AS m, (i::INTEGER, i::HUGEINT << 70) AS tp,
  TIMESTAMP_NS '2020-01-01 00:00:00.123456789' AS nst
FROM range(200) r(i)
"""
TWO = {name for name in STATES_CARRIED if name.startswith(("arg_", "regr_", "corr", "covar_"))}
TWO |= {"min_by", "max_by"}
#: Depend on the order of rows; any row's value is right.
ANY_ORDER = {"first", "last", "any_value", "arbitrary"}
LISTS = {"list", "array_agg", "string_agg"}


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE t AS {ROWS}")
        yield connection


def call_of(name: str, column: str) -> tuple[str, CarriedColumn]:
    """The call as SQL, and the column that carries its state."""
    arguments, types, constants = [column], [COLUMNS[column]], [""]
    if name in TWO:
        second = "v" if name.startswith(("regr_", "corr", "covar_")) else "i"
        arguments.append(second)
        types.append(COLUMNS.get(second, "BIGINT"))
        constants.append("")
    if name.startswith("quantile"):
        arguments.append("0.3")
        types.append("DOUBLE")
        constants.append("0.3")
    if name == "string_agg":
        arguments.append("';'")
        types.append("VARCHAR")
        constants.append("';'")
    if name == "count_star":
        return "count(*)", CarriedColumn(type="BIGINT", aggregate=name)
    carried = CarriedColumn(
        type="?", aggregate=name, arguments=tuple(types), constants=tuple(constants)
    )
    return f"{name}({', '.join(arguments)})", carried


def is_carried(column: CarriedColumn) -> bool:
    return state_is_carried(column.aggregate, column.arguments, column.constants)


def binds(connection, call: str) -> bool:
    try:
        connection.execute(f"DESCRIBE SELECT {call} FROM t")
    except duckdb.Error:
        return False
    return True


def through_parquet(connection, file: Path, call: str, column: CarriedColumn, by: str = "g"):
    state = f"SELECT {by} AS g, part, {call} EXPORT_STATE AS s FROM t GROUP BY ALL"
    connection.execute(
        f"COPY (SELECT g, {encode_column('s', column)} AS c0 FROM ({state})) TO '{file}'"
    )
    final = f"finalize(combine_aggr({decode_column('c0', column)}))"
    return connection.execute(
        f"SELECT g, typeof(r), r::VARCHAR FROM "
        f"(SELECT g, {final} AS r FROM '{file}' GROUP BY g) ORDER BY g"
    ).fetchall()


def same(name: str, found, expected) -> bool:
    if found == expected or name in ANY_ORDER:
        return [row[:2] for row in found] == [row[:2] for row in expected]
    if [row[:2] for row in found] != [row[:2] for row in expected]:
        return False
    if name in LISTS:
        return all(sorted(f[2]) == sorted(e[2]) for f, e in zip(found, expected, strict=True))
    return all(
        math.isclose(float(f[2]), float(e[2]), rel_tol=1e-9, abs_tol=1e-9)
        for f, e in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("name", sorted(STATES_CARRIED))
def test_carried_states_give_the_plain_result(connection, tmp_path: Path, name: str) -> None:
    proven = 0
    for column in COLUMNS:
        call, carried = call_of(name, column)
        if not is_carried(carried) or not binds(connection, call):
            continue
        if name.startswith(("kurtosis", "skewness")) and column == "nan":
            continue  # out of range by the engine's own rule
        if name == "product" and column not in ("f", "v", "d4"):
            continue  # beyond DOUBLE, where the order of rows decides between 0, inf and nan
        expected = connection.execute(
            f"SELECT g, typeof(r), r::VARCHAR FROM "
            f"(SELECT g, {call} AS r FROM t GROUP BY g) ORDER BY g"
        ).fetchall()
        found = through_parquet(connection, tmp_path / "s.parquet", call, carried)
        assert same(name, found, expected), (call, found[:2], expected[:2])
        proven += 1
    assert proven


def layout_in(connection, call: str) -> str | None:
    """The layout the engine itself states in its serialised plan."""
    query = f"SELECT g, {call} EXPORT_STATE FROM t GROUP BY g"
    (text,) = connection.execute(
        "SELECT json_serialize_plan(?, optimize := false)", [query]
    ).fetchone()
    found = find(json.loads(text), "BOUND_AGGREGATE")
    return None if found is None else type_text(found["return_type"])


def find(node, kind: str):
    if isinstance(node, dict):
        if node.get("type") == kind:
            return node
        node = list(node.values())
    if isinstance(node, list):
        return next((hit for child in node if (hit := find(child, kind)) is not None), None)
    return None


def type_text(node) -> str:
    info = node["type_info"]
    match node["id"]:
        case "STRUCT":
            inner = ", ".join(
                f'"{c["first"]}" {type_text(c["second"])}' for c in info["child_types"]
            )
            return f"STRUCT({inner})"
        case "LIST":
            return f"{type_text(info['child_type'])}[]"
        case "ARRAY":
            return f"{type_text(info['child_type'])}[{info['size']}]"
        case "DECIMAL":
            return f"DECIMAL({info['width']},{info['scale']})"
    return node["id"]


FLAT = [c for c in COLUMNS if c not in ("e", "un", "m", "tp")]


@pytest.mark.parametrize("name", sorted(STATES_CARRIED))
def test_layouts_are_the_engines_own(connection, name: str) -> None:
    compared = 0
    for column in FLAT:
        call, carried = call_of(name, column)
        layout = state_layout(name, carried.arguments, carried.constants)
        if layout is None or not binds(connection, call):
            continue
        assert str(parse_type(layout_in(connection, call))) == str(parse_type(layout)), call
        compared += 1
    assert compared


def test_sum_of_bigint_is_exact_beyond_double(connection, tmp_path: Path) -> None:
    """9007199254740993 + 0 in two parts: a DOUBLE on the way would end in 992."""
    connection.execute("CREATE OR REPLACE TEMP TABLE t AS SELECT 1 AS g, part, v FROM "
                       "(VALUES (0, 9007199254740993), (1, 0)) r(part, v)")  # fmt: skip
    column = CarriedColumn(type="HUGEINT", aggregate="sum", arguments=("BIGINT",))
    found = through_parquet(connection, tmp_path / "s.parquet", "sum(v)", column)
    connection.execute("DROP TABLE temp.t")
    assert found == [(1, "HUGEINT", "9007199254740993")]


@pytest.mark.parametrize("where", ["true", "false"])
@pytest.mark.parametrize("call", ["sum(n)", "count(n)", "avg(d)", "min(dt)", "max(h)", "median(h)"])
def test_states_without_groups_and_of_no_rows(connection, tmp_path, call: str, where: str) -> None:
    """Scalar states, of all rows and of none: NULL or 0 as the plain aggregate has it."""
    name, argument = call.rstrip(")").split("(")
    column = CarriedColumn(type="?", aggregate=name, arguments=(COLUMNS[argument],))
    file = tmp_path / "s.parquet"
    state = f"SELECT {call} EXPORT_STATE AS s FROM t WHERE {where}"
    connection.execute(
        f"COPY (SELECT {encode_column('s', column)} AS c0 FROM ({state})) TO '{file}'"
    )
    final = f"SELECT finalize(combine_aggr({decode_column('c0', column)})) FROM '{file}'"
    plain = f"SELECT {call} FROM t WHERE {where}"
    assert connection.execute(final).fetchall() == connection.execute(plain).fetchall()


@pytest.mark.parametrize(
    ("aggregate", "arguments"),
    [
        ("mode", ("INTEGER",)),
        ("histogram", ("INTEGER",)),
        ("max", ("INTEGER", "BIGINT")),  # top n
        ("arg_max", ("INTEGER", "DOUBLE", "BIGINT")),
        ("max", ("INTERVAL",)),
        ("min", ("TIME WITH TIME ZONE",)),
        ("approx_quantile", ("DOUBLE", "FLOAT")),
        ("no_such_aggregate", ()),
    ],
)
def test_what_is_not_proven_is_not_claimed(aggregate: str, arguments) -> None:
    assert not state_is_carried(aggregate, arguments)


def test_a_quantile_without_its_fraction_is_not_carried() -> None:
    assert not state_is_carried("quantile_cont", ("DOUBLE", "DOUBLE"))
    assert state_is_carried("quantile_cont", ("DOUBLE", "DOUBLE"), ("", "0.3"))
