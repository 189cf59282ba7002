"""Quoting: the only way names and strings get into generated SQL."""

from __future__ import annotations

import re

from crossdock.planner.keywords import KEYWORDS

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def quote_identifier(name: str) -> str:
    """``name`` as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def optionally_quoted(name: str) -> str:
    """``name`` as the engine writes it in a type's text: quoted only if it must be."""
    if _WORD.match(name) and name.lower() not in KEYWORDS:
        return name
    return quote_identifier(name)


def quote_literal(text: str) -> str:
    """``text`` as a string literal."""
    return "'" + text.replace("'", "''") + "'"
