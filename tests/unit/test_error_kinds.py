"""The one table of error kinds: complete, and the same as the page says."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import crossdock
from coordinator_state import errors as state_errors
from crossdock import errors
from crossdock.error_kinds import ERROR_KINDS, Fate, needs_fresh_process, retryable
from crossdock.executor.failures import _KINDS

SOURCE = Path(crossdock.__file__).parent
PAGE = SOURCE.parent / "docs" / "errors.md"


def kinds_in_code() -> Iterator[str]:
    """Literal kinds of ``ErrorRecord`` and of what becomes one."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.keyword) or node.arg != "kind":
                continue
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                yield node.value.value


def named_by_class() -> Iterator[str]:
    """Errors whose class is their kind: those of platforms and of the state store."""
    for module in (errors, state_errors):
        for name, found in inspect.getmembers(module, inspect.isclass):
            if issubclass(
                found, errors.PlatformError | errors.ExchangeError | state_errors.StateError
            ):
                yield name


def test_every_kind_that_the_code_can_write_is_in_the_table() -> None:
    record_kinds = {kind for kind in kinds_in_code() if kind and kind[0].isupper()}
    assert {"OutOfMemory", "Timeout", "TableChanged"} <= record_kinds
    assert record_kinds - set(ERROR_KINDS) == set()
    assert {kind for _, _, kind in _KINDS} - set(ERROR_KINDS) == set()
    # "Unavailable" and the requeue of a named producer stand for these two.
    base = {"StoreUnavailable", "ExchangeError"}
    assert set(named_by_class()) - set(ERROR_KINDS) == base


def test_the_page_has_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([a-z ]+) \| (yes|) \| (.+) \|$", PAGE.read_text(), re.M)
    assert rows == [
        (name, kind.fate.value, "yes" if kind.fresh else "", kind.about)
        for name, kind in ERROR_KINDS.items()
    ]


def test_only_final_kinds_are_not_tried_again() -> None:
    assert [name for name in ERROR_KINDS if not retryable(name)] == [
        name for name, kind in ERROR_KINDS.items() if kind.fate in (Fate.FAIL, Fate.END)
    ]
    assert retryable("NeverHeardOf")
    assert needs_fresh_process("OutOfMemory")
    assert not needs_fresh_process("NeverHeardOf")
