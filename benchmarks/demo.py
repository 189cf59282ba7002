"""Three TPC-H queries through the command line, with two workers and a forced shuffle.

Shows stages, progress, rows and receipt of each, and checks the rows against DuckDB over the same
files. Exit code 1 when they differ.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import data
import duckdb
from rich.console import Console
from rich.table import Table

QUERIES = (3, 12, 18)
SCALE = "1"
SHOWN_ROWS = 10
#: Two workers; nothing runs as one task, no side of a join is broadcast.
SETTINGS = ("--workers", "2", "--single-task-bytes", "0", "--broadcast-bytes", "0")

console = Console(highlight=False, width=100)


def main() -> int:
    console.print(f"[bold]TPC-H at scale {SCALE}[/]: generating it takes a moment the first time")
    folder = data.tpch(SCALE)
    with tempfile.TemporaryDirectory(prefix="demo-home-", dir=data.CACHE) as home:
        for table in data.TABLES:
            crossdock("tables", "add", table, str(folder / f"{table}.parquet"), "--home", home)
        failed = [number for number in QUERIES if not show(number, folder, home)]
    if failed:
        console.print(f"[bold red]DIFFERENT[/] from DuckDB: {failed}")
        return 1
    console.print(f"[bold green]OK[/] queries {QUERIES} give DuckDB's rows over the same files")
    return 0


def show(number: int, folder: Path, home: str) -> bool:
    """Plan, run and check one query; whether the rows are DuckDB's."""
    sql = data.queries()[number]
    console.rule(f"[bold]query {number}")
    console.print(sql, markup=False)
    console.print("\n[bold]stages[/]")
    crossdock("explain", sql, "--no-fragments", "--home", home, *SETTINGS)
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "rows.json"
        console.print("\n[bold]progress and receipt[/]")
        began = time.perf_counter()
        crossdock("query", sql, "-o", str(output), "--home", home, *SETTINGS)
        seconds = time.perf_counter() - began
        answer = json.loads(output.read_text())
    began = time.perf_counter()
    expected = from_duckdb(sql, folder)
    console.print(f"\n[bold]rows[/] ({len(answer['rows'])})")
    print_rows(answer)
    same = [[str(value) for value in row] for row in answer["rows"]] == expected
    console.print(
        f"{'same rows as' if same else 'DIFFERENT from'} DuckDB; "
        f"{seconds:.1f} s with process and worker start, DuckDB {time.perf_counter() - began:.1f} s"
    )
    return same


def crossdock(*arguments: str) -> None:
    """Run the command line; its rows, bars and receipt go straight to the terminal."""
    sys.stdout.flush()
    subprocess.run([data.program("crossdock"), *arguments], check=True)


def from_duckdb(sql: str, folder: Path) -> list[list[str]]:
    """Every value as DuckDB's own text: exact digits of decimals and sums."""
    connection = duckdb.connect()
    for table in data.TABLES:
        path = folder / f"{table}.parquet"
        connection.execute(f"CREATE VIEW {table} AS FROM read_parquet('{path}')")
    rows = connection.execute(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ({sql})").fetchall()
    return [list(row) for row in rows]


def print_rows(answer: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in answer["columns"]:
        table.add_column(f"{column['name']}\n{column['type']}", overflow="fold")
    for row in answer["rows"][:SHOWN_ROWS]:
        table.add_row(*map(str, row))
    console.print(table)
    if len(answer["rows"]) > SHOWN_ROWS:
        console.print(f"... {len(answer['rows']) - SHOWN_ROWS} more")


if __name__ == "__main__":
    sys.exit(main())
