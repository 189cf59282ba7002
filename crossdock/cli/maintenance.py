"""``crossdock queries`` and ``crossdock gc``: what was run, and what was left behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crossdock.cli.options import endpoint_options, home_option

if TYPE_CHECKING:
    from crossdock.client.history import Entry, History
    from crossdock.local import LocalPlatform

_SQL_CHARS = 60


@click.group()
def queries() -> None:
    """Queries that run or ran: in a home folder those of the last day, in a deployment yours."""


@queries.command("list")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000))
@home_option
@endpoint_options
def list_(limit: int, **where: Any) -> None:
    """Newest first: id, status, start (UTC), seconds, rows, SQL; tab-separated."""
    with _history(**where) as history:
        entries = history.list(limit)
    for entry in entries:
        click.echo("\t".join(_line(entry)))


@queries.command()
@click.argument("query_id")
@click.option("--format", type=click.Choice(["text", "json"]), default="text")
@home_option
@endpoint_options
def show(query_id: str, format: str, **where: Any) -> None:
    """Status, error and receipt of one query."""
    with _history(**where) as history:
        account = history.show(query_id)
    if format == "json":
        click.echo(account.receipt.to_json())
        return
    click.echo(f"{account.status}: {' '.join(account.sql.split())}")
    if account.error is not None:
        kind, message = account.error
        click.echo(f"{kind}: {message}")
    click.echo(account.receipt.to_text().rstrip("\n"))


@queries.command()
@click.argument("query_id")
@home_option
@endpoint_options
def cancel(query_id: str, **where: Any) -> None:
    """End a running query; its workers stop within a heartbeat."""
    with _history(**where) as history:
        status = history.cancel(query_id)
    click.echo(f"{query_id} is {status}", err=True)


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


@contextmanager
def _history(home: Path | None, endpoint: str | None, auth: str | None) -> Iterator[History]:
    from crossdock.client.endpoints import chosen_endpoint, http_api
    from crossdock.client.history import LocalHistory, RemoteHistory

    address = chosen_endpoint(endpoint, home)
    if address is None:
        with _platform(home) as platform:
            yield LocalHistory(platform)
        return
    history = RemoteHistory(http_api(address, auth))
    try:
        yield history
    finally:
        history.close()


def _line(entry: Entry) -> list[str]:
    sql = " ".join(entry.sql.split())
    return [
        entry.query_id,
        entry.status,
        entry.began.strftime("%Y-%m-%d %H:%M:%S"),
        "" if entry.seconds is None else f"{entry.seconds:.2f}",
        str(entry.rows),
        sql if len(sql) <= _SQL_CHARS else sql[: _SQL_CHARS - 1] + "…",
    ]
