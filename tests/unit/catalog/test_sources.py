"""Which files a source means, and what is said when it means none."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossdock.catalog import Catalog
from crossdock.errors import TableError
from tests.remote_folder import FolderFiles


def write(path: Path, **columns: list[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns or {"k": [1]}), path)
    return path


def names(catalog: Catalog, source: object) -> list[str]:
    return [Path(file.path).name for file in catalog.add("t", source).files]  # type: ignore[arg-type]


def test_a_folder_leaves_out_markers_and_hidden_files(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet")
    write(tmp_path / "deep" / "er" / "b.PARQUET")
    write(tmp_path / "_temporary" / "0" / "x.parquet")
    write(tmp_path / ".staging" / "y.parquet")
    write(tmp_path / "_key=1" / "z.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part.crc").write_bytes(b"crc")
    (tmp_path / "notes.txt").write_text("no data")
    catalog = Catalog()
    assert sorted(names(catalog, tmp_path)) == ["a.parquet", "b.PARQUET", "z.parquet"]
    assert catalog.get("t").rows == 3


def test_a_glob_matches_at_any_depth_but_no_markers(tmp_path: Path) -> None:
    write(tmp_path / "y=1" / "a.parquet")
    write(tmp_path / "y=2" / "m=3" / "b.parquet")
    write(tmp_path / "_temporary" / "c.parquet")
    catalog = Catalog()
    assert names(catalog, f"{tmp_path}/**/*.parquet") == ["a.parquet", "b.parquet"]
    assert names(catalog, f"{tmp_path}/y=[2]/*/*.parquet") == ["b.parquet"]
    assert names(catalog, f"{tmp_path}/_temporary/*.parquet") == ["c.parquet"]  # asked for by name


def test_a_list_keeps_its_order_and_counts_a_file_once(tmp_path: Path) -> None:
    second, first = write(tmp_path / "b.parquet"), write(tmp_path / "a.parquet")
    assert names(Catalog(), [second, first, str(second)]) == ["b.parquet", "a.parquet"]


def test_a_path_with_wildcard_characters_is_a_path_if_it_exists(tmp_path: Path) -> None:
    meta = Catalog().add("t", write(tmp_path / "w[1]*" / "x?.parquet", k=[7]))
    assert [(c.name, c.type) for c in meta.columns] == [("k", "BIGINT")]


def test_thousands_of_files_are_all_found(tmp_path: Path) -> None:
    content = write(tmp_path / "0.parquet").read_bytes()
    for number in range(1, 1201):
        (tmp_path / f"{number}.parquet").write_bytes(content)
    assert Catalog().add("t", tmp_path).rows == 1201


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("orderz.parquet", "orderz.parquet does not exist; did you mean .*orders.parquet"),
        ("lost/x.parquet", "x.parquet does not exist; did you mean .*/last"),
        ("last/*.parquet", "no file matches .*/last/\\*.parquet"),
        ("lost/*.parquet", "lost does not exist; did you mean .*/last"),
        ("last", "no Parquet file .* below the folder .*/last"),
        ("orders.parquet/x", "orders.parquet is not a folder"),
    ],
)
def test_a_missing_source_is_named_with_the_nearest_name(
    tmp_path: Path, missing: str, said: str
) -> None:
    write(tmp_path / "orders.parquet")
    (tmp_path / "last").mkdir()
    with pytest.raises(TableError, match=said):
        Catalog().add("t", tmp_path / missing)


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(TableError, match="at least one file"):
        Catalog().add("t", [])


def test_a_zero_byte_parquet_file_is_named(tmp_path: Path) -> None:
    write(tmp_path / "good.parquet")
    (tmp_path / "bad.parquet").touch()
    with pytest.raises(TableError, match=r"bad\.parquet is empty \(0 bytes\)"):
        Catalog().add("t", tmp_path)


@pytest.mark.parametrize(
    "content", [b"PAR1", b"not parquet at all", b"PAR1" + b"\0" * 40 + b"PAR1"]
)
def test_a_corrupt_file_is_named(tmp_path: Path, content: bytes) -> None:
    write(tmp_path / "good.parquet")
    (tmp_path / "bad.parquet").write_bytes(content)
    with pytest.raises(TableError, match=r"bad\.parquet is not a readable Parquet file"):
        Catalog().add("t", tmp_path)


def test_an_encrypted_file_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    path = tmp_path / "bucket" / "secret.parquet"
    with duckdb.connect() as duck:
        duck.execute("SET force_mbedtls_unsafe = 'true'")
        duck.execute("PRAGMA add_parquet_key('key', '0123456789112345')")
        options = "FORMAT parquet, ENCRYPTION_CONFIG {footer_key: 'key'}"
        duck.execute(f"COPY (SELECT 1 AS k) TO '{path}' ({options})")
    with pytest.raises(TableError, match=r"secret\.parquet is encrypted"):
        Catalog().read("t", [str(path)])
    with pytest.raises(TableError, match=r"s3://bucket/secret\.parquet is encrypted"):
        Catalog(remote=FolderFiles(tmp_path)).read("t", ["s3://bucket/secret.parquet"])


def test_a_cut_off_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "cut.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TableError, match=r"cut\.parquet"):
        Catalog().add("t", path)


def test_a_remote_path_is_refused_by_its_scheme() -> None:
    with pytest.raises(TableError, match="s3:// is not a local path"):
        Catalog().add("t", "s3://bucket/x.parquet")
