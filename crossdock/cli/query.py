"""``crossdock query``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crossdock.cli.options import (
    endpoint_options,
    home_option,
    open_connection,
    parameter_option,
    parse_parameters,
    read_sql,
    setting_options,
    table_option,
)
from crossdock.cli.signals import SIGNALS

if TYPE_CHECKING:
    from crossdock.client.cursor import Cursor

FORMATS = ("table", "json", "csv", "arrow", "parquet")
#: Formats a terminal cannot show.
BINARY_FORMATS = frozenset({"arrow", "parquet"})
_BY_SUFFIX = {".json": "json", ".csv": "csv", ".arrow": "arrow", ".parquet": "parquet"}


@click.command()
@click.argument("sql", required=False)
@click.option("-f", "--file", metavar="FILE", help="Read the SQL from FILE (- is stdin).")
@table_option
@parameter_option
@click.option(
    "--format",
    type=click.Choice(FORMATS),
    help="Output format.  [default: by -o FILE's ending, else table]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the rows to FILE, which appears whole or not at all.",
)
@click.option("--quiet", is_flag=True, help="No progress and no receipt on stderr.")
@click.option("--receipt", type=click.Choice(["text", "json"]), default="text", help="Its form.")
@home_option
@endpoint_options
@setting_options
def query(
    sql: str | None,
    file: str | None,
    format: str | None,
    output: Path | None,
    quiet: bool,
    receipt: str,
    **options: Any,
) -> None:
    """Run one statement. Rows go to stdout; progress and the receipt to stderr.

    SQL may be - to read it from stdin. Tables are those of --table, those named with `crossdock
    tables add`, and files: FROM 'data/*.parquet'.
    """
    text = read_sql(sql, file)
    parameters = parse_parameters(options.pop("parameters"), text)
    chosen = format or _BY_SUFFIX.get(output.suffix.lower() if output else "", "table")
    if chosen in BINARY_FORMATS and output is None and sys.stdout.isatty():
        raise click.UsageError(f"--format {chosen} is binary: use -o FILE or a pipe")
    from crossdock.cli.formats import Format, write
    from crossdock.cli.output import check_destination, destination
    from crossdock.cli.progress import live_bars
    from crossdock.results.values import is_text

    check_destination(output)
    with open_connection(options) as connection:
        as_text = None if chosen in BINARY_FORMATS else is_text
        cursor = connection.cursor(as_text=as_text)
        SIGNALS.cancels(cursor.cancel)
        with live_bars(lambda: _labels(cursor), wanted=not quiet) as on_progress:
            cursor.on_progress = on_progress
            cursor.execute(text, parameters)
        with destination(output) as stream:
            write(cursor, Format(chosen), stream)
        if not quiet:
            _show_receipt(cursor, receipt)


def _labels(cursor: Cursor) -> list[str]:
    return list(cursor.stage_labels)


def _show_receipt(cursor: Cursor, form: str) -> None:
    if cursor.receipt is not None:
        text = cursor.receipt.to_json() if form == "json" else cursor.receipt.to_text()
        click.echo(text.rstrip("\n"), err=True)
