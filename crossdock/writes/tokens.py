"""A statement's tokens, as what reads the words around a query needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from crossdock.planner.tokens import Reader, Token

_OPENING = frozenset("([{")
_CLOSING = frozenset(")]}")


class TokenReader(Reader):
    """A reader that looks ahead, and blanks out what is not the query."""

    def peek(self, ahead: int) -> str:
        """The word of a token that comes later; "" beyond the end."""
        place = self._at + ahead
        return self._tokens[place].word if place < len(self._tokens) else ""

    def outside(self, *words: str) -> Iterator[Token]:
        """Take tokens up to the next of ``words`` outside parentheses; those outside are given."""
        depth = 0
        while self.word and not (depth == 0 and self.word in words):
            token = self.take()
            depth -= token.text in _CLOSING
            if depth == 0:
                yield token
            depth += token.text in _OPENING

    def blanked(self, kept: Sequence[tuple[int, int]]) -> str:
        """The statement with all but the ``kept`` pieces made blank: places and lines stay."""
        out: list[str] = []
        at = 0
        for first, last in kept:
            out += [_blank(self.text(at, first)), self.text(first, last)]
            at = last
        return "".join(out)


def end_of(token: Token) -> int:
    """Where a token ends, in bytes."""
    return token.start + len(token.text.encode())


def string_of(token: Token) -> str | None:
    """A string constant's value; None if the token is none."""
    if len(token.text) < 2 or not token.text.startswith("'"):
        return None
    return token.text[1:-1].replace("''", "'")


def _blank(text: str) -> str:
    return "".join("\n" if letter == "\n" else " " for letter in text)
