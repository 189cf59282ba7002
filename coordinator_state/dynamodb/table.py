"""One DynamoDB table: conditional writes, consistent reads, errors translated in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import tenacity
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as BotoConnectionError

from coordinator_state import schema
from coordinator_state.changes import Changes
from coordinator_state.dynamodb.items import Update, names_in, serialize, update_of, values_in
from coordinator_state.errors import StateError, StoreUnavailable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef

    from coordinator_state.dynamodb.items import Item

T = TypeVar("T")

_UNAVAILABLE = frozenset(
    {
        "InternalServerError",
        "ItemCollectionSizeLimitExceededException",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ServiceUnavailable",
        "ThrottlingException",
        "TransactionInProgressException",
    }
)
_CONFLICTS = frozenset({"TransactionConflictException", "TransactionConflict", "ThrottlingError"})
_WRITE_BATCH = 25
_READ_BATCH = 100
#: Items one transaction may hold, less the condition check that goes with them.
TRANSACTION_ITEMS = 99


class Key(NamedTuple):
    partition: str
    sort: str

    def item(self) -> Item:
        return {
            schema.PARTITION_KEY: serialize(self.partition),
            schema.SORT_KEY: serialize(self.sort),
        }

    @classmethod
    def of(cls, item: Item) -> Key:
        return cls(item[schema.PARTITION_KEY]["S"], item[schema.SORT_KEY]["S"])


class ConditionFailed(Exception):
    """A write was refused; ``item`` is what stands there, or None. It stays inside this package."""

    def __init__(self, item: Item | None) -> None:
        super().__init__("condition failed")
        self.item = item


class _Conflict(StoreUnavailable):
    """Another transaction holds the item; it ends within milliseconds."""


class _Unprocessed(StoreUnavailable):
    """Part of a batch was not taken."""


_again = tenacity.retry(
    retry=tenacity.retry_if_exception_type((_Conflict, _Unprocessed)),
    stop=tenacity.stop_after_attempt(20),
    wait=tenacity.wait_random_exponential(multiplier=0.02, max=1.0),
    reraise=True,
)


def client_config() -> Config:
    """How a client of the store should be made: short timeouts, throttles and faults retried."""
    return Config(
        retries={"mode": "standard", "total_max_attempts": 6},
        connect_timeout=3,
        read_timeout=5,
        max_pool_connections=32,
    )


def translated(error: ClientError | BotoCoreError, table: str) -> Exception:
    """The SDK's errors in the words of the state store."""
    if not isinstance(error, ClientError):
        if isinstance(error, HTTPClientError | BotoConnectionError):
            return StoreUnavailable(f"table {table} did not answer: {error}")
        return StateError(f"table {table} cannot be asked: {error}")
    response: Mapping[str, Any] = error.response
    code = response.get("Error", {}).get("Code", "")
    if code == "ConditionalCheckFailedException":
        return ConditionFailed(response.get("Item"))
    if code == "TransactionCanceledException":
        return _canceled(response, error)
    if code in _CONFLICTS:
        return _Conflict(str(error))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _UNAVAILABLE or status >= 500:
        return StoreUnavailable(f"table {table} is not available: {error}")
    if code == "ResourceNotFoundException":
        return StateError(f"there is no table {table}; deploy it, or check its name and region")
    return StateError(f"table {table} refused the request: {error}")


def _canceled(response: Mapping[str, Any], error: ClientError) -> Exception:
    """A refused condition of the first item that has one; else the transaction may be repeated."""
    reasons: Sequence[Mapping[str, Any]] = response.get("CancellationReasons", ())
    for reason in reasons:
        if reason.get("Code") == "ConditionalCheckFailed":
            return ConditionFailed(reason.get("Item") or None)
    if any(reason.get("Code") in _CONFLICTS for reason in reasons):
        return _Conflict(str(error))
    return StateError(f"the transaction was cancelled: {error}")


