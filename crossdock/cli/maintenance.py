"""``crossdock queries`` and ``crossdock gc``: what was run, and what was left behind."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crossdock.cli.options import home_option

if TYPE_CHECKING:
    from coordinator_state.records import QueryRecord
    from crossdock.local import LocalPlatform

_SQL_CHARS = 60


@click.group()
def queries() -> None:
    """Queries of this home folder: running ones, and those of the last day."""


@queries.command("list")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000))
@home_option
def list_(limit: int, home: Path | None) -> None:
    """Newest first: id, status, start (UTC), seconds, rows, SQL; tab-separated."""
    with _platform(home) as platform:
        records = platform.queries(limit)
    for record in records:
        click.echo("\t".join(_line(record)))


@queries.command()
@click.argument("query_id")
@click.option("--format", type=click.Choice(["text", "json"]), default="text")
@home_option
def show(query_id: str, format: str, home: Path | None) -> None:
    """Status, error and receipt of one query."""
    from coordinator_state.ids import QueryId
    from crossdock.receipt import of_summary

    with _platform(home) as platform:
        summary = platform.progress(QueryId(query_id))
    seconds = (summary.ended_at or summary.created_at) - summary.created_at
    receipt = of_summary(summary, labels=(), seconds=seconds)
    if format == "json":
        click.echo(receipt.to_json())
        return
    click.echo(f"{summary.status.value}: {' '.join(summary.sql.split())}")
    if summary.error is not None:
        click.echo(f"{summary.error.kind}: {summary.error.message}")
    click.echo(receipt.to_text().rstrip("\n"))


@queries.command()
@click.argument("query_id")
@home_option
def cancel(query_id: str, home: Path | None) -> None:
    """End a running query; its workers stop within a heartbeat."""
    from coordinator_state.ids import QueryId

    with _platform(home) as platform:
        record = platform.cancel(QueryId(query_id))
    click.echo(f"{record.query_id} is {record.status.value}", err=True)


@click.command()
@home_option
def gc(home: Path | None) -> None:
    """Finish queries whose client died; delete expired results and what no query owns."""
    with _platform(home) as platform:
        removed = platform.gc()
    click.echo(f"{removed} things removed", err=True)


@contextmanager
def _platform(home: Path | None) -> Iterator[LocalPlatform]:
    from crossdock.client.connection import home_folder
    from crossdock.local import LocalPlatform
    from crossdock.settings import Settings

    platform = LocalPlatform(home_folder(home), Settings())
    try:
        yield platform
    finally:
        platform.close()


def _line(record: QueryRecord) -> list[str]:
    began = datetime.datetime.fromtimestamp(record.created_at, datetime.UTC)
    took = "" if record.ended_at is None else f"{record.ended_at - record.created_at:.2f}"
    sql = " ".join(record.sql.split())
    return [
        record.query_id,
        record.status.value,
        began.strftime("%Y-%m-%d %H:%M:%S"),
        took,
        str(record.result_rows),
        sql if len(sql) <= _SQL_CHARS else sql[: _SQL_CHARS - 1] + "…",
    ]
