"""The ``crossdock`` command."""

from __future__ import annotations

import sys
from typing import NoReturn

from crossdock.cli.signals import SIGNALS

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line and leave the process with its exit code."""
    sys.exit(SIGNALS.attend(_command))


def _command() -> int:
    # Imported here, where signals are listened to already: it takes a while.
    from crossdock.cli.commands import cli, run

    return run(lambda: cli.main(prog_name="crossdock", standalone_mode=False))
