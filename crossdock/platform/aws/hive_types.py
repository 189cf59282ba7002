"""Column types as Hive writes them, in DuckDB's words."""

from __future__ import annotations

import re

from crossdock.errors import TableError

_PLAIN = {
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "integer": "INTEGER",
    "bigint": "BIGINT",
    "long": "BIGINT",
    "boolean": "BOOLEAN",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "varchar": "VARCHAR",
    "char": "VARCHAR",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "binary": "BLOB",
}
_TOKEN = re.compile(r"\s*([A-Za-z_][\w ]*|\d+|[<>(),:]|`[^`]+`)")


def duckdb_type(text: str) -> str:
    """DuckDB's type of a Hive type. Raises ``TableError`` for one that is not known."""
    parser = _Parser(text)
    found = parser.type()
    parser.end()
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._unknown()
            self._tokens.append(match[1].strip())
            at = match.end()
        self._tokens.reverse()

    def type(self) -> str:
        word = self._take().lower()
        match word:
            case "decimal" | "numeric":
                return f"DECIMAL({', '.join(self._arguments() or ['10', '0'])})"
            case "array":
                self._take("<")
                item = self.type()
                self._take(">")
                return f"{item}[]"
            case "map":
                self._take("<")
                key = self.type()
                self._take(",")
                value = self.type()
                self._take(">")
                return f"MAP({key}, {value})"
            case "struct":
                return f"STRUCT({', '.join(self._fields())})"
            case _ if word in _PLAIN:
                self._arguments()  # of VARCHAR(10): a length is no limit for what is read
                return _PLAIN[word]
        raise self._unknown()

    def end(self) -> None:
        if self._tokens:
            raise self._unknown()

    def _fields(self) -> list[str]:
        self._take("<")
        fields = []
        while True:
            name = self._take().strip("`").replace('"', '""')
            self._take(":")
            fields.append(f'"{name}" {self.type()}')
            if self._take() == ">":
                return fields

    def _arguments(self) -> list[str]:
        if not self._tokens or self._tokens[-1] != "(":
            return []
        self._take("(")
        found = []
        while (token := self._take()) != ")":
            if token != ",":
                found.append(token)
        return found

    def _take(self, expected: str = "") -> str:
        if not self._tokens or (expected and self._tokens[-1] != expected):
            raise self._unknown()
        return self._tokens.pop()

    def _unknown(self) -> TableError:
        return TableError(f"type {self._text!r} is not known")
