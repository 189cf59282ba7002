"""Bound functions: casts, comparisons, calls and lambdas."""

from __future__ import annotations

from collections.abc import Callable

from crossdock.errors import Unsupported
from crossdock.planner.decode.scope import Scope
from crossdock.planner.decode.strict import Json, brief, require, shape
from crossdock.planner.decode.types import struct_fields, type_text
from crossdock.planner.nodes import (
    Between,
    Call,
    Cast,
    Comparison,
    Constant,
    Expression,
    Lambda,
    LambdaParameter,
)
from crossdock.planner.sql_text import quote_literal

#: decode_expression, handed in because the two modules need each other.
Decode = Callable[[Json, Scope], Expression]

COMPARISONS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_DISTINCT_FROM": "IS DISTINCT FROM",
    "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
}

_FUNCTION = shape(
    "function",
    "expression_class type return_type children arguments qname has_serialize positional_arguments "
    "named_arguments function_data is_operator",
)
_LAMBDA = shape(
    "lambda", "expression_class type return_type lambda_expr parameter_count parameter_names"
)
_COMPARISON_DATA = shape("comparison", "")
_CAST_DATA = shape("cast", "try_cast is_default_cast")
_BETWEEN_DATA = shape("BETWEEN", "lower_inclusive upper_inclusive")

#: Bound data the function derives again from its arguments and the session when its text is bound.
_DERIVED_DATA = shape(
    "data of function",
    "check_overflow return_type arguments variable_return_type stype part_codes bind_data "
    "order_type null_order child_type is_grade_up sort_key tz_setting cal_setting "
    "field_indexes",
)
_LAMBDA_DATA = shape("data of lambda", "return_type lambda_expr has_index has_initial")

#: Read the text, transaction or catalog of the statement they stand in, which a fragment's are not.
_FOREIGN = frozenset(
    {
        "alias",
        "current_query",
        "current_query_id",
        "current_transaction_id",
        "currval",
        "nextval",
        "setval",
        "txid_current",
    }
)

_NAMED = frozenset({"struct_pack", "union_value", "struct_insert", "struct_update"})


def function_name(node: Json) -> str:
    """Name of a built-in. Raises ``Unsupported`` for functions of another catalog."""
    path = node["qname"]["path"]
    if len(path) > 1 and path[:-1] != ["system", "main"]:
        raise Unsupported(f"user-defined function {'.'.join(path)}")
    name: str = path[-1]
    if name in _FOREIGN or name.startswith("__internal"):
        raise Unsupported(f"function {name}")
    return name


def decode_function(node: Json, scope: Scope, decode: Decode) -> Expression:
    """A bound function. Raises ``Unsupported`` when its bound data would not be restored."""
    _FUNCTION.check(node)
    kind = node["type"]
    if kind == "OPERATOR_CAST":
        return _cast(node, scope, decode)
    operator = COMPARISONS.get(kind)
    if operator is not None:
        _COMPARISON_DATA.check(node.get("function_data") or {})
        _check_boolean(node)
        left, right = node["children"]
        return Comparison(operator, decode(left, scope), decode(right, scope))
    if kind == "COMPARE_BETWEEN":
        _check_boolean(node)
        return _between(node, scope, decode)
    if kind == "BOUND_FUNCTION":
        return _call(node, scope, decode)
    raise Unsupported(f"function of kind {kind}")


def _check_boolean(node: Json) -> None:
    if (returned := type_text(node["return_type"])) != "BOOLEAN":
        raise Unsupported(f"{node['type']} of type {returned}")


def _cast(node: Json, scope: Scope, decode: Decode) -> Expression:
    data = node.get("function_data") or {}
    _CAST_DATA.check(data)
    (child,) = node["children"]
    return Cast(
        decode(child, scope), type_text(node["return_type"]), bool(data.get("try_cast", False))
    )