class Table:
    """The verbs' building blocks. ``ConditionFailed`` carries the item that refused."""

    def __init__(self, client: DynamoDBClient, name: str) -> None:
        self.client = client
        self.name = name

    # -- writes ----------------------------------------------------------------------------------
    def update(
        self, key: Key, condition: str, changes: Changes, values: Mapping[str, object] | None = None
    ) -> Item:
        """Make ``changes`` if ``condition`` holds; the item as it is then."""
        return self.express(key, condition, update_of(changes), values, returns="ALL_NEW")

    def express(
        self,
        key: Key,
        condition: str,
        update: Update,
        values: Mapping[str, object] | None = None,
        *,
        returns: str,
    ) -> Item:
        bound = {**update.values, **(values or {})}
        response = self._call(
            self.client.update_item,
            TableName=self.name,
            Key=key.item(),
            UpdateExpression=update.expression,
            ConditionExpression=condition,
            ExpressionAttributeNames=names_in(condition, update.expression),
            ExpressionAttributeValues=values_in((condition, update.expression), bound),
            ReturnValues=returns,
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
        item: Item = response.get("Attributes", {})
        return item

    def put(
        self, key: Key, condition: str, item: Item, values: Mapping[str, object] | None = None
    ) -> None:
        bound = values_in((condition,), values or {})
        self._call(
            self.client.put_item,
            TableName=self.name,
            Item={**key.item(), **item},
            ConditionExpression=condition,
            ExpressionAttributeNames=names_in(condition),
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            **({"ExpressionAttributeValues": bound} if bound else {}),
        )

    def delete(
        self,
        key: Key,
        condition: str | None = None,
        values: Mapping[str, object] | None = None,
    ) -> None:
        """Without a condition an absent item is no error."""
        request: dict[str, Any] = {}
        if condition is not None:
            request = {
                "ConditionExpression": condition,
                "ExpressionAttributeNames": names_in(condition),
                "ExpressionAttributeValues": values_in((condition,), values or {}),
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        self._call(self.client.delete_item, TableName=self.name, Key=key.item(), **request)

    def transact(self, writes: Sequence[TransactWriteItemTypeDef]) -> None:
        """All or nothing. ``ConditionFailed`` has the item of the first refused condition."""
        self._call(self.client.transact_write_items, TransactItems=writes)

    def write_batch(self, puts: Iterable[Item] = (), deletes: Iterable[Key] = ()) -> None:
        """Unconditional writes of many items; only before a query is visible or after it closed."""
        requests: list[dict[str, Any]] = [{"PutRequest": {"Item": item}} for item in puts]
        requests += [{"DeleteRequest": {"Key": key.item()}} for key in deletes]
        for batch in _chunks(requests, _WRITE_BATCH):
            self._write_all(batch)

    def _write_all(self, pending: list[dict[str, Any]]) -> None:
        remaining = pending

        @_again
        def write() -> None:
            nonlocal remaining
            response = self._call(self.client.batch_write_item, RequestItems={self.name: remaining})
            remaining = response.get("UnprocessedItems", {}).get(self.name, [])
            if remaining:
                raise _Unprocessed(f"table {self.name} took only part of a batch")

        write()

    # -- reads -----------------------------------------------------------------------------------
    def get(self, key: Key) -> Item | None:
        """Consistent read."""
        response = self._call(
            self.client.get_item, TableName=self.name, Key=key.item(), ConsistentRead=True
        )
        item: Item | None = response.get("Item")
        return item

    def get_many(self, keys: Sequence[Key]) -> Mapping[Key, Item]:
        """Consistent reads of single items; absent ones are left out."""
        found: dict[Key, Item] = {}
        for batch in _chunks(keys, _READ_BATCH):
            for item in self._read_all([key.item() for key in batch]):
                found[Key.of(item)] = item
        return found

    def _read_all(self, pending: list[Item]) -> Sequence[Item]:
        remaining = pending
        found: list[Item] = []

        @_again
        def read() -> None:
            nonlocal remaining
            request = {self.name: {"Keys": remaining, "ConsistentRead": True}}
            response = self._call(self.client.batch_get_item, RequestItems=request)
            found.extend(response.get("Responses", {}).get(self.name, []))
            remaining = response.get("UnprocessedKeys", {}).get(self.name, {}).get("Keys", [])
            if remaining:
                raise _Unprocessed(f"table {self.name} answered only part of a batch")

        read()
        return found

    def partition(self, partition: str, *, prefix: str = "", keys_only: bool = False) -> list[Item]:
        """Every item of a partition whose sort key starts with ``prefix``; consistent, in order."""
        condition = "#pk = :pk AND begins_with(#sk, :prefix)" if prefix else "#pk = :pk"
        request: dict[str, Any] = {
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": values_in(
                (condition,), {"pk": partition, "prefix": prefix}
            ),
            "ConsistentRead": True,
        }
        names = names_in(condition)
        if keys_only:
            request["ProjectionExpression"] = "#pk, #sk"
            names = names_in("#pk #sk")
        return list(self._pages(ExpressionAttributeNames=names, **request))

    def listing(
        self, listing: str, *, before: str | None = None, newest_first: bool = False
    ) -> Iterator[Item]:
        """Query items of one listing, from the index: keys and status, eventually consistent."""
        condition = "#listing = :listing"
        if before is not None:
            condition += " AND #query_id < :before"
        return self._pages(
            IndexName=schema.QUERY_INDEX,
            KeyConditionExpression=condition,
            ExpressionAttributeNames=names_in(condition),
            ExpressionAttributeValues=values_in(
                (condition,), {"listing": listing, "before": before}
            ),
            ScanIndexForward=not newest_first,
        )

    def _pages(self, **request: Any) -> Iterator[Item]:
        while True:
            response = self._call(self.client.query, TableName=self.name, **request)
            yield from response.get("Items", [])
            if "LastEvaluatedKey" not in response:
                return
            request["ExclusiveStartKey"] = response["LastEvaluatedKey"]

    @_again
    def _call(self, operation: Callable[..., Any], **request: Any) -> Any:
        try:
            return operation(**request)
        except (ClientError, BotoCoreError) as error:
            raise translated(error, self.name) from error


def _chunks(things: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(things)
    while chunk := list(islice(rest, size)):
        yield chunk


def create_table(client: DynamoDBClient, name: str) -> None:
    """Make the table as ``schema`` names it, for tests; a stack makes the real one."""
    keys = (schema.PARTITION_KEY, schema.SORT_KEY)
    index_keys = (schema.LISTING_ATTRIBUTE, schema.LISTING_SORT_ATTRIBUTE)
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[
            {"AttributeName": keys[0], "KeyType": "HASH"},
            {"AttributeName": keys[1], "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": attribute, "AttributeType": "S"} for attribute in keys + index_keys
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": schema.QUERY_INDEX,
                "KeySchema": [
                    {"AttributeName": index_keys[0], "KeyType": "HASH"},
                    {"AttributeName": index_keys[1], "KeyType": "RANGE"},
                ],
                "Projection": {
                    "ProjectionType": "INCLUDE",
                    "NonKeyAttributes": list(schema.QUERY_INDEX_PROJECTION),
                },
            }
        ],
    )
    client.get_waiter("table_exists").wait(TableName=name)
    client.update_time_to_live(
        TableName=name,
        TimeToLiveSpecification={"Enabled": True, "AttributeName": schema.TTL_ATTRIBUTE},
    )
