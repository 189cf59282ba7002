"""What every implementation of ``ports.Queues`` keeps to."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from coordinator_state.sqlite import SqliteStateStore
from crossdock.errors import PlatformDenied, PlatformError, PlatformUnavailable, QueueNotFound
from crossdock.platform.aws.clients import client_config
from crossdock.platform.aws.pool import PoolQueues
from crossdock.platform.aws.queues import SqsQueues
from crossdock.platform.bodies import CHUNK_BYTES, MAX_BYTES
from crossdock.platform.clock import SystemClock
from crossdock.platform.local.queues import SqliteQueues
from crossdock.platform.memory import MemoryQueues
from crossdock.platform.meter import CountingMeter, MeteredQueues
from crossdock.platform.ports import Queues


@dataclass(frozen=True)
class Medium:
    queues: Queues
    visibility: float  # seconds
    many: int  # messages of a big test; the emulator looks at each of them at every receive


@pytest.fixture
def sqs_client(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        yield boto3.client("sqs", region_name="us-east-1")


def make_client(service: str, url: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=client_config(),
    )


def pooled_queues(store: SqliteStateStore, size: int) -> PoolQueues:
    stack, made = MemoryQueues(visibility_seconds=0.2), MemoryQueues(visibility_seconds=0.2)
    pool = [f"{number:04d}" for number in range(size)]
    stack.create(*pool)
    return PoolQueues(stack, made, pool, store=store, clock=SystemClock())


@pytest.fixture(
    params=[
        "sqlite",
        "memory",
        "sqs",
        pytest.param("emulated sqs", marks=pytest.mark.emulator),
        "pooled",
        "made beside the pool",
    ]
)
def medium(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Medium]:
    if request.param == "sqlite":
        queues = SqliteQueues(tmp_path / "queues.db", visibility=0.2)
        yield Medium(queues, 0.2, 1000)
        queues.close()
    elif request.param == "memory":
        yield Medium(MemoryQueues(visibility_seconds=0.2), 0.2, 1000)
    elif request.param in ("pooled", "made beside the pool"):
        store = SqliteStateStore(tmp_path / "state.db")
        yield Medium(pooled_queues(store, 3 if request.param == "pooled" else 0), 0.2, 1000)
        store.close()
    elif request.param == "emulated sqs":
        url = request.getfixturevalue("emulator")
        client = make_client("sqs", url)
        queues = SqsQueues(client, prefix=f"{uuid.uuid4().hex[:8]}-", visibility=1)
        yield Medium(queues, 1.0, 1000)
        queues.drop(*queues.names(""))
    else:
        client = request.getfixturevalue("sqs_client")
        yield Medium(SqsQueues(client, prefix="t-", visibility=1), 1.0, 100)


@pytest.fixture
def queues(medium: Medium) -> Queues:
    medium.queues.create("q")
    return medium.queues


def drain(queues: Queues, name: str) -> Counter[bytes]:
    bodies: Counter[bytes] = Counter()
    while messages := queues.receive(name):
        bodies.update(message.body for message in messages)
        queues.delete(name, [message.receipt for message in messages])
    return bodies


def test_a_send_of_more_than_ten_messages_arrives_whole(queues: Queues) -> None:
    sent = [f"message {number}".encode() for number in range(25)]
    queues.send("q", sent)
    assert drain(queues, "q") == Counter(sent)


def test_equal_bodies_are_separate_messages(queues: Queues) -> None:
    queues.send("q", [b"same"] * 12)
    assert drain(queues, "q") == {b"same": 12}


def test_many_messages_each_arrive_and_none_comes_back_once_deleted(medium: Medium) -> None:
    medium.queues.create("q")
    sent = [f"message {number}".encode() for number in range(medium.many)]
    for start in range(0, medium.many, 100):
        medium.queues.send("q", sent[start : start + 100])
    assert set(drain(medium.queues, "q")) == set(sent)
    time.sleep(medium.visibility + 0.05)
    assert not medium.queues.receive("q")


def test_a_batch_over_one_mebibyte_is_cut(queues: Queues) -> None:
    sent = [character.encode() * 400_000 for character in "abcdefg"]
    queues.send("q", sent)
    assert drain(queues, "q") == Counter(sent)


def test_the_longest_message_arrives_and_one_byte_more_is_refused(queues: Queues) -> None:
    queues.send("q", [b"x" * MAX_BYTES])
    with pytest.raises(PlatformError, match="over the limit"):
        queues.send("q", [b"fine", b"x" * (MAX_BYTES + 1)])
    assert drain(queues, "q") == {b"x" * MAX_BYTES: 1}


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"a\x00b", "\ufffe".encode()])
def test_a_body_that_is_no_message_text_is_refused_before_anything_is_sent(
    queues: Queues, body: bytes
) -> None:
    with pytest.raises(PlatformError, match="must"):
        queues.send("q", [b"good", body])
    assert not queues.receive("q")


def test_text_of_every_plane_arrives_unchanged(queues: Queues) -> None:
    sent = ["Zürich 東京 \U0001f69a \t\n <&>\"'", "e\u0301 \u200f \ud7ff \ufffd"]
    queues.send("q", [text.encode() for text in sent])
    assert drain(queues, "q") == Counter(text.encode() for text in sent)


def test_a_waiting_receive_wakes_when_a_message_is_sent(queues: Queues) -> None:
    sender = threading.Timer(0.2, queues.send, ("q", [b"wake"]))
    sender.start()
    started = time.monotonic()
    messages = queues.receive("q", wait=10)
    waited = time.monotonic() - started
    sender.join()
    assert [message.body for message in messages] == [b"wake"]
    assert 0.15 < waited < 5


def test_a_receive_of_an_empty_queue_ends_with_its_wait(queues: Queues) -> None:
    started = time.monotonic()
    assert not queues.receive("q", wait=0.3)
    assert 0.25 < time.monotonic() - started < 5


def test_a_receive_asks_for_no_more_than_its_limit(queues: Queues) -> None:
    queues.send("q", [b"one", b"two", b"three"])
    assert len(queues.receive("q", limit=2)) == 2


def test_a_received_message_is_hidden_and_comes_back_after_its_visibility(medium: Medium) -> None:
    medium.queues.create("q")
    medium.queues.send("q", [b"again"])
    (first,) = medium.queues.receive("q")
    assert not medium.queues.receive("q")
    (second,) = medium.queues.receive("q", wait=medium.visibility + 2)
    assert (second.body, first.receives, second.receives) == (b"again", 1, 2)


def test_deleting_with_a_stale_receipt_is_no_error(medium: Medium) -> None:
    medium.queues.create("q")
    medium.queues.send("q", [b"again"])
    (first,) = medium.queues.receive("q")
    (second,) = medium.queues.receive("q", wait=medium.visibility + 2)
    assert first.receipt != second.receipt
    medium.queues.delete("q", [second.receipt])
    medium.queues.delete("q", [first.receipt, second.receipt])
    time.sleep(medium.visibility)
    assert not medium.queues.receive("q")


def test_making_a_queue_again_keeps_its_messages(queues: Queues) -> None:
    queues.send("q", [b"kept"])
    queues.create("q")
    assert drain(queues, "q") == {b"kept": 1}


def test_a_dropped_queue_is_gone_with_its_messages(queues: Queues) -> None:
    queues.send("q", [b"lost"])
    queues.drop("q")
    assert queues.names("") == []
    with pytest.raises(QueueNotFound):
        queues.receive("q")
    queues.drop("q")


def test_every_verb_on_a_missing_queue_says_so(queues: Queues) -> None:
    with pytest.raises(QueueNotFound):
        queues.send("missing", [b"x"])
    with pytest.raises(QueueNotFound):
        queues.receive("missing")
    with pytest.raises(QueueNotFound):
        queues.delete("missing", ["1.1"])


def test_names_are_told_by_prefix(medium: Medium) -> None:
    for name in ("a-1", "a-2", "A-3", "b-1", "xa-1"):
        medium.queues.create(name)
    assert medium.queues.names("a-") == ["a-1", "a-2"]
    assert set(medium.queues.names("")) == {"a-1", "a-2", "A-3", "b-1", "xa-1"}


def test_messages_stay_in_the_queue_they_were_sent_to(queues: Queues) -> None:
    queues.create("other")
    queues.send("q", [b"mine"])
    queues.send("other", [b"theirs"])
    assert drain(queues, "q") == {b"mine": 1}
    assert drain(queues, "other") == {b"theirs": 1}


# -- SQLite alone: what processes sharing the file may rely on ------------------------------------

RECEIVER = """
import sys, time
from pathlib import Path
from crossdock.platform.local.queues import SqliteQueues
queues = SqliteQueues(Path(sys.argv[1]), visibility=30)
print("ready", flush=True)
received = 0
while True:
    messages = queues.receive("q", limit=3 if received else 1, wait=20)
    now = time.time()
    for message in messages:
        print(message.body.decode(), now, flush=True)
    queues.delete("q", [message.receipt for message in messages])
    if not received:
        sys.stdin.readline()
    received += len(messages)
    stops = [message.body for message in messages if message.body == b"stop"]
    if stops:
        queues.send("q", stops[1:])
        break
