"""A fragment's SQL on several lines, for people; the fragment that runs is one line."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[()]|"
    r"\b(?:FROM|WHERE|GROUP BY|ORDER BY|LIMIT|UNION(?: ALL)?|EXCEPT(?: ALL)?|INTERSECT(?: ALL)?|"
    r"(?:[A-Z]+ )?(?:[A-Z]+ )?JOIN)\b(?=\s)|\s+|[^\s()'\"]+"
)
_CLAUSE = re.compile(
    r"FROM|WHERE|GROUP BY|ORDER BY|LIMIT|UNION|EXCEPT|INTERSECT|.*JOIN$", re.DOTALL
)
_QUERY = re.compile(r"[\s(]*(?:SELECT|WITH)\b")


def on_lines(sql: str, indent: str = "  ") -> str:
    """``sql`` with a line for each clause of each SELECT, subqueries set in by ``indent``.

    Only white space changes: literals and quoted names stay whole.
    """
    out: list[str] = []
    #: For each open parenthesis, whether it holds a query.
    opened: list[bool] = []
    for match in _TOKEN.finditer(sql):
        token = match.group()
        depth = sum(opened)
        if token == "(":
            opened.append(bool(_QUERY.match(sql, match.end())))
            out.append("(" + _line(depth + 1, indent) if opened[-1] else "(")
        elif token == ")":
            closes_query = opened.pop() if opened else False
            out.append((_line(depth - 1, indent) if closes_query else "") + ")")
        elif _CLAUSE.match(token) and (not opened or opened[-1]):
            out.append(_line(depth, indent) + token)
        else:
            out.append(" " if token.isspace() else token)
    return re.sub(r"[ ]+\n", "\n", "".join(out)).strip()


def _line(depth: int, indent: str) -> str:
    return "\n" + indent * depth
