"""Knocks and alarms as messages."""

from __future__ import annotations

import msgspec
import pytest
from botocore.exceptions import ClientError

from crossdock.errors import PlatformError, PlatformUnavailable
from crossdock.platform.aws.control import Knock, SqsControl
from crossdock.platform.meter import CountingMeter, Kind, MeteredControl


class Client:
    def __init__(self) -> None:
        self.sent: list[tuple[Knock, int]] = []
        self.error = ""

    def send_message(self, *, QueueUrl: str, MessageBody: str, DelaySeconds: int) -> None:
        assert QueueUrl == "url"
        if self.error:
            raise ClientError({"Error": {"Code": self.error}}, "SendMessage")
        self.sent.append((msgspec.json.decode(MessageBody, type=Knock), DelaySeconds))


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def control(client: Client) -> SqsControl:
    return SqsControl(client, "url")  # type: ignore[arg-type]


def test_a_knock_is_sent_at_once(client: Client, control: SqsControl) -> None:
    control.notify("q")
    assert client.sent == [(Knock(query="q"), 0)]


@pytest.mark.parametrize(
    ("delay", "seconds"), [(0.0, 0), (0.05, 1), (1.0, 1), (4.2, 5), (899.5, 900), (1e6, 900)]
)
def test_a_delay_is_rounded_up_and_bounded(
    client: Client, control: SqsControl, delay: float, seconds: int
) -> None:
    control.tick("q", 7, delay=delay)
    assert client.sent == [(Knock(query="q", tick=7), seconds)]


def test_a_knock_that_cannot_be_sent_is_let_go_and_an_alarm_is_not(
    client: Client, control: SqsControl
) -> None:
    client.error = "RequestThrottled"
    control.notify("q")
    with pytest.raises(PlatformUnavailable):
        control.tick("q", 1, delay=0)


def test_a_queue_that_is_not_there_is_an_error(client: Client, control: SqsControl) -> None:
    client.error = "QueueDoesNotExist"
    with pytest.raises(PlatformError, match="the control queue"):
        control.notify("q")


def test_messages_are_counted(control: SqsControl) -> None:
    meter = CountingMeter()
    metered = MeteredControl(control, meter)
    metered.notify("q")
    metered.tick("q", 1, delay=1)
    assert meter.usage() == {Kind.QUEUE_SEND: 2, Kind.QUEUE_MESSAGE: 2, Kind.QUEUE_CHUNK: 2}
