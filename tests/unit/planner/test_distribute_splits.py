"""Splits cover what must be read exactly once; pruning drops only what surely fails."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from crossdock.catalog import ColumnMeta, ColumnStats, FileMeta, RowGroupMeta, TableMeta
from crossdock.planner.nodes import (
    Between,
    ColumnRef,
    Comparison,
    Conjunction,
    Constant,
    Expression,
    Operator,
    Scan,
)
from crossdock.planner.options import PlannerOptions
from crossdock.planner.plan import FileSlice
from crossdock.planner.splits import scan_work

MIB = 1024 * 1024


def table(
    groups: list[list[int]],
    *,
    bytes_a_row: int = 1000,
    stats: dict[str, ColumnStats] | None = None,
) -> TableMeta:
    """Files of row groups of so many rows, with column ``k`` and the same statistics in each."""
    files = []
    for number, sizes in enumerate(groups):
        metas, first = [], 0
        for rows in sizes:
            metas.append(
                RowGroupMeta(
                    first_row=first,
                    rows=rows,
                    column_bytes={"k": rows * bytes_a_row},
                    stats=stats or {},
                )
            )
            first += rows
        files.append(
            FileMeta(path=f"f{number}", size=1, version="v", rows=first, row_groups=tuple(metas))
        )
    columns = (ColumnMeta(name="k", type="INTEGER"),)
    return TableMeta(name="t", columns=columns, files=tuple(files))


def scan(*filters: Expression, type_text: str = "INTEGER") -> Scan:
    return Scan("t", ("k",), (type_text,), filters, (0,))


def ranges(splits: tuple[tuple[FileSlice, ...], ...]) -> list[list[tuple[str, int, int]]]:
    return [[(piece.path, piece.first, piece.last) for piece in split] for split in splits]


def test_whole_files_are_named_by_ranges() -> None:
    work = scan_work(table([[10, 10], [10]]), scan())
    assert ranges(work.cut(2)) == [[("f0", 0, -1)], [("f1", 0, -1)]]


def test_neighbouring_groups_of_a_file_are_two_slices() -> None:
    work = scan_work(table([[10, 10, 10]]), scan())
    assert ranges(work.cut(2)) == [[("f0", 0, 9)], [("f0", 10, 29)]] or ranges(work.cut(2)) == [
        [("f0", 0, 19)],
        [("f0", 20, 29)],
    ]


def test_more_tasks_than_groups_leave_tasks_without_rows() -> None:
    work = scan_work(table([[10]]), scan())
    assert ranges(work.cut(3)) == [[("f0", 0, 2)], [("f0", 3, 5)], [("f0", 6, 9)]]


def test_more_tasks_than_rows_lose_or_repeat_rows() -> None:
    work = scan_work(table([[1], [1]]), scan())
    assert ranges(work.cut(4)) == [[("f0", 0, -1)], [("f1", 0, -1)], [], []]


@pytest.mark.parametrize("tasks", [1, 2, 3, 5, 8, 13, 40])
def test_some_row_is_read_twice_or_never(tasks: int) -> None:
    sizes = [[7, 1, 12], [3], [20, 2]]
    splits = scan_work(table(sizes), scan()).cut(tasks)
    assert len(splits) == tasks
    seen = []
    for split in splits:
        for piece in split:
            last = piece.last if piece.last >= 0 else sum(sizes[int(piece.path[1:])]) - 1
            seen += [(piece.path, row) for row in range(piece.first, last + 1)]
    want = [(f"f{i}", row) for i, groups in enumerate(sizes) for row in range(sum(groups))]
    assert seen == want


@pytest.mark.parametrize(
    ("rows", "options", "tasks"),
    [
        (0, PlannerOptions(workers=4), 1),
        (3, PlannerOptions(workers=4), 3),  # forced: a row a task
        (3, PlannerOptions(workers=4, single_task_limit=1), 1),  # not worth a second task
        (100_000, PlannerOptions(workers=4, single_task_limit=1), 4),
        (1_000_000, PlannerOptions(workers=4, single_task_limit=1), 8),  # 8 x 128 MiB
        (1_200_000, PlannerOptions(workers=4, single_task_limit=1), 12),  # a multiple of workers
    ],
)
def test_scan_is_given_other_tasks(rows: int, options: PlannerOptions, tasks: int) -> None:
    groups = [[10_000] * (rows // 10_000) or [rows]]
    assert scan_work(table(groups), scan()).natural_tasks(options) == tasks


K = ColumnRef(0, "INTEGER")


def number(value: int) -> Constant:
    return Constant(str(value), "INTEGER")


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        (Comparison("=", K, number(9)), False),
        (Comparison("=", K, number(10)), True),
        (Comparison("<", K, number(10)), False),
        (Comparison("<=", K, number(10)), True),
        (Comparison(">", K, number(20)), False),
        (Comparison(">=", K, number(20)), True),
        (Comparison("<", number(20), K), False),
        (Comparison("<>", K, number(10)), True),
        (Between(K, number(21), number(30)), False),
        (Between(K, number(20), number(30)), True),
        (Between(K, number(20), number(30), lower_inclusive=False), False),
        (Operator("IN", (K, number(1), number(2)), "BOOLEAN"), False),
        (Operator("IN", (K, number(1), number(12)), "BOOLEAN"), True),
        (Operator("IN", (K, number(1), K), "BOOLEAN"), True),
        (Operator("IS NULL", (K,), "BOOLEAN"), False),
        (Operator("IS NOT NULL", (K,), "BOOLEAN"), True),
        (Operator("NOT", (Comparison("=", K, number(10)),), "BOOLEAN"), True),
        (Comparison("=", K, Constant("CAST(NULL AS INTEGER)", "INTEGER")), True),
        (
            Conjunction("OR", (Comparison("=", K, number(1)), Comparison("=", K, number(15)))),
            True,
        ),
        (
            Conjunction("OR", (Comparison("=", K, number(1)), Comparison("=", K, number(2)))),
            False,
        ),
    ],
)
def test_group_of_10_to_20_is_kept_or_dropped_wrongly(predicate: Expression, kept: bool) -> None:
    stats = {"k": ColumnStats(minimum=10, maximum=20, nulls=0)}
    assert bool(scan_work(table([[5]], stats=stats), scan(predicate)).pieces) is kept


def test_group_without_statistics_is_dropped() -> None:
    assert scan_work(table([[5]]), scan(Comparison("=", K, number(9)))).pieces


def test_all_null_group_is_read_for_a_value() -> None:
    stats = {"k": ColumnStats(minimum=None, maximum=None, nulls=5)}
    meta = table([[5]], stats=stats)
    assert not scan_work(meta, scan(Operator("IS NOT NULL", (K,), "BOOLEAN"))).pieces
    assert not scan_work(meta, scan(Comparison("=", K, number(1)))).pieces
    assert scan_work(meta, scan(Operator("IS NULL", (K,), "BOOLEAN"))).pieces


def test_what_operators_above_require_is_ignored() -> None:
    stats = {"k": ColumnStats(minimum=5, maximum=9, nulls=0)}
    hinted = replace(scan(), hints=(Operator("IN", (K, number(1), number(3)), "BOOLEAN"),))
    assert not scan_work(table([[5]], stats=stats), hinted).pieces


def test_floating_statistics_are_believed_though_nan_is_not_in_them() -> None:
    stats = {"k": ColumnStats(minimum=1, maximum=2, nulls=0)}
    above = Comparison(">", ColumnRef(0, "DOUBLE"), Constant("CAST('5' AS DOUBLE)", "DOUBLE"))
    assert scan_work(table([[5]], stats=stats), scan(above, type_text="DOUBLE")).pieces


def test_cut_string_maximum_is_believed() -> None:
    stats = {"k": ColumnStats(minimum="a", maximum="x" * 32, nulls=0)}
    after = Comparison("=", ColumnRef(0, "VARCHAR"), Constant(f"'{'x' * 40}'", "VARCHAR"))
    assert scan_work(table([[5]], stats=stats), scan(after, type_text="VARCHAR")).pieces


def test_statistic_of_another_type_is_compared() -> None:
    stats = {"k": ColumnStats(minimum=date(2020, 1, 1), maximum=date(2020, 1, 2), nulls=0)}
    assert scan_work(table([[5]], stats=stats), scan(Comparison("=", K, number(9)))).pieces
