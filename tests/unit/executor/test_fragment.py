"""One fragment, one task: typed inputs, partitioned outputs, shut doors, named errors."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import duckdb
import pytest

from crossdock.executor import (
    Executor,
    FragmentFailed,
    FragmentInterrupted,
    Interrupt,
    Spare,
    TaskOutput,
)
from crossdock.executor.carriers import decode_column
from crossdock.planner.plan import (
    CarriedColumn,
    Edge,
    ExchangeInput,
    FileSlice,
    ResultColumn,
    ScanInput,
    ShuffleMode,
    Stage,
    StagePlan,
)
from crossdock.shuffle import RESULT_EDGE

MIB = 1 << 20
BIGINT = CarriedColumn(type="BIGINT")
VARCHAR = CarriedColumn(type="VARCHAR")


def parquet(path: Path, query: str, options: str = "") -> FileSlice:
    """A table file made by ``query``, as the planner would pin it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet {options})")
    return pin(path)


def pin(path: Path, first: int = 0, last: int = -1) -> FileSlice:
    status = path.stat()
    return FileSlice(
        path=str(path),
        size=status.st_size,
        version=str(status.st_mtime_ns),
        first=first,
        last=last,
    )


def scan(*slices: FileSlice, columns: str = "i BIGINT", name: str = "in0", **more) -> ScanInput:
    """``columns`` is "name TYPE; name TYPE"; all slices are those of task 0."""
    named = [column.strip().split(" ", 1) for column in columns.split(";") if column]
    return ScanInput(
        name=name,
        table="t",
        columns=tuple(name for name, _ in named),
        types=tuple(type for _, type in named),
        splits=(slices,),
        **more,
    )


def plan_of(fragment: str, *scans: ScanInput, columns=(BIGINT,), edges=(), **more) -> StagePlan:
    """One producing stage, whose columns end as the result unless it has edges."""
    fields = {name: more.pop(name) for name in ("ordered", "exchanges", "outputs") if name in more}
    fields.setdefault("outputs", tuple(edge.edge for edge in edges))
    stage = Stage(
        stage=0, fragment=fragment, columns=tuple(columns), tasks=1, scans=scans, **fields
    )
    return StagePlan(
        engine=duckdb.__version__,
        sql=fragment,
        columns=tuple(
            ResultColumn(name=f"n{i}", type=column.type) for i, column in enumerate(columns)
        ),
        stages=(stage,),
        edges=tuple(edges),
        **more,
    )


def edge_of(mode: ShuffleMode, partitions: int, number: int = 0, columns=(BIGINT,)) -> Edge:
    return Edge(
        edge=number,
        producer=0,
        consumer=1,
        mode=mode,
        partitions=partitions,
        keys=("c0",) if mode is ShuffleMode.HASH else (),
        columns=tuple(columns),
    )


@pytest.fixture
def executor(tmp_path: Path) -> Executor:
    return Executor(tmp_path / "scratch", 512 * MIB, 2)


def rows(output: TaskOutput, columns=(BIGINT,)) -> list[tuple]:
    """All rows of all sections, decoded."""
    decoded = ", ".join(decode_column(f"c{i}", column) for i, column in enumerate(columns))
    files = [str(section.path) for section in output.sections if section.path]
    with duckdb.connect() as connection:
        return connection.execute(f"SELECT {decoded} FROM read_parquet({files})").fetchall()


def failure(executor: Executor, plan: StagePlan, files=None):
    with pytest.raises(FragmentFailed) as failed:
        executor.run(plan, 0, 0, files or {})
    return failed.value.record


# -- inputs ------------------------------------------------------------------------------------


def test_ranges_and_whole_files_are_read_together(executor, tmp_path: Path) -> None:
    big = parquet(
        tmp_path / "a.parquet", "SELECT i FROM range(10000) t(i)", ", ROW_GROUP_SIZE 2048"
    )
    small = parquet(tmp_path / "b.parquet", "SELECT 20000 + i AS i FROM range(3) t(i)")
    ranged = pin(tmp_path / "a.parquet", 2048, 4095)
    output = executor.run(plan_of("SELECT i AS c0 FROM in0", scan(ranged, small)), 0, 0, {})
    assert sorted(r[0] for r in rows(output)) == [*range(2048, 4096), 20000, 20001, 20002]
    assert (output.rows_in, output.rows_out) == (2051, 2051)
    assert 0 < output.bytes_in < big.size


