"""``crossdock tables``: names that later commands know."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crossdock.cli.options import endpoint_options, home_option

if TYPE_CHECKING:
    from crossdock.catalog import Catalog, TableMeta
    from crossdock.client.remote_tables import RemoteTable, RemoteTables


@click.group()
def tables() -> None:
    """Name files once, for every later query of this home folder or deployment."""


@tables.command()
@click.argument("name")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--format", "kind", help="parquet, csv, json or iceberg, if the files' names do not say it."
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Of DuckDB's reader of CSV or JSON, such as delim=';'. May be repeated.",
)
@home_option
@endpoint_options
def add(
    name: str, paths: tuple[str, ...], kind: str | None, options: tuple[str, ...], **where: Any
) -> None:
    """Name files, globs or folders; an entry of that name is replaced."""
    meta = _tables(**where).add(
        name, list(paths), persistent=True, format=kind, options=dict(map(_option, options))
    )
    click.echo(
        f"{meta.name}: {len(meta.columns)} columns, {_rows(meta)}, {_files(meta)}",
        err=True,
    )


def _option(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--option")
    return name.strip().lower(), value


def _rows(meta: TableMeta | RemoteTable) -> str:
    """Of CSV and JSON, estimated: nobody has read them."""
    return f"{meta.rows:,} rows" if meta.is_counted else f"about {meta.rows:,} rows"


def _files(meta: TableMeta | RemoteTable) -> str:
    return "1 file" if len(meta.files) == 1 else f"{len(meta.files):,} files"


@tables.command("list")
@home_option
@endpoint_options
def list_(**where: Any) -> None:
    """Names and where they point, tab-separated."""
    known = _tables(**where)
    for name in known.names():
        click.echo(f"{name}\t{' '.join(known.sources(name))}")


@tables.command()
@click.argument("name")
@home_option
@endpoint_options
def describe(name: str, **where: Any) -> None:
    """Columns and types, tab-separated; a summary on stderr."""
    meta = _tables(**where).describe(name)
    for column in meta.columns:
        click.echo(f"{column.name}\t{column.type}")
    click.echo(f"{_rows(meta)}, {meta.size:,} bytes, {_files(meta)}", err=True)


@tables.command()
@click.argument("name")
@home_option
@endpoint_options
def remove(name: str, **where: Any) -> None:
    """Forget a name; its files stay."""
    _tables(**where).remove(name)


def _tables(home: Path | None, endpoint: str | None, auth: str | None) -> Catalog | RemoteTables:
    from crossdock.client.endpoints import chosen_endpoint, http_api

    address = chosen_endpoint(endpoint, home)
    if address is not None:
        from crossdock.client.remote_tables import RemoteTables

        return RemoteTables(http_api(address, auth))
    from crossdock.catalog import Catalog
    from crossdock.client.connection import home_folder
    from crossdock.local.home import Home
    from crossdock.local.written import HomeTables
    from crossdock.platform.aws.on_demand import s3_files

    folder = home_folder(home)
    return Catalog(folder, remote=s3_files(), written=HomeTables(Home(folder)))
