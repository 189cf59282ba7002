"""Queues on SQS."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from crossdock.errors import PlatformError, PlatformUnavailable, QueueNotFound
from crossdock.platform import bodies as rules
from crossdock.platform.aws.errors import kind_of, translated
from crossdock.platform.aws.parallel import in_parallel
from crossdock.platform.ports import Message

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType
    from mypy_boto3_sqs.type_defs import BatchResultErrorEntryTypeDef

#: What a queue keeps a message nobody receives for, in seconds: longer than any query runs.
_RETENTION_SECONDS = 24 * 3600
_NAME_CHARS = 80
#: Codes of a delete whose receipt is no longer (or never was) good.
_STALE = frozenset({"ReceiptHandleIsInvalid", "InvalidParameterValue", "MessageNotInflight"})


class SqsQueues:
    """SQS standard queues (``ports.Queues``); threads may share it.

    The client retries throttled requests by its own configuration; here only the entries of a
    batch that failed one by one are sent again.
    """

    def __init__(
        self,
        client: SQSClient,
        *,
        prefix: str = "",
        visibility: int = 30,
        tags: Mapping[str, str] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``prefix`` goes before every queue's name.

        ``visibility`` (seconds) and ``tags`` are given to new queues.
        """
        self._client = client
        self._prefix = prefix
        self._attributes: dict[QueueAttributeNameType, str] = {
            "VisibilityTimeout": str(visibility),
            "MessageRetentionPeriod": str(_RETENTION_SECONDS),
        }
        self._tags = dict(tags or {})
        self._retrying = Retrying(
            retry=retry_if_exception_type(PlatformUnavailable),
            wait=wait_random_exponential(multiplier=0.05, max=2),
            stop=stop_after_attempt(8),
            sleep=sleep,
            reraise=True,
        )
        self._urls: dict[str, str] = {}
        self._lock = threading.Lock()

    def create(self, *names: str) -> None:
        """Raises ``PlatformUnavailable`` for 60 s after a queue of that name was dropped."""
        in_parallel(self._create, names)

    def _create(self, name: str) -> None:
        full = self._prefix + name
        if len(full) > _NAME_CHARS:
            raise PlatformError(f"queue name {full!r} is longer than {_NAME_CHARS} characters")
        with translated(f"queue {name}"):
            answer = self._client.create_queue(
                QueueName=full, Attributes=self._attributes, tags=self._tags
            )
        self._remember(name, answer["QueueUrl"])

    def send(self, name: str, bodies: Sequence[bytes]) -> None:
        texts = {id(body): rules.text_of(body) for body in bodies}
        for batch in rules.batches(bodies):
            entries = {str(at): texts[id(body)] for at, body in enumerate(batch)}
            self._all_of(entries, lambda left: self._send_once(name, left))

    def receive(self, name: str, *, limit: int = 10, wait: float = 0.0) -> Sequence[Message]:
        """One request: at most 10 messages, and at most 20 s of waiting."""
        with translated(f"queue {name}"):
            answer = self._client.receive_message(
                QueueUrl=self._url(name),
                MaxNumberOfMessages=min(limit, rules.MAX_ENTRIES),
                # Whole seconds; a wait rounded down to 0 would ask only some of SQS's servers.
                WaitTimeSeconds=min(rules.MAX_WAIT, math.ceil(wait)),
                MessageSystemAttributeNames=["ApproximateReceiveCount"],
            )
        return [
            Message(
                body=message["Body"].encode(),
                receipt=message["ReceiptHandle"],
                receives=int(message["Attributes"]["ApproximateReceiveCount"]),
            )
            for message in answer.get("Messages", [])
        ]

    def delete(self, name: str, receipts: Sequence[str]) -> None:
        for start in range(0, len(receipts), rules.MAX_ENTRIES):
            batch = receipts[start : start + rules.MAX_ENTRIES]
            entries = {str(at): receipt for at, receipt in enumerate(batch)}
            self._all_of(entries, lambda left: self._delete_once(name, left))

    def drop(self, *names: str) -> None:
        in_parallel(self._drop, names)

    def _drop(self, name: str) -> None:
        try:
            with translated(f"queue {name}"):
                self._client.delete_queue(QueueUrl=self._url(name))
        except QueueNotFound:
            return
        finally:
            self._forget(name)

    def names(self, prefix: str) -> Sequence[str]:
        found: list[str] = []
        with translated(f"queues {prefix}*"):
            pages = self._client.get_paginator("list_queues").paginate(
                QueueNamePrefix=self._prefix + prefix, PaginationConfig={"PageSize": 1000}
            )
            for page in pages:
                found += [url.rpartition("/")[2] for url in page.get("QueueUrls", [])]
        return sorted(name.removeprefix(self._prefix) for name in found)

    def _all_of(
        self, entries: Mapping[str, str], ask: Callable[[Mapping[str, str]], Sequence[str]]
    ) -> None:
        """Ask until no entry is left; ``ask`` tells which ones are to be asked again."""
        left = entries
        for attempt in self._retrying:
            with attempt:
                again = ask(left)
                left = {entry: left[entry] for entry in again}
                if left:
                    raise PlatformUnavailable(f"{len(left)} entries of a batch were not taken")

    def _send_once(self, name: str, entries: Mapping[str, str]) -> Sequence[str]:
        with translated(f"queue {name}"):
            answer = self._client.send_message_batch(
                QueueUrl=self._url(name),
                Entries=[{"Id": entry, "MessageBody": text} for entry, text in entries.items()],
            )
        return [failed["Id"] for failed in answer.get("Failed", []) if _mendable(failed, name)]

    def _delete_once(self, name: str, entries: Mapping[str, str]) -> Sequence[str]:
        with translated(f"queue {name}"):
            answer = self._client.delete_message_batch(
                QueueUrl=self._url(name),
                Entries=[{"Id": entry, "ReceiptHandle": text} for entry, text in entries.items()],
            )
        return [
            failed["Id"]
            for failed in answer.get("Failed", [])
            if failed["Code"] not in _STALE and _mendable(failed, name)
        ]

    def _url(self, name: str) -> str:
        """A queue's address: all queues of an account and region differ only in their name."""
        with self._lock:
            if known := self._urls.get(name):
                return known
            other = next(iter(self._urls.values()), None)
        if other is None:
            other = self._client.get_queue_url(QueueName=self._prefix + name)["QueueUrl"]
        url = f"{other.rpartition('/')[0]}/{self._prefix}{name}"
        self._remember(name, url)
        return url

    def _remember(self, name: str, url: str) -> None:
        with self._lock:
            self._urls[name] = url

    def _forget(self, name: str) -> None:
        with self._lock:
            self._urls.pop(name, None)


def _mendable(failed: BatchResultErrorEntryTypeDef, name: str) -> bool:
    """True if the entry may be asked again; raises the platform's error for one that is refused."""
    if not failed["SenderFault"] or kind_of(failed["Code"]) is PlatformUnavailable:
        return True
    message = failed.get("Message", "")
    raise kind_of(failed["Code"])(
        f"queue {name}: an entry was refused: {failed['Code']}: {message}"
    )