def test_a_scan_without_columns_counts_its_rows(executor, tmp_path: Path) -> None:
    file = parquet(tmp_path / "a.parquet", "SELECT i FROM range(77) t(i)")
    fragment = "SELECT count(*) AS c0 FROM in0"
    assert rows(executor.run(plan_of(fragment, scan(file, columns="")), 0, 0, {})) == [(77,)]


def test_an_empty_split_has_types_and_no_rows(executor) -> None:
    fragment = "SELECT count(*) + coalesce(sum(length(s)), 0)::BIGINT AS c0 FROM in0"
    plan = plan_of(fragment, scan(columns="s VARCHAR; d DECIMAL(9,2)"))
    assert rows(executor.run(plan, 0, 0, {})) == [(0,)]


def test_columns_are_of_the_declared_type_in_every_file(executor, tmp_path: Path) -> None:
    """B01: an older file has INTEGER, another column order, and lacks a column."""
    old = parquet(tmp_path / "f1.parquet", "SELECT i::INTEGER AS id FROM (VALUES (1), (2)) t(i)")
    new = parquet(tmp_path / "f2.parquet", "SELECT 'x' AS c, 5000000000::BIGINT AS id")
    columns = (BIGINT, VARCHAR)
    for slices in ((old, new), (new, old), (old,), (pin(tmp_path / "f1.parquet", 0, 1),)):
        source = scan(*slices, columns="id BIGINT; c VARCHAR", union_by_name=True)
        plan = plan_of("SELECT id AS c0, c AS c1 FROM in0", source, columns=columns)
        found = sorted(rows(executor.run(plan, 0, 0, {}), columns))
        assert found[:2] == [(1, None), (2, None)]
        assert found[2:] == ([(5000000000, "x")] if new in slices else [])


def test_a_struct_field_that_an_older_file_lacks_is_null(executor, tmp_path: Path) -> None:
    """B03."""
    old = parquet(tmp_path / "s1.parquet", "SELECT {'a': 1} AS s")
    new = parquet(tmp_path / "s2.parquet", "SELECT {'a': 2, 'b': 'q'} AS s")
    columns = (CarriedColumn(type="INTEGER"), VARCHAR)
    for slices in ((old, new), (pin(tmp_path / "s1.parquet", 0, 0), new)):
        source = scan(*slices, columns="s STRUCT(a INTEGER, b VARCHAR)", union_by_name=True)
        plan = plan_of("SELECT s.a AS c0, s.b AS c1 FROM in0", source, columns=columns)
        assert sorted(rows(executor.run(plan, 0, 0, {}), columns)) == [(1, None), (2, "q")]


def test_partition_values_come_from_folders_decoded_once(executor, tmp_path: Path) -> None:
    """B12, with a typed key, NULL, and a value that looks encoded after decoding."""
    values = {"a%2Fb": "a/b", "c%20d": "c d", "100%25": "100%", "e%3Df": "e=f", "0012": "0012",
              "%252F": "%2F", "__HIVE_DEFAULT_PARTITION__": None, "e=f": "e=f"}  # fmt: skip
    slices = [
        parquet(tmp_path / f"g={folder}" / "n=7" / "x.parquet", f"SELECT {k} AS k")
        for k, folder in enumerate(values)
    ]
    hive = (("g", "VARCHAR"), ("n", "INTEGER"))
    columns = (BIGINT, VARCHAR, CarriedColumn(type="INTEGER"))
    source = scan(*slices, columns="k BIGINT; g VARCHAR; n INTEGER", hive_types=hive)
    plan = plan_of("SELECT k AS c0, g AS c1, n AS c2 FROM in0", source, columns=columns)
    found = sorted(rows(executor.run(plan, 0, 0, {}), columns))
    assert found == [(k, value, 7) for k, value in enumerate(values.values())]


