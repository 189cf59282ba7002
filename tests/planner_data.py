"""Small Parquet tables and a catalog over them, for tests that plan statements."""

from __future__ import annotations

from pathlib import Path

import duckdb

from crossdock.catalog import Catalog

FIXTURES = Path(__file__).resolve().parent / "fixtures" / "planner"


def operator_cases() -> tuple[list[str], list[str]]:
    """The set-up statements and the queries of ``operators.sql``."""
    lines = [line for line in (FIXTURES / "operators.sql").read_text().splitlines() if line]
    split = lines.index("-- queries")
    return [line for line in lines[:split] if not line.startswith("--")], lines[split + 1 :]


def write_tables(connection: duckdb.DuckDBPyConnection, folder: Path, *, row_files: bool) -> None:
    """Each table as one file, or as one file a row behind an empty one."""
    for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
        target = folder / name
        target.mkdir(parents=True)
        rows = connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
        if not row_files or rows > 300:
            connection.execute(f"COPY \"{name}\" TO '{target}/part.parquet'")
            continue
        connection.execute(f"COPY (FROM \"{name}\" LIMIT 0) TO '{target}/empty.parquet'")
        for row in range(rows):
            one = f'FROM "{name}" LIMIT 1 OFFSET {row}'
            connection.execute(f"COPY ({one}) TO '{target}/row{row:03}.parquet'")


def catalog_of(folder: Path) -> Catalog:
    """One table for each folder or Parquet file in ``folder``."""
    catalog = Catalog()
    for path in sorted(folder.iterdir()):
        catalog.add(path.stem, str(path))
    return catalog
