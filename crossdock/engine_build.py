"""Which build of the engine this is: a query pins one, and workers of another leave it alone."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def engine_build() -> str:
    """Version of this package and of DuckDB, whose fragments and states must match."""
    return f"crossdock-{_version('crossdock')}+duckdb-{_version('duckdb')}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "source"  # run from a checkout that is not installed
