"""Named tables: in memory, and in the file that outlives a process."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossdock.catalog import Catalog
from crossdock.errors import TableError


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "x.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"k": [1]}), path)
    return path


def test_a_persistent_table_is_known_to_the_next_catalog(tmp_path: Path, data: Path) -> None:
    Catalog(tmp_path / "home").add("Orders", data, persistent=True)
    again = Catalog(tmp_path / "home")
    assert again.names() == ("Orders",)
    assert again.get("ORDERS").name == "Orders"
    assert again.sources("orders") == (str(data),)
    again.remove("orders")
    assert Catalog(tmp_path / "home").names() == ()
    assert data.exists()


def test_relative_sources_are_kept_absolute(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data.parent)
    catalog = Catalog(tmp_path / "home")
    catalog.add("t", "*.parquet", persistent=True)
    monkeypatch.chdir(tmp_path)
    assert catalog.get("t").rows == 1


def test_a_table_in_memory_hides_a_persistent_one(tmp_path: Path, data: Path) -> None:
    catalog = Catalog(tmp_path / "home")
    catalog.add("t", data, persistent=True)
    catalog.add("T", pa.table({"other": [1]}))
    assert [c.name for c in catalog.get("t").columns] == ["other"]
    catalog.remove("t")
    assert [c.name for c in catalog.get("t").columns] == ["k"]


def test_an_unknown_table_is_named_with_the_nearest(data: Path) -> None:
    catalog = Catalog()
    catalog.add("orders", data)
    with pytest.raises(TableError, match="no table is named ordrs; did you mean orders"):
        catalog.get("ordrs")
    with pytest.raises(TableError, match=r"no table is named zzz$"):
        catalog.remove("zzz")


def test_a_source_that_cannot_be_read_is_not_added(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "home")
    with pytest.raises(TableError, match="does not exist"):
        catalog.add("t", tmp_path / "no.parquet", persistent=True)
    assert catalog.names() == ()


def test_a_file_removed_later_is_an_error_that_names_it(data: Path) -> None:
    catalog = Catalog()
    catalog.add("t", data)
    data.unlink()
    with pytest.raises(TableError, match=r"x\.parquet does not exist"):
        catalog.get("t")


def test_a_damaged_registry_is_named(tmp_path: Path) -> None:
    (tmp_path / "tables.json").write_text('{"version": 1, "tables": [{"name"')
    with pytest.raises(TableError, match=r"tables\.json is damaged"):
        Catalog(tmp_path).names()


def test_a_registry_of_another_version_is_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / "tables.json").write_text('{"version": 7, "tables": []}')
    with pytest.raises(TableError, match="another version"):
        Catalog(tmp_path).names()


def test_adding_at_the_same_time_loses_no_entry(tmp_path: Path, data: Path) -> None:
    def add(number: int) -> None:
        Catalog(tmp_path / "home").add(f"t{number}", data, persistent=True)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(24)))
    assert len(Catalog(tmp_path / "home").names()) == 24