"""


def receiver(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", RECEIVER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_two_processes_share_a_queue_and_no_message_is_handled_twice(tmp_path: Path) -> None:
    queues = SqliteQueues(tmp_path / "queues.db")
    queues.create("q")
    processes = [receiver(tmp_path / "queues.db") for _ in range(2)]
    sent = [f"message-{number}" for number in range(501)]
    # Each process holds its first message until both have one, so that both take part.
    queues.send("q", [sent[0].encode()])
    queues.send("q", [sent[1].encode()])
    firsts = []
    for process in processes:
        assert process.stdout is not None
        firsts.append(process.stdout.readline())
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for start in range(2, 501, 5):
        queues.send("q", [text.encode() for text in sent[start : start + 5]])
    queues.send("q", [b"stop"] * 2)
    outputs = [
        (first + process.communicate(timeout=30)[0]).splitlines()
        for first, process in zip(firsts, processes, strict=True)
    ]
    handled = [[line.split()[0] for line in lines if "stop" not in line] for lines in outputs]
    assert sorted(handled[0] + handled[1]) == sorted(sent)
    assert all(handled)
    queues.close()


def test_each_send_wakes_a_receiver_in_another_process_long_before_its_wait_ends(
    tmp_path: Path,
) -> None:
    queues = SqliteQueues(tmp_path / "queues.db")
    queues.create("q")
    process = receiver(tmp_path / "queues.db")
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    sent_at = {}
    for number in range(9):
        time.sleep(0.03)
        sent_at[str(number)] = time.time()
        queues.send("q", [str(number).encode()])
    time.sleep(0.03)
    queues.send("q", [b"stop"])
    lines = [line.split() for line in process.communicate(timeout=30)[0].splitlines()]
    delays = sorted(float(at) - sent_at[body] for body, at in lines if body != "stop")
    assert len(delays) == 9
    assert delays[-1] < 5.0  # the receiver waits 20 s for each
    queues.close()


def test_a_wait_costs_hardly_any_processor_time(tmp_path: Path) -> None:
    queues = SqliteQueues(tmp_path / "queues.db")
    queues.create("q")
    before = time.thread_time()
    assert not queues.receive("q", wait=1.0)
    assert time.thread_time() - before < 0.1
    queues.close()


def test_a_stale_receipt_of_a_redelivered_message_deletes_nothing(tmp_path: Path) -> None:
    queues = SqliteQueues(tmp_path / "queues.db", visibility=0.1)
    queues.create("q")
    queues.send("q", [b"again"])
    (first,) = queues.receive("q")
    assert queues.receive("q", wait=2)
    queues.delete("q", [first.receipt])
    assert queues.receive("q", wait=2)
    queues.close()


def test_dropping_a_queue_wakes_its_waiting_receiver(tmp_path: Path) -> None:
    queues = SqliteQueues(tmp_path / "queues.db")
    queues.create("q")
    dropper = threading.Timer(0.1, queues.drop, ("q",))
    dropper.start()
    with pytest.raises(QueueNotFound):
        queues.receive("q", wait=10)
    dropper.join()
    queues.close()


def test_a_queue_made_again_has_nothing_of_the_one_before(tmp_path: Path) -> None:
    queues = SqliteQueues(tmp_path / "queues.db")
    queues.create("q")
    queues.send("q", [b"old"])
    (old,) = queues.receive("q")
    queues.drop("q")
    queues.create("q")
    queues.send("q", [b"new"])
    (new,) = queues.receive("q")
    queues.delete("q", [old.receipt])
    assert (new.body, new.receives) == (b"new", 1)
    assert new.receipt != old.receipt
    queues.close()


def test_closed_queues_and_unwritable_files_are_told_apart(tmp_path: Path) -> None:
    queues = SqliteQueues(tmp_path / "queues.db")
    queues.close()
    with pytest.raises(PlatformUnavailable):
        queues.names("")
    (tmp_path / "folder.db").mkdir()
    with pytest.raises(PlatformDenied, match="permissions"):
        SqliteQueues(tmp_path / "folder.db")


# -- SQS alone: answers the emulator never gives -------------------------------------------------

URL = "https://sqs.us-east-1.amazonaws.com/000000000000/t-q"


@pytest.fixture
def stubbed() -> Iterator[tuple[SqsQueues, Stubber, list[float]]]:
    client = boto3.client(
        "sqs", region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    pauses: list[float] = []
    with Stubber(client) as stubber:
        stubber.add_response("create_queue", {"QueueUrl": URL})
        queues = SqsQueues(client, prefix="t-", sleep=pauses.append)
        queues.create("q")
        yield queues, stubber, pauses


def sent(*entries: tuple[str, str]) -> dict[str, object]:
    return {"QueueUrl": URL, "Entries": [{"Id": id_, "MessageBody": body} for id_, body in entries]}


def accepted(*ids: str) -> list[dict[str, str]]:
    return [{"Id": id_, "MessageId": id_, "MD5OfMessageBody": ""} for id_ in ids]


def test_entries_that_failed_are_sent_again_and_only_those(
    stubbed: tuple[SqsQueues, Stubber, list[float]],
) -> None:
    queues, stubber, pauses = stubbed
    failed = [{"Id": "1", "SenderFault": False, "Code": "InternalError"}]
    stubber.add_response(
        "send_message_batch",
        {"Successful": accepted("0", "2"), "Failed": failed},
        sent(("0", "a"), ("1", "b"), ("2", "c")),
    )
    stubber.add_response(
        "send_message_batch", {"Successful": accepted("1"), "Failed": []}, sent(("1", "b"))
    )
    queues.send("q", [b"a", b"b", b"c"])
    stubber.assert_no_pending_responses()
    assert len(pauses) == 1


def test_an_entry_that_keeps_failing_ends_as_unavailable(
    stubbed: tuple[SqsQueues, Stubber, list[float]],
) -> None:
    queues, stubber, pauses = stubbed
    failed = [{"Id": "0", "SenderFault": True, "Code": "RequestThrottled"}]
    for _ in range(8):
        stubber.add_response("send_message_batch", {"Successful": [], "Failed": failed})
    with pytest.raises(PlatformUnavailable):
        queues.send("q", [b"a"])
    assert len(pauses) == 7


def test_an_entry_refused_for_good_is_not_sent_again(
    stubbed: tuple[SqsQueues, Stubber, list[float]],
) -> None:
    queues, stubber, pauses = stubbed
    failed = [{"Id": "0", "SenderFault": True, "Code": "InvalidMessageContents"}]
    stubber.add_response("send_message_batch", {"Successful": [], "Failed": failed})
    with pytest.raises(PlatformError, match="InvalidMessageContents"):
        queues.send("q", [b"a"])
    assert not pauses


def test_a_delete_whose_receipt_is_refused_is_not_ours(
    stubbed: tuple[SqsQueues, Stubber, list[float]],
) -> None:
    queues, stubber, pauses = stubbed
    failed = [{"Id": "1", "SenderFault": True, "Code": "ReceiptHandleIsInvalid"}]
    stubber.add_response("delete_message_batch", {"Successful": [{"Id": "0"}], "Failed": failed})
    queues.delete("q", ["good", "stale"])
    stubber.assert_no_pending_responses()
    assert not pauses


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        ("AWS.SimpleQueueService.QueueDeletedRecently", 400, PlatformUnavailable),
        ("RequestThrottled", 403, PlatformUnavailable),
        ("SomethingNew", 503, PlatformUnavailable),
        ("AccessDenied", 403, PlatformDenied),
        ("AWS.SimpleQueueService.NonExistentQueue", 400, QueueNotFound),
        ("QueueDoesNotExist", 400, QueueNotFound),
    ],
)
def test_a_services_refusal_becomes_the_platforms(
    stubbed: tuple[SqsQueues, Stubber, list[float]],
    code: str,
    status: int,
    expected: type[PlatformError],
) -> None:
    queues, stubber, _ = stubbed
    stubber.add_client_error("create_queue", code, "in its words", status)
    with pytest.raises(expected, match="in its words"):
        queues.create("q")


def test_a_name_over_sqs_s_limit_is_refused_with_its_length(sqs_client: object) -> None:
    with pytest.raises(PlatformError, match="80 characters"):
        SqsQueues(sqs_client, prefix="t-").create("q" * 79)  # type: ignore[arg-type]


# -- counting ------------------------------------------------------------------------------------


def test_requests_are_counted_as_sqs_charges_them(queues: Queues) -> None:
    meter = CountingMeter()
    metered = MeteredQueues(queues, meter)
    metered.create("counted")
    metered.send("counted", [b"x"] * 25)
    metered.send("counted", [b"y" * (CHUNK_BYTES + 1)])
    received = 0
    while messages := metered.receive("counted"):
        metered.delete("counted", [message.receipt for message in messages])
        received += 1
    metered.drop("counted")
    usage = dict(meter.usage())
    chunks = usage.pop("queue_chunk")
    assert usage == {
        "queue_create": 1,
        "queue_send": 4,
        "queue_message": 26,
        "queue_receive": received + 1,
        "queue_delete": received,
        "queue_drop": 1,
    }
    # 3 small sends, 2 chunks of the long one, and each receive with one more for the long one.
    assert chunks == 3 + 2 + received + 1 + 1