@pytest.mark.parametrize("name", ["b*.parquet", "a[1].parquet", "c?.parquet", "e'q.parquet"])
def test_a_files_name_is_not_a_pattern(executor, tmp_path: Path, name: str) -> None:
    parquet(tmp_path / "plain.parquet", "SELECT 1::BIGINT AS i")
    file = pin((tmp_path / "plain.parquet").rename(tmp_path / name))
    parquet(tmp_path / "bx.parquet", "SELECT 2::BIGINT AS i")
    output = executor.run(plan_of("SELECT i AS c0 FROM in0", scan(file)), 0, 0, {})
    assert (rows(output), output.rows_in) == ([(1,)], 1)


def test_exchanged_rows_are_decoded_and_no_file_is_no_row(executor, tmp_path: Path) -> None:
    columns = (CarriedColumn(type="HUGEINT"), CarriedColumn(type="INTERVAL"))
    edge = Edge(
        edge=5, producer=0, consumer=1, mode=ShuffleMode.GATHER, partitions=1, columns=columns
    )
    made = executor.run(
        plan_of(
            "SELECT (i << 70)::HUGEINT AS c0, to_months(1) AS c1 FROM range(3) t(i)".replace(
                "i <<", "i::HUGEINT <<"
            ),
            columns=columns,
            edges=(edge,),
        ),
        0,
        0,
        {},
    )
    reader = plan_of(
        "SELECT c0, c1 FROM x1",
        columns=columns,
        edges=(edge,),
        outputs=(),
        exchanges=(ExchangeInput(name="x1", edge=5),),
    )
    path = made.sections[0].path
    found = rows(executor.run(reader, 0, 0, {5: [path, path]}), columns)
    assert sorted({row[0] for row in found}) == [0, 1 << 70, 2 << 70]
    assert len(found) == 6
    assert rows(executor.run(reader, 0, 0, {5: []}), columns) == []
    assert rows(executor.run(reader, 0, 0, {}), columns) == []


def test_the_session_of_the_plan_is_the_fragments(executor) -> None:
    plan = plan_of(
        "SELECT hour(TIMESTAMPTZ '2024-07-01 12:00:00+00') AS c0",
        session=(("TimeZone", "America/New_York"), ("Calendar", "gregorian")),
    )
    assert rows(executor.run(plan, 0, 0, {})) == [(8,)]


# -- outputs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [2, 7, 200])
def test_hash_partitions_hold_each_row_where_its_hash_says(executor, partitions: int) -> None:
    edge = edge_of(ShuffleMode.HASH, partitions)
    plan = plan_of("SELECT i AS c0 FROM range(5000) t(i)", edges=(edge,))
    output = executor.run(plan, 0, 0, {})
    assert {section.partition for section in output.sections} == set(range(partitions))
    assert sum(section.rows for section in output.sections) == output.rows_out == 5000
    where = f"(hash(c0) >> 32) % {partitions}"
    with duckdb.connect() as connection:
        for section in output.sections:
            found = connection.execute(
                f"SELECT min({where}), max({where}), count(*) FROM '{section.path}'"
            ).fetchone()
            assert found == (section.partition, section.partition, section.rows)
            assert section.path.stat().st_size == section.size


