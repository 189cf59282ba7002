"""Tables of the AWS Glue Data Catalog: declared columns, partitions as wanted, refusals."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto import mock_aws

from crossdock.catalog import Catalog
from crossdock.client.statements import Room, open_one_task
from crossdock.databases import ForeignTable, KeyTest, Storage
from crossdock.errors import SqlError, TableError
from crossdock.executor.remote import RemoteSources
from crossdock.formats import Format
from crossdock.planner.binder import Binder
from crossdock.planner.options import PlannerOptions
from crossdock.planner.planning import plan_query
from crossdock.platform.aws.glue import GlueDatabase, partition_expression
from crossdock.platform.aws.hive_types import duckdb_type
from crossdock.platform.aws.table_files import S3TableFiles

PARQUET = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
OPEN_CSV = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
JSON = "org.openx.data.jsonserde.JsonSerDe"


class Stand:
    """A Glue database and a bucket, and what a catalog over them says."""

    def __init__(self, scratch: Path) -> None:
        self.glue: Any = boto3.client("glue", region_name="us-east-1")
        self.s3: Any = boto3.client("s3", region_name="us-east-1")
        self.s3.create_bucket(Bucket="lake")
        self.glue.create_database(DatabaseInput={"Name": "shop"})
        self.asked: list[dict[str, Any]] = []
        self.glue.meta.events.register(
            "provide-client-params.glue.GetPartitions",
            lambda params, **_: self.asked.append(params),
        )
        self.files = S3TableFiles(self.s3)
        self.catalog = Catalog(
            remote=self.files, local=False, database=GlueDatabase(self.glue, "shop")
        )
        self.binder = Binder(self.catalog, timezone="UTC")
        self._scratch = scratch

    def parquet(self, key: str, **columns: Any) -> None:
        sink = io.BytesIO()
        pq.write_table(pa.table(columns), sink)
        self.s3.put_object(Bucket="lake", Key=key, Body=sink.getvalue())

    def table(
        self,
        name: str,
        columns: Sequence[tuple[str, str]],
        keys: Sequence[tuple[str, str]] = (),
        *,
        serde: str = PARQUET,
        settings: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        descriptor = {
            "Columns": [{"Name": n, "Type": t} for n, t in columns],
            "Location": f"s3://lake/{name}/",
            "SerdeInfo": {"SerializationLibrary": serde, "Parameters": settings or {}},
        }
        self.glue.create_table(
            DatabaseName="shop",
            TableInput={
                "Name": name,
                "StorageDescriptor": descriptor,
                "PartitionKeys": [{"Name": n, "Type": t} for n, t in keys],
                **more,
            },
        )

    def partition(
        self, name: str, values: Sequence[str], folder: str, serde: str = PARQUET
    ) -> None:
        self.glue.create_partition(
            DatabaseName="shop",
            TableName=name,
            PartitionInput={
                "Values": list(values),
                "StorageDescriptor": {
                    "Location": f"s3://lake/{folder}",
                    "SerdeInfo": {"SerializationLibrary": serde},
                },
            },
        )

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        plan = plan_query(self.binder.bind(sql), PlannerOptions(single_task_limit=2**40))
        room = Room(
            scratch=self._scratch, threads=1, memory=2**30, sources=RemoteSources(self.files)
        )
        rows = open_one_task(plan, room, lambda count, error: None)
        try:
            rows.start(plan.stages[-1].fragment)
            return rows.all()
        finally:
            rows.close()

    def paths(self, sql: str) -> list[str]:
        """Files that a distributed plan reads."""
        plan = plan_query(self.binder.bind(sql), PlannerOptions(single_task_limit=0, workers=2))
        return [
            piece.path.removeprefix("s3://lake/")
            for stage in plan.stages
            for scan in stage.scans
            for split in scan.splits
            for piece in split
        ]


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        yield Stand(tmp_path)


@pytest.fixture
def sales(stand: Stand) -> Stand:
    """Partitions by day and shop, at places that do not tell their values; one without a shop."""
    stand.table(
        "sales",
        [("amount", "decimal(9,2)"), ("Note", "string")],
        [("day", "date"), ("shop", "int")],
    )
    for day in ("2024-01-01", "2024-01-02", "2024-01-03"):
        for shop in ("1", "12", "__HIVE_DEFAULT_PARTITION__"):
            folder = f"sales/{day}_{shop}"
            stand.parquet(f"{folder}/part-0", amount=[Decimal("1.50")], note=[f"{day} {shop}"])
            stand.s3.put_object(Bucket="lake", Key=f"{folder}/_SUCCESS", Body=b"")
            stand.partition("sales", [day, shop], folder)
    return stand


def test_a_table_is_found_by_its_name_with_its_declared_types(sales: Stand) -> None:
    assert sales.catalog.names() == ("sales",)
    meta = sales.catalog.describe("SALES")
    assert [(c.name, c.type) for c in meta.columns] == [
        ("amount", "DECIMAL(9, 2)"), ("Note", "VARCHAR"), ("day", "DATE"), ("shop", "INTEGER"),
    ]  # fmt: skip
    assert meta.rows == 9
    assert sales.catalog.sources("sales") == ("glue://shop/sales",)


def test_rows_have_the_values_of_their_partitions(sales: Stand) -> None:
    assert sales.rows("SELECT shop, count(*), sum(amount) FROM sales GROUP BY shop ORDER BY 1") == [
        (1, 3, Decimal("4.50")),
        (12, 3, Decimal("4.50")),
        (None, 3, Decimal("4.50")),
    ]
    assert sales.rows("SELECT day, note FROM sales WHERE shop = 12 ORDER BY day LIMIT 1") == [
        (date(2024, 1, 1), "2024-01-01 12")
    ]


@pytest.mark.parametrize(
    ("where", "expression", "files"),
    [
        ("shop = 12", "shop = 12", 3),
        ("day > '2024-01-01'", "day > '2024-01-01'", 6),
        ("day = '2024-01-02' AND shop IN (1, 3)", "day = '2024-01-02' AND shop IN (1, 3)", 1),
        ("DATE '2024-01-03' <= day AND amount > 1", "day >= '2024-01-03'", 3),
        ("shop IS NULL", "", 3),
        ("shop = 1 OR amount > 7", "", 9),
        ("shop % 7 = 5", "", 9),
        ("day BETWEEN '2024-01-01' AND '2024-01-02' AND shop < 5",
         "day >= '2024-01-01' AND day <= '2024-01-02' AND shop < 5", 2),
    ],
)  # fmt: skip
def test_partitions_are_asked_for_as_wanted(
    sales: Stand, where: str, expression: str, files: int
) -> None:
    sql = f"SELECT count(*) FROM sales WHERE {where}"
    assert len(sales.paths(sql)) == files
    said = " ".join(each.get("Expression", "") for each in sales.asked)
    for part in expression.split(" AND "):
        assert part in said
    assert bool(said) == bool(expression)
    count = sales.rows(f"SELECT count(*) FROM (SELECT * FROM sales) AS s WHERE ({where})")
    whole = sales.rows("SELECT day, shop, amount FROM sales")
    assert len(whole) == 9
    assert count == sales.rows(
        f"WITH s AS MATERIALIZED (FROM sales) SELECT count(*) FROM s WHERE {where}"
    )


def test_two_readers_of_one_table_get_what_either_wants(sales: Stand) -> None:
    sql = (
        "SELECT count(*) FROM (SELECT shop FROM sales WHERE shop = 1 UNION ALL "
        "SELECT shop FROM sales WHERE day = '2024-01-03')"
    )
    assert sales.rows(sql) == [(6,)]
    assert sales.asked[0]["Expression"] in (
        "(shop = 1) OR (day = '2024-01-03')",
        "(day = '2024-01-03') OR (shop = 1)",
    )
    sales.asked.clear()
    assert sales.rows("SELECT count(*) FROM sales AS a, sales AS b WHERE a.shop = 1") == [(27,)]
    assert "Expression" not in sales.asked[0]


def test_an_entry_of_ones_own_hides_a_table_of_glue(sales: Stand) -> None:
    sales.parquet("own/a.parquet", x=[7])
    sales.catalog.add("sales", "s3://lake/own/")
    assert sales.rows("SELECT * FROM sales") == [(7,)]
    sales.catalog.remove("sales")
    with pytest.raises(TableError, match="kept in glue://shop; remove it there"):
        sales.catalog.remove("sales")


def test_files_may_lack_columns_and_be_narrower(stand: Stand) -> None:
    stand.table("t", [("k", "bigint"), ("v", "double"), ("s", "struct<a:int,b:string>")])
    stand.parquet("t/1", k=pa.array([1, 2], pa.int32()), s=[{"a": 1}, {"a": 2}])
    stand.parquet("t/2", V=pa.array([0.5], pa.float32()), k=pa.array([3], pa.int64()))
    assert stand.rows("SELECT k, v, s.a, s.b FROM t ORDER BY k") == [
        (1, None, 1, None),
        (2, None, 2, None),
        (3, 0.5, None, None),
    ]


def test_what_is_cast_when_read_is_not_pruned_by_its_own_statistics(stand: Stand) -> None:
    stand.table("t", [("d", "decimal(5,2)"), ("k", "bigint")])
    stand.parquet(
        "t/1", d=pa.array([Decimal("1.236")], pa.decimal128(6, 3)), k=pa.array([5], pa.int16())
    )
    assert stand.rows("SELECT d FROM t WHERE d = 1.24") == [(Decimal("1.24"),)]
    assert len(stand.paths("SELECT d FROM t WHERE d = 1.24")) == 1
    assert stand.paths("SELECT d FROM t WHERE k = 6") == []


@pytest.mark.parametrize(
    ("serde", "settings", "data"),
    [
        (LAZY, {"field.delim": ",", "skip.header.line.count": "1"}, "k,v\n1,a\n2,\\N\n"),
        (LAZY, {}, "1\x01a\n2\x01\\N\n"),
        (OPEN_CSV, {"separatorChar": ";", "quoteChar": "'"}, "'1';'a'\n2\n"),
        (JSON, {}, '{"k": 1, "v": "a", "w": 0}\n{"k": 2}\n'),
    ],
)
def test_texts_are_read_as_their_table_says(
    stand: Stand, serde: str, settings: dict[str, str], data: str
) -> None:
    stand.table("t", [("k", "int"), ("v", "string")], serde=serde, settings=settings)
    stand.s3.put_object(Bucket="lake", Key="t/000000_0", Body=data.encode())
    assert stand.rows("SELECT k, v FROM t ORDER BY k") == [(1, "a"), (2, None)]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda s: s.table("t", [("k", "int")], TableType="VIRTUAL_VIEW"),
            "view of another engine",
        ),
        (
            lambda s: s.table("t", [("k", "int")], serde="org.x.OrcSerde"),
            "stored as org.x.OrcSerde",
        ),
        (lambda s: s.table("t", [("k", "uniontype<int>")]), "column k: type 'uniontype<int>'"),
        (
            lambda s: s.table("t", [("k", "int")], Parameters={"projection.enabled": "true"}),
            "partitions are projected",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(
    stand: Stand, make: Callable[[Stand], None], said: str
) -> None:
    make(stand)
    with pytest.raises(TableError, match=said):
        stand.rows("SELECT * FROM t")


def test_an_iceberg_table_is_read_by_its_metadata(stand: Stand) -> None:
    metadata = "s3://lake/t/metadata/v3.metadata.json"
    parameters = {"table_type": "ICEBERG", "metadata_location": metadata}
    stand.table("t", [("k", "int")], Parameters=parameters)
    with pytest.raises(TableError, match=f"Iceberg table t \\({metadata}\\)"):
        stand.rows("SELECT * FROM t")


def test_a_database_that_is_not_there_is_named(stand: Stand) -> None:
    catalog = Catalog(database=GlueDatabase(stand.glue, "none"))
    with pytest.raises(TableError, match="glue://none"):
        catalog.describe("t")


def test_unknown_names_are_told_with_the_nearest(sales: Stand) -> None:
    with pytest.raises(SqlError, match='Did you mean "sales"'):
        sales.rows("SELECT * FROM sale")


def test_names_are_asked_for_once_in_a_while(stand: Stand) -> None:
    now = [0.0]
    database = GlueDatabase(stand.glue, "shop", now=lambda: now[0])
    assert database.names() == {}
    stand.table("t", [("k", "int")])
    assert database.names() == {}
    now[0] = 6.0
    assert database.names() == {"t": "t"}


@pytest.mark.parametrize(
    ("hive", "kind"),
    [
        ("bigint", "BIGINT"),
        ("varchar(10)", "VARCHAR"),
        ("decimal", "DECIMAL(10, 0)"),
        ("decimal(12,4)", "DECIMAL(12, 4)"),
        ("array<array<int>>", "INTEGER[][]"),
        ("map<string,array<double>>", "MAP(VARCHAR, DOUBLE[])"),
        ("struct<a:int,`b c`:struct<d:date>>", 'STRUCT("a" INTEGER, "b c" STRUCT("d" DATE))'),
        ("binary", "BLOB"),
        ("TIMESTAMP", "TIMESTAMP"),
    ],
)
def test_hives_types_in_duckdbs_words(hive: str, kind: str) -> None:
    assert duckdb_type(hive) == kind


@pytest.mark.parametrize("text", ["", "interval", "array<int", "array<int>>", "map<int>", "int ?"])
def test_a_type_that_is_not_known_is_named(text: str) -> None:
    with pytest.raises(TableError, match="is not known"):
        duckdb_type(text)


def test_an_expression_too_long_for_glue_is_left_out() -> None:
    storage = Storage(location="s3://b/t", format=Format.PARQUET)
    table = ForeignTable(name="t", columns=(), keys=(("k", "VARCHAR"),), storage=storage)
    many = KeyTest("k", "IN", tuple(f"it's {n}" for n in range(500)))
    assert partition_expression(table, ((many,),)) == ""
    few = KeyTest("k", "IN", ("it's",))
    assert partition_expression(table, ((few,), (few,))) == "k IN ('it''s')"
    timed = ForeignTable(name="t", columns=(), keys=(("k", "TIMESTAMP"),), storage=storage)
    assert partition_expression(timed, ((few,),)) == ""
