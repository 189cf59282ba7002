"""Literals of every type: ordinary values, ends of ranges, NULL-like oddities, near duplicates."""

from __future__ import annotations

INTEGERS = {
    "TINYINT": (-128, 127),
    "SMALLINT": (-32768, 32767),
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "HUGEINT": (-(2**127), 2**127 - 1),
    "UTINYINT": (0, 255),
    "USMALLINT": (0, 65535),
    "UINTEGER": (0, 2**32 - 1),
    "UBIGINT": (0, 2**64 - 1),
    "UHUGEINT": (0, 2**128 - 1),
}
FLOATS = ("FLOAT", "DOUBLE")
DECIMALS = ("DECIMAL(4,1)", "DECIMAL(9,2)", "DECIMAL(18,3)", "DECIMAL(38,5)")
NUMBERS = (*INTEGERS, *FLOATS, *DECIMALS)
MOMENTS = (
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_S",
    "TIMESTAMP_MS",
    "TIMESTAMP_NS",
    "TIMESTAMP WITH TIME ZONE",
)

_DAYS = ("1969-12-31", "1970-01-01", "2000-02-29", "2024-02-29", "2024-03-31", "2261-01-01")
_CLOCK = ("00:00:00", "12:30:00.5", "23:59:59.999999", "10:00:00.000001")


def _casts(values: tuple[str, ...], kind: str) -> tuple[str, ...]:
    return tuple(f"'{value}'::{kind}" for value in values)


_MOMENTS = tuple(f"{day} {clock}" for day in _DAYS[:4] for clock in _CLOCK[:3])
_PLAIN: dict[str, tuple[str, ...]] = {
    "BOOLEAN": ("true", "false"),
    "FLOAT": _casts(("0", "-0.0", "1.5", "-2.25", "0.1", "100", "nan", "inf", "3e38"), "FLOAT"),
    "DOUBLE": _casts(
        ("0", "-0.0", "1.5", "-2.25", "0.1", "7", "nan", "inf", "-inf", "1e308", "5e-324", "2"),
        "DOUBLE",
    ),
    "DECIMAL(4,1)": _casts(("0", "1.5", "-1.5", "999.9", "-999.9", "2", "7"), "DECIMAL(4,1)"),
    "DECIMAL(9,2)": _casts(("0", "1.50", "-1.5", "9999999.99", "2", "7", "0.01"), "DECIMAL(9,2)"),
    "DECIMAL(18,3)": _casts(("0", "1.5", "-1.5", "99999999999.999", "2", "7"), "DECIMAL(18,3)"),
    "DECIMAL(38,5)": _casts(
        ("0", "1.5", "-1.5", "12345678901234567890.12345", "2", "7", "0.00001"), "DECIMAL(38,5)"
    ),
    "VARCHAR": (
        *("''", "'a'", "'A'", "'b'", "'ab'", "' '", "'1'", "'2'", "'7'", "'nan'", "'é'", "'😀'"),
        *("'it''s'", "'%'", "'a_b'", "'null'", "repeat('x', 40)", "chr(10)"),
    ),
    "BLOB": _casts(("", "a", "\\x00", "\\xFF\\x00", "ab"), "BLOB"),
    "UUID": _casts(
        (
            "00000000-0000-0000-0000-000000000000",
            "00000000-0000-0000-0000-000000000001",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "80000000-0000-0000-0000-000000000000",
        ),
        "UUID",
    ),
    "DATE": (*_casts(_DAYS, "DATE"), *_casts(("infinity", "-infinity", "0044-03-15 (BC)"), "DATE")),
    "TIME": _casts(_CLOCK, "TIME"),
    "TIME WITH TIME ZONE": _casts(("10:00:00+02", "08:00:00+00", "00:00:00-15:59"), "TIMETZ"),
    "TIMESTAMP": (*_casts(_MOMENTS, "TIMESTAMP"), *_casts(("infinity",), "TIMESTAMP")),
    "TIMESTAMP_S": _casts(_MOMENTS, "TIMESTAMP_S"),
    "TIMESTAMP_MS": _casts(_MOMENTS, "TIMESTAMP_MS"),
    "TIMESTAMP_NS": _casts((*_MOMENTS, "2024-02-29 00:00:00.123456789"), "TIMESTAMP_NS"),
    "TIMESTAMP WITH TIME ZONE": _casts(tuple(f"{m}+02" for m in _MOMENTS), "TIMESTAMPTZ"),
    "INTERVAL": _casts(("0 days", "1 month", "30 days", "24 hours", "1 day", "3 s"), "INTERVAL"),
    "BIT": _casts(("0", "1", "0101", "10101010101010101"), "BIT"),
    "INTEGER[]": ("[]", "[1]", "[1, NULL]", "[NULL]", "[2, 1]", "[1, 2]"),
    "VARCHAR[]": ("[]", "['a']", "['a', NULL, '']", "['1', '2']"),
    "DOUBLE[]": ("[0.0]", "[-0.0]", "['nan'::DOUBLE]", "[1.5, 'inf'::DOUBLE]", "[]"),
    "HUGEINT[]": (f"[{2**127 - 1}::HUGEINT, NULL]", "[1::HUGEINT]", "[]"),
    "INTEGER[2]": ("[1, 2]", "[1, NULL]", "[0, 0]"),
    "STRUCT(a INTEGER, b VARCHAR)": (
        "{'a': 1, 'b': 'x'}",
        "{'a': NULL, 'b': 'x'}",
        "{'a': NULL, 'b': NULL}",
        "{'a': 2, 'b': ''}",
    ),
    "STRUCT(h HUGEINT, i INTERVAL)": (
        f"{{'h': {-(2**127)}::HUGEINT, 'i': INTERVAL 1 month}}",
        "{'h': 1::HUGEINT, 'i': NULL}",
    ),
    "STRUCT(a INTEGER)[]": ("[{'a': 1}]", "[]", "[{'a': NULL}, NULL]"),
    "MAP(VARCHAR, INTEGER)": ("MAP {}", "MAP {'a': 1}", "MAP {'a': NULL, 'b': 2}"),
}
#: Types a Parquet file keeps as they are; the others appear in queries, by casts and literals.
STORED = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"),
    *("UBIGINT", *FLOATS, *DECIMALS, "VARCHAR", "BLOB", "UUID", "DATE", "TIME", "TIMESTAMP"),
    *("TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "INTERVAL", "INTEGER[]", "VARCHAR[]", "DOUBLE[]"),
    *("STRUCT(a INTEGER, b VARCHAR)", "STRUCT(a INTEGER)[]", "MAP(VARCHAR, INTEGER)"),
)


def pool(kind: str) -> tuple[str, ...]:
    """Literals of a type, each of exactly that type."""
    if kind in INTEGERS:
        low, high = INTEGERS[kind]
        near = [n for n in (-1, 0, 1, 2, 3, 7, 100) if low <= n <= high]
        return tuple(f"'{n}'::{kind}" for n in (*near, low, high))
    return tuple(value if "::" in value else f"{value}::{kind}" for value in _PLAIN[kind])


TYPES = (*INTEGERS, *_PLAIN)
