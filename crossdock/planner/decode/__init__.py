"""DuckDB's serialized bound plan, decoded into frozen nodes, strictly.

Everything unknown (operator, expression, field, value) raises ``Unsupported`` with a reason that
names it, and the query runs as one task on the user's own text. Both forms of the JSON are read:
with and without skipped defaults.
"""

from __future__ import annotations

import json
import re

import msgspec

from crossdock.errors import Unsupported
from crossdock.planner.decode.relations import decode_relation
from crossdock.planner.decode.strict import Json, brief
from crossdock.planner.nodes import Relation

__all__ = ["SERIALIZE_PLAN", "decode_plan_json", "parse_plan_text"]

#: Text of the plan of the statement bound to ``$sql``.
SERIALIZE_PLAN = (
    "SELECT json_serialize_plan($sql, skip_null := true, skip_empty := true, skip_default := true, "
    "optimize := true)"
)

#: A bare NAN, which no JSON reader knows. A string cannot hold this: its quotes are escaped.
_BARE_NAN = re.compile(r'("value":\s*)-?(?:NAN|nan)\b')


def parse_plan_text(text: str) -> Json:
    """The document of ``json_serialize_plan``. Raises ``Unsupported`` if it is not one.

    The engine writes NaN and infinities bare, and nothing at all when a constant has no text form.
    """
    if not text:
        raise Unsupported("the plan holds a constant that does not serialise")
    try:
        document = _read(text)
    except (ValueError, RecursionError) as error:
        raise Unsupported(f"the plan's text is not readable: {error}") from error
    if not isinstance(document, dict):
        raise Unsupported("the plan's text is not an object")
    return document


def _read(text: str) -> object:
    try:
        return msgspec.json.decode(text)  # three times as fast
    except msgspec.DecodeError:
        return json.loads(_BARE_NAN.sub(r"\1NaN", text))


def decode_plan_json(plan: Json) -> Relation:
    """Decode one statement's plan, or the whole document that holds exactly one.

    Raises ``Unsupported`` for anything unknown, which the message names.
    """
    try:
        return decode_relation(_only_plan(plan) if "error" in plan else plan)
    except RecursionError:
        raise Unsupported("the plan is nested too deeply") from None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise Unsupported(f"plan of an unexpected form: {type(error).__name__} {error}") from error


def _only_plan(document: Json) -> Json:
    if document["error"]:
        raise Unsupported(f"the engine does not serialise this: {document.get('error_message')}")
    plans = document.get("plans") or []
    if len(plans) != 1:
        raise Unsupported(f"{brief(len(plans))} statements")
    plan: Json = plans[0]
    return plan
