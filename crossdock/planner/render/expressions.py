"""Expressions to SQL text that binds to the same types again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from crossdock.errors import Unsupported
from crossdock.planner.keywords import GRAMMAR_WORDS
from crossdock.planner.nodes import (
    AggregateCall,
    Between,
    Call,
    Case,
    Cast,
    ColumnRef,
    Comparison,
    Conjunction,
    Constant,
    Expression,
    Lambda,
    LambdaParameter,
    Operator,
    SortKey,
    WindowCall,
    WindowFrame,
)
from crossdock.planner.render.names import Refs
from crossdock.planner.sql_text import quote_identifier

_ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%"})
#: Functions whose type does not follow from their arguments' types alone.
_RETYPED = frozenset({"equi_width_bins"})
_INFIX = _ARITHMETIC | {"||", "&", "|", "<<", ">>", "~~", "!~~"}
_WORD = re.compile(r"[a-z_][a-z0-9_]*\Z")


def render_expression(expression: Expression, refs: Refs) -> str:
    """SQL text; ``refs(i)`` writes the child's output column i.

    Raises ``Unsupported`` for an expression without a text form.
    """
    write = _WRITERS.get(type(expression))
    if write is None:
        raise Unsupported(f"expression {type(expression).__name__}")
    return write(expression, refs)


def render_list(expressions: Iterable[Expression], refs: Refs) -> str:
    """Expressions, separated by commas."""
    return ", ".join([render_expression(expression, refs) for expression in expressions])


def render_conjunction(predicates: Iterable[Expression], refs: Refs) -> str:
    """Predicates that must all hold; "" for none."""
    return " AND ".join([render_expression(predicate, refs) for predicate in predicates])


def render_sort_keys(keys: Iterable[SortKey], refs: Refs) -> str:
    """What stands after ORDER BY, direction and NULL order always written."""
    return ", ".join([_sort_key(key, refs) for key in keys])


def _sort_key(key: SortKey, refs: Refs) -> str:
    text = render_expression(key.expression, refs)
    if isinstance(key.expression, Constant):
        text = f"CAST({text} AS {key.expression.type})"  # a bare literal is refused in ORDER BY
    direction = "DESC" if key.descending else "ASC"
    return f"{text} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def function_text(name: str) -> str:
    """Name of a function, quoted where the grammar has another use for it."""
    plain = _WORD.match(name) and name not in GRAMMAR_WORDS
    return name if plain else quote_identifier(name)


def _column(expression: ColumnRef, refs: Refs) -> str:
    return refs(expression.index)


def _constant(expression: Constant, refs: Refs) -> str:
    return expression.sql


def _cast(expression: Cast, refs: Refs) -> str:
    verb = "TRY_CAST" if expression.safe else "CAST"
    return f"{verb}({render_expression(expression.child, refs)} AS {expression.type})"


def _call(expression: Call, refs: Refs) -> str:
    name = expression.name
    arguments = [render_expression(argument, refs) for argument in expression.arguments]
    if name in _INFIX and len(arguments) == 2:
        text = f"({arguments[0]} {name} {arguments[1]})"
    elif name == "-" and len(arguments) == 1:
        text = f"(-{arguments[0]})"
    else:
        if expression.names:
            arguments = [
                f"{quote_identifier(label)} := {text}" if label else text
                for label, text in zip(expression.names, arguments, strict=True)
            ]
        text = f"{function_text(name)}({', '.join(arguments)})"
    if name in _RETYPED or (name in _ARITHMETIC and expression.type.startswith("DECIMAL(")):
        # the binder widens decimals; bound again, its own casts would be widened once more
        return f"CAST({text} AS {expression.type})"
    return text


def _comparison(expression: Comparison, refs: Refs) -> str:
    left = render_expression(expression.left, refs)
    return f"({left} {expression.operator} {render_expression(expression.right, refs)})"


def _between(expression: Between, refs: Refs) -> str:
    child = render_expression(expression.child, refs)
    lower = render_expression(expression.lower, refs)
    upper = render_expression(expression.upper, refs)
    if expression.lower_inclusive and expression.upper_inclusive:
        return f"({child} BETWEEN {lower} AND {upper})"
    above = ">=" if expression.lower_inclusive else ">"
    below = "<=" if expression.upper_inclusive else "<"
    return f"({child} {above} {lower} AND {child} {below} {upper})"


def _conjunction(expression: Conjunction, refs: Refs) -> str:
    children = [render_expression(child, refs) for child in expression.children]
    return f"({f' {expression.operator} '.join(children)})"


def _operator(expression: Operator, refs: Refs) -> str:
    name = expression.name
    children = [render_expression(child, refs) for child in expression.children]
    if name in {"IN", "NOT IN"}:
        return f"({children[0]} {name} ({', '.join(children[1:])}))"
    if name in {"IS NULL", "IS NOT NULL"}:
        return f"({children[0]} {name})"
    if name == "NOT":
        return f"(NOT {children[0]})"
    return f"{name}({', '.join(children)})"


def _case(expression: Case, refs: Refs) -> str:
    branches = " ".join(
        [
            f"WHEN {render_expression(when, refs)} THEN {render_expression(then, refs)}"
            for when, then in expression.branches
        ]
    )
    return f"(CASE {branches} ELSE {render_expression(expression.otherwise, refs)} END)"


def _lambda(expression: Lambda, refs: Refs) -> str:
    parameters = ", ".join(expression.parameters)
    return f"lambda {parameters}: {render_expression(expression.body, refs)}"


def _lambda_parameter(expression: LambdaParameter, refs: Refs) -> str:
    return expression.name


def _aggregate(expression: AggregateCall, refs: Refs) -> str:
    name, arguments = _aggregate_head(expression.name, expression.arguments, refs)
    if expression.distinct:
        arguments = f"DISTINCT {arguments}"
    if expression.order:
        arguments += f" ORDER BY {render_sort_keys(expression.order, refs)}"
    text = f"{name}({arguments})"
    if expression.within_group:
        text += f" WITHIN GROUP (ORDER BY {render_sort_keys(expression.within_group, refs)})"
    return text + _filter(expression.filter, refs)


def _aggregate_head(name: str, arguments: tuple[Expression, ...], refs: Refs) -> tuple[str, str]:
    if name == "count_star":
        return "count", "*"
    return function_text(name), render_list(arguments, refs)


def _filter(condition: Expression | None, refs: Refs) -> str:
    return f" FILTER (WHERE {render_expression(condition, refs)})" if condition else ""


def _window(expression: WindowCall, refs: Refs) -> str:
    name, arguments = _aggregate_head(expression.name, expression.arguments, refs)
    if expression.distinct:
        arguments = f"DISTINCT {arguments}"
    if expression.argument_order:
        arguments += f" ORDER BY {render_sort_keys(expression.argument_order, refs)}"
    if expression.ignore_nulls:
        arguments += " IGNORE NULLS"
    over = []
    if expression.partition:
        over.append(f"PARTITION BY {render_list(expression.partition, refs)}")
    if expression.order:
        over.append(f"ORDER BY {render_sort_keys(expression.order, refs)}")
    if expression.frame:
        over.append(_frame(expression.frame, refs))
    return f"{name}({arguments}){_filter(expression.filter, refs)} OVER ({' '.join(over)})"


def _frame(frame: WindowFrame, refs: Refs) -> str:
    start = _bound(frame.start, frame.start_offset, refs)
    end = _bound(frame.end, frame.end_offset, refs)
    exclusion = f" EXCLUDE {frame.exclude}" if frame.exclude else ""
    return f"{frame.mode} BETWEEN {start} AND {end}{exclusion}"


def _bound(kind: str, offset: Expression | None, refs: Refs) -> str:
    return f"{render_expression(offset, refs)} {kind}" if offset else kind


_WRITERS: dict[type[Any], Callable[[Any, Refs], str]] = {
    ColumnRef: _column,
    Constant: _constant,
    Cast: _cast,
    Call: _call,
    Comparison: _comparison,
    Between: _between,
    Conjunction: _conjunction,
    Operator: _operator,
    Case: _case,
    Lambda: _lambda,
    LambdaParameter: _lambda_parameter,
    AggregateCall: _aggregate,
    WindowCall: _window,
}