def _between(node: Json, scope: Scope, decode: Decode) -> Expression:
    data = node.get("function_data") or {}
    _BETWEEN_DATA.check(data)
    child, lower, upper = node["children"]
    return Between(
        decode(child, scope),
        decode(lower, scope),
        decode(upper, scope),
        bool(require(data, "lower_inclusive", "BETWEEN")),
        bool(require(data, "upper_inclusive", "BETWEEN")),
    )


def _call(node: Json, scope: Scope, decode: Decode) -> Expression:
    name = function_name(node)
    children = node.get("children") or []
    if any(child.get("expression_class") == "BOUND_LAMBDA" for child in children):
        return _lambda_call(name, node, scope, decode)
    data = node.get("function_data") or {}
    if "lambda_expr" in data:
        raise Unsupported(f"function {name} with a bound lambda and no lambda argument")
    _check_data(name, data)
    arguments = tuple([decode(child, scope) for child in children])
    return Call(name, arguments, type_text(node["return_type"]), _argument_names(name, node))


def _check_data(name: str, data: Json) -> None:
    try:
        _DERIVED_DATA.check(data)
    except Unsupported as unknown:
        raise Unsupported(f"function {name}: {unknown}") from None


def _argument_names(name: str, node: Json) -> tuple[str, ...]:
    """Names of the arguments, "" for positional ones; () if none is named."""
    named = list(node.get("named_arguments") or ())
    if name == "struct_pack" and not named:
        named = [field for field, _ in struct_fields(node["return_type"])]
    if not named:
        return ()
    if name not in _NAMED or not all(isinstance(argument, str) for argument in named):
        raise Unsupported(f"function {name} with named arguments {brief(named)}")
    positional = len(node.get("children") or ()) - len(named)
    if positional < 0:
        raise Unsupported(f"function {name} with more names than arguments")
    return ("",) * positional + tuple(named)


def _lambda_call(name: str, node: Json, scope: Scope, decode: Decode) -> Expression:
    """list_transform and kin: arguments, of them one lambda, then what the lambda captured.

    invoke, which the binder also writes itself (to compare intervals inside structs), has its
    lambda first and then one argument for each parameter.
    """
    data = node.get("function_data") or {}
    _LAMBDA_DATA.check(data)
    children = node["children"]
    position = next(
        i for i, child in enumerate(children) if child["expression_class"] == "BOUND_LAMBDA"
    )
    declared = position + (2 if data.get("has_initial") else 1)
    if name == "invoke":
        declared += children[position].get("parameter_count", 0)
    captures = tuple([decode(child, scope) for child in children[declared:]])
    arguments = [decode(child, scope) for child in children[:position]]
    arguments.append(_lambda(children[position], captures, scope, decode))
    arguments += [decode(child, scope) for child in children[position + 1 : declared]]
    return Call(name, tuple(arguments), type_text(node["return_type"]))


def _lambda(node: Json, captures: tuple[Expression, ...], scope: Scope, decode: Decode) -> Lambda:
    """A lambda's body counts its parameters from the last to the first, then its captures."""
    _LAMBDA.check(node)
    count: int = node.get("parameter_count", 0)
    names = tuple(f"x{scope.depth}_{i}" for i in range(count))

    def resolve(index: int, type_name: str) -> Expression:
        if index < count:
            return LambdaParameter(names[count - 1 - index], type_name)
        if index - count >= len(captures):
            raise Unsupported(f"lambda refers to capture {index - count} of {len(captures)}")
        return captures[index - count]

    return Lambda(names, decode(node["lambda_expr"], Scope(resolve, scope.depth + 1)))


def struct_path(
    expression: Expression, type_node: Json, path: list[int]
) -> tuple[Expression, Json]:
    """Nested field of a struct by field positions, with its type."""
    for position in path:
        name, type_node = struct_fields(type_node)[position]
        key = Constant(quote_literal(name), "VARCHAR")
        expression = Call("struct_extract", (expression, key), type_text(type_node))
    return expression, type_node