def test_rows_are_all_there_when_partitions_are_flushed_often(executor) -> None:
    edge = edge_of(ShuffleMode.HASH, 150)
    plan = plan_of("SELECT i AS c0 FROM range(1200000) t(i)", edges=(edge,))
    output = executor.run(plan, 0, 0, {})
    files = [str(section.path) for section in output.sections]
    with duckdb.connect() as connection:
        counted = connection.execute(
            f"SELECT count(*), count(DISTINCT c0), sum(c0) FROM read_parquet({files})"
        ).fetchone()
    assert counted == (1200000, 1200000, 1200000 * 1199999 // 2)
    assert sum(section.rows for section in output.sections) == 1200000


def test_empty_partitions_are_named_without_a_file(executor) -> None:
    plan = plan_of("SELECT 1::BIGINT AS c0", edges=(edge_of(ShuffleMode.HASH, 5),))
    sections = executor.run(plan, 0, 0, {}).sections
    assert [section.partition for section in sections] == [0, 1, 2, 3, 4]
    empty = [section for section in sections if section.path is None]
    assert len(empty) == 4
    assert all((section.rows, section.size) == (0, 0) for section in empty)


def test_a_fragment_with_several_edges_runs_once(executor) -> None:
    """Rows of random() must be the same on every edge."""
    columns = (CarriedColumn(type="DOUBLE"),)
    edges = (
        edge_of(ShuffleMode.HASH, 3, 0, columns),
        edge_of(ShuffleMode.BROADCAST, 1, 1, columns),
        edge_of(ShuffleMode.GATHER, 1, 2, columns),
    )
    plan = plan_of("SELECT random() AS c0 FROM range(500)", columns=columns, edges=edges)
    output = executor.run(plan, 0, 0, {})
    by_edge: dict[int, list[float]] = {0: [], 1: [], 2: []}
    with duckdb.connect() as connection:
        for section in output.sections:
            query = f"SELECT c0 FROM '{section.path}'"
            by_edge[section.edge] += [row[0] for row in connection.execute(query).fetchall()]
    assert sorted(by_edge[0]) == sorted(by_edge[1]) == sorted(by_edge[2])
    assert len(set(by_edge[0])) == 500


def test_states_pass_several_edges(executor) -> None:
    columns = (CarriedColumn(type="HUGEINT", aggregate="sum", arguments=("BIGINT",)),)
    edges = tuple(edge_of(ShuffleMode.GATHER, 1, number, columns) for number in (0, 1))
    plan = plan_of(
        "SELECT sum(i) EXPORT_STATE AS c0 FROM range(10) t(i)", columns=columns, edges=edges
    )
    output = executor.run(plan, 0, 0, {})
    assert [section.rows for section in output.sections] == [1, 1]


def test_rows_without_columns_still_travel(executor) -> None:
    """Only how many there are matters; a section needs a column all the same."""
    edge = edge_of(ShuffleMode.GATHER, 1, columns=())
    output = executor.run(plan_of("SELECT 1 FROM range(42)", columns=(), edges=(edge,)), 0, 0, {})
    reader = plan_of(
        "SELECT count(*) AS c0 FROM x",
        edges=(edge,),
        outputs=(),
        exchanges=(ExchangeInput(name="x", edge=0),),
    )
    assert rows(executor.run(reader, 0, 0, {0: [output.sections[0].path]})) == [(42,)]


def test_an_ordered_result_keeps_its_order_with_threads(tmp_path: Path) -> None:
    executor = Executor(tmp_path / "scratch", 512 * MIB, 4)
    plan = plan_of("SELECT i AS c0 FROM range(300000) t(i) ORDER BY i DESC", ordered=True)
    output = executor.run(plan, 0, 0, {})
    assert [row[0] for row in rows(output)] == list(range(299999, -1, -1))
    assert output.sections[0].edge == RESULT_EDGE


def test_a_result_without_rows_still_has_its_columns(executor) -> None:
    output = executor.run(plan_of("SELECT 1::BIGINT AS c0 WHERE false"), 0, 0, {})
    assert output.sections[0].path is not None
    assert rows(output) == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT i AS x, i AS x FROM t",  # two columns of one name
        "SELECT i, i FROM t; ",
        "SELECT i, i FROM t -- and a comment",
        "WITH a AS (SELECT i FROM main.t) SELECT a.i, b.i FROM a JOIN a AS b USING (i)",
        "FROM t SELECT i, i",
    ],
)
def test_a_one_task_plan_runs_the_users_own_text(executor, tmp_path: Path, text: str) -> None:
    file = parquet(tmp_path / "a.parquet", "SELECT i FROM range(5) t(i)")
    columns = (BIGINT, BIGINT)
    plan = plan_of(text, scan(file, name="generated"), columns=columns, one_task=True)
    found = sorted(rows(executor.run(plan, 0, 0, {}), columns))
    assert found == [(i, i) for i in range(5)]


