"""``crossdock explain``."""

from __future__ import annotations

from typing import Any

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


@click.command()
@click.argument("sql", required=False)
@click.option("-f", "--file", metavar="FILE", help="Read the SQL from FILE (- is stdin).")
@table_option
@parameter_option
@click.option("--format", type=click.Choice(["text", "json"]), default="text")
@click.option("--fragments/--no-fragments", default=True, help="Show each stage's SQL.")
@home_option
@endpoint_options
@setting_options
def explain(
    sql: str | None, file: str | None, format: str, fragments: bool, **options: Any
) -> None:
    """Show a query's stages, fragments, shuffles and estimates; nothing is run.

    The same settings give the same plan: add --single-task-bytes 0 to see a small query cut up.
    """
    import msgspec

    from crossdock.planner.explain import explain_json, explain_text

    text = read_sql(sql, file)
    parameters = parse_parameters(options.pop("parameters"), text)
    with open_connection(options) as connection:
        plan = connection.explain(text, parameters)
    if format == "json":
        encoded = msgspec.json.encode(explain_json(plan))
        click.echo(msgspec.json.format(encoded, indent=2).decode())
    else:
        click.echo(explain_text(plan, fragments=fragments).rstrip("\n"))
