"""Options shared by commands: settings, tables, parameters, the home folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from crossdock.settings import FIELDS, Exchange, Kind

if TYPE_CHECKING:
    from crossdock.client.connection import Connection

C = TypeVar("C", bound=Callable[..., Any])

_METAVARS = {Kind.COUNT: "N", Kind.SIZE: "SIZE", Kind.DURATION: "TIME"}


def home_option(command: C) -> C:
    return click.option(
        "--home",
        type=click.Path(file_okay=False, path_type=Path),
        default=None,
        help="Folder of state, objects and named tables.  [default: .crossdock]",
    )(command)


def endpoint_options(command: C) -> C:
    """Where queries run: this machine, or a deployment."""
    command = click.option(
        "--auth",
        metavar="HOW",
        default=None,
        help="With an endpoint: iam (signed with AWS credentials), none, or 'Bearer TOKEN'; "
        "CROSSDOCK_TOKEN holds a token out of sight.  [default: iam]",
    )(command)
    return click.option(
        "--endpoint",
        metavar="URL",
        default=None,
        help="A deployment's HTTP API; CROSSDOCK_ENDPOINT names one for every command that is "
        "given no --home.  [default: this machine]",
    )(command)


def setting_options(command: C) -> C:
    """A flag for every setting; what is not given is not passed on."""
    for field in reversed(FIELDS):
        kind: dict[str, Any] = {"metavar": _METAVARS.get(field.kind)}
        if field.kind is Kind.EXCHANGE:
            kind = {"type": click.Choice([method.value for method in Exchange])}
        command = click.option(
            field.flag,
            field.name,
            default=None,
            help=f"{field.help[0].upper()}{field.help[1:]}.  [default: {field.default}]",
            **kind,
        )(command)
    return command


def table_option(command: C) -> C:
    return click.option(
        "--table",
        "tables",
        multiple=True,
        metavar="NAME=PATH",
        help="Name a file, glob or folder for this call; may be repeated, and repeating a name "
        "adds files.",
    )(command)


def parameter_option(command: C) -> C:
    return click.option(
        "--param",
        "parameters",
        multiple=True,
        metavar="[NAME=]VALUE",
        help="Value of the next ? or of $NAME, as text (cast it in the SQL); may be repeated.",
    )(command)


def given_settings(options: Mapping[str, object]) -> dict[str, object]:
    """The settings that were given as flags."""
    return {
        field.name: options[field.name] for field in FIELDS if options.get(field.name) is not None
    }


def parse_tables(pairs: Iterable[str]) -> dict[str, list[str]]:
    """``NAME=PATH`` pairs by name. Raises ``click.BadParameter``."""
    tables: dict[str, list[str]] = {}
    for pair in pairs:
        name, separator, path = pair.partition("=")
        if not (name.strip() and separator and path):
            raise click.BadParameter(f"{pair!r} is not NAME=PATH", param_hint="--table")
        tables.setdefault(name.strip(), []).append(path)
    return tables


def parse_parameters(pairs: Iterable[str], sql: str) -> list[str] | dict[str, str] | None:
    """Values in order, or by name when the statement names its parameters.

    Raises ``click.BadParameter`` when the two are mixed.
    """
    values = list(pairs)
    if not values:
        return None
    named = [value.partition("=") for value in values]
    by_name = [bool(sep) and name.isidentifier() and f"${name}" in sql for name, sep, _ in named]
    if all(by_name):
        return {name: value for name, _, value in named}
    if any(by_name):
        raise click.BadParameter(
            "parameters are either all NAME=VALUE or all plain values", param_hint="--param"
        )
    return values


def open_connection(options: Mapping[str, Any]) -> Connection:
    """A connection from a command's options."""
    from crossdock.client.connection import connect

    return connect(
        home=options.get("home"),
        endpoint=options.get("endpoint"),
        auth=options.get("auth"),
        tables=parse_tables(options.get("tables", ())),
        **given_settings(options),  # type: ignore[arg-type]
    )


def read_sql(text: str | None, file: str | None) -> str:
    """The statement from the argument, a file, or standard input (``-``).

    Raises ``click.UsageError`` for none or two of them.
    """
    if (text is None) == (file is None):
        raise click.UsageError("give the SQL as an argument, or with -f FILE, or - for stdin")
    if text == "-" or file == "-":
        return sys.stdin.read()
    if text is not None:
        return text
    try:
        return Path(str(file)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"cannot read {file}: {error}", param_hint="-f") from error
