"""The command group, and how errors become messages and exit codes.

Exit codes: 0 done, 1 the query or command failed, 2 wrong usage or a wrong option, 130 Ctrl-C, 143
SIGTERM (of ``timeout`` or a service manager), which cancels the query as well.
Commands import what they run, so that ``--help`` and ``--version`` answer at once.
"""

from __future__ import annotations

from collections.abc import Callable

import click

from coordinator_state.errors import StateError
from crossdock.cli.explain import explain
from crossdock.cli.maintenance import gc, queries
from crossdock.cli.query import query
from crossdock.cli.signals import SIGNALS
from crossdock.cli.tables import tables
from crossdock.errors import CrossdockError, QueryCancelled, SettingError

EXIT_FAILED = 1
EXIT_USAGE = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="crossdock", prog_name="crossdock")
def cli() -> None:
    """SQL over Parquet through a queue shuffle, on this machine.

    Settings are flags, or CROSSDOCK_* variables (CROSSDOCK_WORKERS=4); flags win.
    """


for _command in (query, explain, tables, queries, gc):
    cli.add_command(_command)


def run(command: Callable[[], object]) -> int:
    """The exit code of ``command``; every expected error is one message on stderr."""
    try:
        code = command()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return SIGNALS.tell()
    except SettingError as error:
        _complain(str(error))
        return EXIT_USAGE
    except (CrossdockError, StateError, OSError) as error:
        if isinstance(error, QueryCancelled) and SIGNALS.number:
            return SIGNALS.tell()
        _complain(str(error))
        return EXIT_FAILED
    return code if isinstance(code, int) else 0


def _complain(message: str) -> None:
    click.echo(f"error: {message}", err=True)
