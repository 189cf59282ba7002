"""A DynamoDB client's twin: one table in a dictionary, with conditions and updates as the service
takes them. The store's own verbs run over it, so what is tested are their real expressions.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from botocore.exceptions import ClientError

from coordinator_state import conditions, schema

Item: TypeAlias = dict[str, Any]  # attribute -> typed value, as it travels
Key: TypeAlias = tuple[str, str]
Watch: TypeAlias = Callable[[Key, Item | None, Item | None], None]
#: Runs one request: its name, what it is about, and what it does.
Around: TypeAlias = Callable[[str, str, Callable[[], Any]], Any]

#: What a refused write is called in traces and plans of faults: the name of its condition.
NAMES: Mapping[str, str] = {
    text: name
    for name, text in vars(conditions).items()
    if name.isupper() and isinstance(text, str) and not name.startswith("_")
}


def client_error(code: str, operation: str, *, status: int = 400, **extra: Any) -> ClientError:
    response: Any = {
        "Error": {"Code": code, "Message": code},
        "ResponseMetadata": {"HTTPStatusCode": status},
        **extra,
    }
    return ClientError(response, operation)


class Missing:
    """An attribute that is not there: no comparison with it holds, except being different."""

    def __eq__(self, other: object) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return True

    def __lt__(self, other: object) -> bool:
        return False

    __le__ = __gt__ = __ge__ = __lt__
    __hash__ = object.__hash__


MISSING = Missing()


def native(value: Any) -> Any:
    ((tag, inner),) = value.items()
    if tag == "N":
        return float(inner) if "." in inner or "E" in inner else int(inner)
    if tag == "L":
        return [native(one) for one in inner]
    if tag == "M":
        return {name: native(one) for name, one in inner.items()}
    return inner


_TOKEN = re.compile(
    r"\s*(attribute_exists|attribute_not_exists|contains|size|begins_with|AND|OR|NOT|IN"
    r"|#\w+|:\w+|<>|<=|>=|[=<>(),])"
)
_WORDS = {
    "AND": "and", "OR": "or", "NOT": "not", "IN": "in", "=": "==", "<>": "!=",
    "attribute_exists": "exists", "attribute_not_exists": "absent", "size": "len",
}  # fmt: skip


def _absent(value: Any) -> bool:
    return value is MISSING


_SCOPE = {
    "exists": lambda value: value is not MISSING,
    "absent": _absent,
    "contains": lambda held, one: one in held,
    "begins_with": lambda text, start: text.startswith(start),
}


@cache
def _condition(text: str) -> Any:
    """A condition as Python code over ``a`` (attributes) and ``v`` (bound values)."""
    words, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match, f"condition not understood at {text[at:]!r}"
        token = match.group(1)
        at = match.end()
        if token[0] == "#":
            words.append(f"a({token[1:]!r})")
        elif token[0] == ":":
            words.append(f"v({token!r})")
        else:
            words.append(_WORDS.get(token, token))
    source = " ".join(words)
    # ``x in (y)`` must be a tuple.
    source = re.sub(r"in \( ([^()]*\([^()]*\)) \)", r"in ( \1 , )", source)
    return compile(source, text, "eval")


def holds(condition: str | None, item: Item | None, values: Mapping[str, Any]) -> bool:
    if not condition:
        return True
    given = item or {}

    def a(name: str) -> Any:
        return native(given[name]) if name in given else MISSING

    def v(name: str) -> Any:
        return native(values[name])

    if condition in ("attribute_exists(#pk)", "attribute_not_exists(#pk)"):
        return (item is not None) == (condition == "attribute_exists(#pk)")
    return bool(eval(_condition(condition), {**_SCOPE, "a": a, "v": v}))


_ASSIGN = re.compile(r"\s*#(\w+)(?:\.#(\w+))? = (.*)", re.DOTALL)
_PLUS = re.compile(r"(.+) \+ (:\w+)$")
_CALL = re.compile(r"(\w+)\(([^,]+), (:\w+)\)$")
_REMOVE = re.compile(r"\s*#(\w+)(?:\[(\d+)\])?")


@cache
def _update(text: str) -> tuple[tuple[tuple[str, str, str], ...], tuple[tuple[str, str], ...]]:
    """(path, sub-path, expression) of each assignment; (path, index) of each removal."""
    sets, _, removes = text.partition("REMOVE ")
    assigned = []
    for part in re.split(r", (?=#\w+(?:\.#\w+)? = )", sets.strip().removeprefix("SET ")):
        if part:
            match = _ASSIGN.fullmatch(part)
            assert match, f"update not understood: {part!r}"
            assigned.append((match.group(1), match.group(2) or "", match.group(3)))
    removed = []
    for part in filter(None, removes.split(", ")):
        match = _REMOVE.fullmatch(part)
        assert match, f"update not understood: {part!r}"
        removed.append((match.group(1), match.group(2) or ""))
    return tuple(assigned), tuple(removed)


def updated(item: Item, text: str, values: Mapping[str, Any]) -> Item:
    """The item after an update expression; every right side sees the item before it."""
    new = dict(item)
    assigned, removed = _update(text)
    for name, inner, expression in assigned:
        value = _value(item, expression, values)
        if inner:
            new[name] = {"M": {**new.get(name, {"M": {}})["M"], inner: value}}
        else:
            new[name] = value
    for name, index in removed:
        if index:
            held = list(item[name]["L"])
            del held[int(index)]
            new[name] = {"L": held}
        else:
            new.pop(name, None)
    return new


def _value(item: Item, expression: str, values: Mapping[str, Any]) -> Any:
    if expression in values:
        return values[expression]
    if plus := _PLUS.fullmatch(expression):
        left = native(_value(item, plus.group(1), values))
        return {"N": str(left + native(values[plus.group(2)]))}
    if call := _CALL.fullmatch(expression):
        function, path, default = call.groups()
        held = _attribute(item, path)
        if function == "if_not_exists":
            return values[default] if held is None else held
        assert function == "list_append"
        assert held is not None
        return {"L": held["L"] + values[default]["L"]}
    held = _attribute(item, expression)
    assert held is not None, f"no attribute {expression}"
    return held


def _attribute(item: Item, path: str) -> Any:
    name, _, inner = path.replace("#", "").partition(".")
    value = item.get(name)
    return value["M"].get(inner) if inner and value is not None else value


class TableTwin:
    """What the store asks of ``boto3.client("dynamodb")``; one table, whatever its name.

    ``around`` is given every request and runs its effect, once, twice, late or not at all; an
    effect is whole (atomic) in itself.
    """

    def __init__(self, around: Around | None = None, watch: Watch | None = None) -> None:
        self.items: dict[Key, Item] = {}
        self._sorts: dict[str, list[str]] = {}
        self._around = around or (lambda verb, subject, effect: effect())
        self._watch = watch or (lambda key, old, new: None)

    # -- single items ----------------------------------------------------------------------------
    def update_item(self, **request: Any) -> Any:
        key, condition = _key(request["Key"]), request["ConditionExpression"]
        values = request["ExpressionAttributeValues"]

        def effect() -> Any:
            old = self.items.get(key)
            self._require(key, condition, values, "UpdateItem")
            keys = dict(zip(("pk", "sk"), ({"S": key[0]}, {"S": key[1]}), strict=True))
            new = updated(old or keys, request["UpdateExpression"], values)
            self._set(key, new)
            return {"Attributes": new if request["ReturnValues"] == "ALL_NEW" else old or {}}

        name = _task_verb(condition, values) or _name(condition, "UPDATE")
        return self._around(name, key[0] + " " + key[1], effect)

    def put_item(self, **request: Any) -> Any:
        item = request["Item"]
        key, condition = _key(item), request.get("ConditionExpression")

        def effect() -> Any:
            values = request.get("ExpressionAttributeValues", {})
            self._require(key, condition, values, "PutItem")
            self._set(key, dict(item))
            return {}

        return self._around(_name(condition, "PUT"), key[0] + " " + key[1], effect)

    def delete_item(self, **request: Any) -> Any:
        key, condition = _key(request["Key"]), request.get("ConditionExpression")

        def effect() -> Any:
            values = request.get("ExpressionAttributeValues", {})
            self._require(key, condition, values, "DeleteItem")
            self._set(key, None)
            return {}

        return self._around(_name(condition, "DELETE"), key[0] + " " + key[1], effect)

    def get_item(self, **request: Any) -> Any:
        key = _key(request["Key"])

        def effect() -> Any:
            found = self.items.get(key)
            return {} if found is None else {"Item": found}

        return self._around("GET", key[0] + " " + key[1], effect)

    # -- many items ------------------------------------------------------------------------------
    def transact_write_items(self, *, TransactItems: Sequence[Any]) -> Any:
        writes = [next(iter(write.items())) for write in TransactItems]

        def effect() -> Any:
            self._require_all(writes)
            for kind, write in writes:
                if kind == "Put":
                    self._set(_key(write["Item"]), dict(write["Item"]))
                elif kind == "Update":
                    key = _key(write["Key"])
                    old = self.items.get(key, dict(write["Key"]))
                    values = write["ExpressionAttributeValues"]
                    self._set(key, updated(old, write["UpdateExpression"], values))
            return {}

        keys = [_key(write.get("Key") or write["Item"]) for _, write in writes]
        return self._around("TRANSACT", " + ".join(key[1] for key in keys[:3]), effect)

    def _require_all(self, writes: Iterable[tuple[str, Any]]) -> None:
        reasons: list[dict[str, Any]] = []
        for _, write in writes:
            key = _key(write.get("Key") or write["Item"])
            values = write.get("ExpressionAttributeValues", {})
            if holds(write.get("ConditionExpression"), self.items.get(key), values):
                reasons.append({"Code": "None"})
                continue
            reason: dict[str, Any] = {"Code": "ConditionalCheckFailed"}
            if "ReturnValuesOnConditionCheckFailure" in write and key in self.items:
                reason["Item"] = self.items[key]
            reasons.append(reason)
        if any(reason["Code"] != "None" for reason in reasons):
            raise client_error(
                "TransactionCanceledException", "TransactWriteItems", CancellationReasons=reasons
            )

    def batch_write_item(self, *, RequestItems: Mapping[str, Any]) -> Any:
        ((_, requests),) = RequestItems.items()

        def effect() -> Any:
            for request in requests:
                if "PutRequest" in request:
                    item = request["PutRequest"]["Item"]
                    self._set(_key(item), dict(item))
                else:
                    self._set(_key(request["DeleteRequest"]["Key"]), None)
            return {}

        return self._around("BATCH_WRITE", f"{len(requests)} items", effect)

    def batch_get_item(self, *, RequestItems: Mapping[str, Any]) -> Any:
        ((name, request),) = RequestItems.items()
        keys = [_key(key) for key in request["Keys"]]

        def effect() -> Any:
            return {"Responses": {name: [self.items[k] for k in keys if k in self.items]}}

        return self._around("BATCH_GET", " + ".join(k[1] for k in keys[:3]), effect)

    def query(self, **request: Any) -> Any:
        values = request["ExpressionAttributeValues"]
        if "IndexName" in request:
            return self._around(
                "LIST", values[":listing"]["S"], lambda: {"Items": self._listed(request)}
            )
        partition = values[":pk"]["S"]
        prefix = values[":prefix"]["S"] if ":prefix" in values else ""

        def effect() -> Any:
            sorts = self._sorts.get(partition, [])
            start = bisect_left(sorts, prefix)
            found = []
            for sort in sorts[start:]:
                if not sort.startswith(prefix):
                    break
                found.append(self.items[(partition, sort)])
            return {"Items": found}

        return self._around("QUERY", f"{partition} {prefix}", effect)

    def _listed(self, request: Any) -> list[Item]:
        values = request["ExpressionAttributeValues"]
        before = values.get(":before", {}).get("S")
        found = [
            item
            for item in self.items.values()
            if item.get(schema.LISTING_ATTRIBUTE) == values[":listing"]
            and (before is None or item[schema.LISTING_SORT_ATTRIBUTE]["S"] < before)
        ]
        found.sort(
            key=lambda item: item[schema.LISTING_SORT_ATTRIBUTE]["S"],
            reverse=not request["ScanIndexForward"],
        )
        return found

    # -- underneath ------------------------------------------------------------------------------
    def _require(
        self, key: Key, condition: str | None, values: Mapping[str, Any], operation: str
    ) -> None:
        old = self.items.get(key)
        if not holds(condition, old, values):
            extra = {} if old is None else {"Item": old}
            raise client_error("ConditionalCheckFailedException", operation, **extra)

    def _set(self, key: Key, item: Item | None) -> None:
        old = self.items.get(key)
        self._watch(key, old, item)
        if item is not None:
            if old is None:
                insort(self._sorts.setdefault(key[0], []), key[1])
            self.items[key] = item
        elif old is not None:
            del self.items[key]
            self._sorts[key[0]].remove(key[1])

    def scan(self, **request: Any) -> Any:
        """For tests that count what is left."""
        del request
        return {"Items": list(self.items.values())}


def _key(item: Mapping[str, Any]) -> Key:
    return item[schema.PARTITION_KEY]["S"], item[schema.SORT_KEY]["S"]


def _task_verb(condition: str, values: Mapping[str, Any]) -> str:
    """Conditions of attempts have one text for several verbs: the change tells which."""
    if condition != conditions.COMMIT_TASK:
        return ""
    status = values.get(":new_status", {}).get("S")
    if status == "PENDING":
        return "HAND_BACK_TASK" if ":new_handbacks" in values else "REQUEUE_TASK"
    return {"COMMITTED": "COMMIT_TASK", "FAILED": "FAIL_TASK"}.get(status, "HEARTBEAT")


def _name(condition: str | None, otherwise: str) -> str:
    if condition is None:
        return otherwise
    if condition.startswith("attribute_exists(#pk) AND NOT contains"):
        return "OFFER_AGAIN"
    return NAMES.get(condition, otherwise)
