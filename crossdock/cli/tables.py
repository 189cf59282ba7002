"""``crossdock tables``: names that later commands know."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from crossdock.cli.options import home_option

if TYPE_CHECKING:
    from crossdock.catalog import Catalog


@click.group()
def tables() -> None:
    """Name Parquet files once, for every later query of this home folder."""


@tables.command()
@click.argument("name")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@home_option
def add(name: str, paths: tuple[str, ...], home: Path | None) -> None:
    """Name files, globs or folders; an entry of that name is replaced."""
    meta = _catalog(home).add(name, list(paths), persistent=True)
    click.echo(
        f"{meta.name}: {len(meta.columns)} columns, {meta.rows:,} rows, {len(meta.files)} files",
        err=True,
    )


@tables.command("list")
@home_option
def list_(home: Path | None) -> None:
    """Names and where they point, tab-separated."""
    catalog = _catalog(home)
    for name in catalog.names():
        click.echo(f"{name}\t{' '.join(catalog.sources(name))}")


@tables.command()
@click.argument("name")
@home_option
def describe(name: str, home: Path | None) -> None:
    """Columns and types, tab-separated; a summary on stderr."""
    meta = _catalog(home).describe(name)
    for column in meta.columns:
        click.echo(f"{column.name}\t{column.type}")
    click.echo(f"{meta.rows:,} rows, {meta.size:,} bytes, {len(meta.files)} files", err=True)


@tables.command()
@click.argument("name")
@home_option
def remove(name: str, home: Path | None) -> None:
    """Forget a name; its files stay."""
    _catalog(home).remove(name)


def _catalog(home: Path | None) -> Catalog:
    from crossdock.catalog import Catalog
    from crossdock.client.connection import home_folder

    return Catalog(home_folder(home))
