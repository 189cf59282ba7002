"""A statement's tokens, cut by DuckDB, for what it gives no tree of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import duckdb

from crossdock.errors import SqlError


class Token(NamedTuple):
    start: int  # bytes
    text: str

    @property
    def word(self) -> str:
        """Upper-case keyword or bare name; quoted names and strings are none."""
        return self.text.upper()

    @property
    def name(self) -> str:
        if self.text.startswith('"'):
            return self.text[1:-1].replace('""', '"')
        return self.text


_DEPTHS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


class Reader:
    """Tokens one after the other."""

    def __init__(self, sql: str) -> None:
        self._data = encoded(sql)
        self._tokens = list(_tokens(self._data))
        self._at = 0

    @property
    def word(self) -> str:
        return self._tokens[self._at].word if self._at < len(self._tokens) else ""

    @property
    def start(self) -> int:
        """Where the next token starts, in bytes."""
        if self._at < len(self._tokens):
            return self._tokens[self._at].start
        return len(self._data)

    @property
    def end(self) -> int:
        """Where the last token taken ends, in bytes."""
        last = self._tokens[self._at - 1]
        return last.start + len(last.text.encode())

    @property
    def at(self) -> int:
        """The number of tokens taken; set it to go back."""
        return self._at

    @at.setter
    def at(self, place: int) -> None:
        self._at = place

    def text(self, first: int, last: int) -> str:
        """The text between two positions in bytes."""
        return self._data[first:last].decode()

    def take(self) -> Token:
        if self._at >= len(self._tokens):
            raise SqlError("syntax error at end of input")
        self._at += 1
        return self._tokens[self._at - 1]

    def skip(self, *words: str) -> bool:
        """Take ``words`` if they come next."""
        found = [token.word for token in self._tokens[self._at : self._at + len(words)]]
        if found != list(words):
            return False
        self._at += len(words)
        return True

    def starts_form(self) -> bool:
        """Whether ``(...) AS`` comes next."""
        here = self._at
        found = self.skip("(")
        self.until(")")
        found = found and self.skip(")", "AS")
        self._at = here
        return found

    def until(self, *words: str) -> str:
        """The text before the next of ``words`` outside parentheses, or before the end."""
        first, depth = self.start, 0
        while self.word and not (depth == 0 and self.word in words):
            depth += _DEPTHS.get(self.word, 0)
            self._at += 1
        return self._data[first : self.start].decode().strip()


def encoded(sql: str) -> bytes:
    """``sql`` as UTF-8.

    Raises:
        SqlError: it holds half characters, as a command line's bytes that were no UTF-8 become.
    """
    try:
        return sql.encode()
    except UnicodeEncodeError as error:
        raise SqlError("the statement is not valid Unicode text; write it in UTF-8") from error


def without_empty_statements(sql: str) -> str:
    """``sql`` with spaces for the semicolons before its first word.

    DuckDB's parser takes ``; SELECT 1``, but not behind DESCRIBE or inside a larger statement.
    """
    if not sql.lstrip().startswith((";", "--", "/*")):
        return sql
    reader, data = Reader(sql), bytearray(encoded(sql))
    while reader.skip(";"):
        data[reader.end - 1] = ord(" ")
    return data.decode()


def _tokens(data: bytes) -> Iterator[Token]:
    found = duckdb.tokenize(data.decode())
    ends = [start for start, _ in found[1:]] + [len(data)]
    for (start, kind), end in zip(found, ends, strict=True):
        if kind != duckdb.token_type.comment:
            text = data[start:end].decode().strip()
            # DuckDB's tokens hold neither spaces nor comments, but for what follows the last.
            yield Token(start, text)