def test_a_type_the_plan_does_not_name_is_an_error(executor) -> None:
    record = failure(executor, plan_of("SELECT 1.5::DECIMAL(3,1) AS c0"))
    assert record.kind == "CarrierError"
    assert "DECIMAL(3, 1)" in record.message
    assert "BIGINT" in record.message


# -- doors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fragment",
    [
        "SELECT count(*) AS c0 FROM read_text('/etc/passwd')",
        "SELECT count(*) AS c0 FROM '/etc/passwd'",
        "SELECT count(*) AS c0 FROM glob('/etc/*')",
        "SELECT count(*) AS c0 FROM read_parquet('https://example.invalid/x.parquet')",
        "SELECT count(*) AS c0 FROM read_csv('s3://bucket/x.csv')",
    ],
)
def test_sql_text_reaches_nothing_but_its_inputs(executor, fragment: str) -> None:
    record = failure(executor, plan_of(fragment))
    assert not record.retryable


def test_another_file_beside_the_input_is_out_of_reach(executor, tmp_path: Path) -> None:
    file = parquet(tmp_path / "mine.parquet", "SELECT 1::BIGINT AS i")
    parquet(tmp_path / "other.parquet", "SELECT 2::BIGINT AS i")
    fragment = f"SELECT i AS c0 FROM in0 UNION ALL FROM '{tmp_path / 'other.parquet'}'"
    assert failure(executor, plan_of(fragment, scan(file))).kind == "Forbidden"


def test_fragments_of_one_plan_share_an_engine_but_no_names(executor, tmp_path: Path) -> None:
    file = parquet(tmp_path / "a.parquet", "SELECT i FROM range(5) t(i)")
    columns = (BIGINT,)
    edges = tuple(edge_of(ShuffleMode.GATHER, 1, number, columns) for number in (0, 1))
    plan = plan_of("SELECT i AS c0 FROM in0", scan(file), edges=edges)
    for _ in range(3):  # the same views and temporary table each time
        assert sorted(rows(executor.run(plan, 0, 0, {}))) == [(i,) for i in range(5) for _ in "ab"]
    other = plan_of("SELECT i AS c0 FROM in0")
    assert failure(executor, other).kind == "InvalidSql"


def test_the_files_of_another_plan_are_out_of_reach(executor, tmp_path: Path) -> None:
    file = parquet(tmp_path / "a.parquet", "SELECT i FROM range(5) t(i)")
    executor.run(plan_of("SELECT i AS c0 FROM in0", scan(file)), 0, 0, {})
    thief = plan_of(f"SELECT i AS c0 FROM '{file.path}'")
    assert failure(executor, thief).kind == "Forbidden"


def test_a_fragment_after_a_failed_one_has_a_new_engine(executor) -> None:
    plan = plan_of("SELECT 1::BIGINT AS c0")
    executor.run(plan, 0, 0, {})
    before = executor._engine
    failure(executor, plan_of("SELECT CAST('x' AS BIGINT) AS c0"))
    executor.run(plan, 0, 0, {})
    assert executor._engine is not before


def test_an_engine_opened_ahead_is_used_once(tmp_path: Path) -> None:
    spare = Spare()
    spare.prepare()
    spare.prepare()
    first, second = spare.take(), spare.take()
    first.execute("CREATE TABLE t AS SELECT 1")
    with pytest.raises(duckdb.CatalogException):
        second.execute("FROM t")
    first.close()
    second.close()
    executor = Executor(tmp_path / "scratch", 512 * MIB, 1, spare=spare)
    assert rows(executor.run(plan_of("SELECT 1::BIGINT AS c0"), 0, 0, {})) == [(1,)]
    executor.close()
    spare.close()


# -- failures ----------------------------------------------------------------------------------


