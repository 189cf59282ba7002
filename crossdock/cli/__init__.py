"""The ``crossdock`` command."""

from crossdock.cli.main import main

__all__ = ["main"]
