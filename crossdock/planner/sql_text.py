"""Quoting: the only way names and strings get into generated SQL."""

from __future__ import annotations


def quote_identifier(name: str) -> str:
    """``name`` as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """``text`` as a string literal."""
    return "'" + text.replace("'", "''") + "'"