def test_a_changed_file_is_named_and_final(executor, tmp_path: Path) -> None:
    """B18 (a): same size, other values, later time."""
    path = tmp_path / "a.parquet"
    plan = plan_of("SELECT i AS c0 FROM in0", scan(parquet(path, "SELECT 1::BIGINT AS i")))
    before = path.stat()
    parquet(path, "SELECT 2::BIGINT AS i")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    record = failure(executor, plan)
    assert (record.kind, record.retryable, record.scope) == ("TableChanged", False, "input")
    assert record.subject == str(path)


def test_a_missing_file_is_named_and_final(executor, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    plan = plan_of("SELECT i AS c0 FROM in0", scan(parquet(path, "SELECT 1::BIGINT AS i")))
    path.unlink()
    record = failure(executor, plan)
    assert (record.kind, record.retryable, record.subject) == ("TableMissing", False, str(path))


def test_a_file_that_is_no_parquet_is_named(executor, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"certainly not parquet, though long enough to be looked at")
    record = failure(executor, plan_of("SELECT i AS c0 FROM in0", scan(pin(path))))
    assert (record.kind, record.retryable, record.subject) == ("InvalidParquet", False, str(path))


@pytest.mark.parametrize(
    ("fragment", "kind", "retryable"),
    [
        ("SELECT CAST('x' AS BIGINT) AS c0", "InvalidInput", False),
        ("SELECT 9223372036854775807 + i AS c0 FROM range(5) t(i)", "InvalidInput", False),
        ("SELECT error('no')::BIGINT AS c0", "InvalidInput", False),
        ("SELECT nothing AS c0", "InvalidSql", False),
        ("SELEC", "InvalidSql", False),
    ],
)
def test_errors_of_the_statement_are_final(executor, fragment, kind, retryable) -> None:
    record = failure(executor, plan_of(fragment))
    assert (record.kind, record.retryable) == (kind, retryable)


def test_work_beyond_memory_spills(tmp_path: Path) -> None:
    """A sort of about 60 MB of text in an engine that may hold 64 MiB."""
    executor = Executor(tmp_path / "scratch", 150 * MIB, 1)
    fragment = "SELECT hash(i)::HUGEINT::VARCHAR AS c0 FROM range(700000) t(i) ORDER BY c0"
    output = executor.run(plan_of(fragment, columns=(VARCHAR,), ordered=True), 0, 0, {})
    assert output.rows_out == 700000


def test_out_of_memory_is_retryable_elsewhere(tmp_path: Path) -> None:
    executor = Executor(tmp_path / "scratch", 150 * MIB, 1)
    fragment = "SELECT len(list(repeat('x', 200) || i))::BIGINT AS c0 FROM range(2000000) t(i)"
    record = failure(executor, plan_of(fragment))
    assert (record.kind, record.retryable) == ("OutOfMemory", True)


def test_nothing_is_left_after_a_failure(executor, tmp_path: Path) -> None:
    failure(executor, plan_of("SELECT CAST('x' AS BIGINT) AS c0"))
    assert list((tmp_path / "scratch").iterdir()) == []


def test_nothing_is_left_after_discard(executor, tmp_path: Path) -> None:
    executor.run(plan_of("SELECT 1::BIGINT AS c0"), 0, 0, {}).discard()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_running_fragment_is_interrupted(executor) -> None:
    endless = (
        "SELECT count(*) AS c0 FROM range(100000000) a(i), range(100000000) b(j) WHERE i * j = 7"
    )
    interrupt = Interrupt()
    timer = threading.Timer(0.3, interrupt.fire)
    timer.start()
    with pytest.raises(FragmentInterrupted):
        executor.run(plan_of(endless), 0, 0, {}, interrupt=interrupt)
    timer.join()


def test_an_interrupt_before_the_start_counts(executor) -> None:
    interrupt = Interrupt()
    interrupt.fire()
    with pytest.raises(FragmentInterrupted):
        executor.run(plan_of("SELECT 1::BIGINT AS c0"), 0, 0, {}, interrupt=interrupt)


def test_no_home_is_needed(executor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", "/nonexistent")
    assert rows(executor.run(plan_of("SELECT 1::BIGINT AS c0"), 0, 0, {})) == [(1,)]
