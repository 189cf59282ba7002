"""What a batch of control messages leads to, and what Lambda is told of it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from coordinator_state.ids import QueryId, WorkerId
from crossdock.aws.control import ControlDesk
from crossdock.coordinator import TurnResult
from crossdock.platform.aws.control import Knock

NOW = 1_000.0


class Coordinator:
    """Notes what it is asked; ``broken`` queries raise, ``live`` ticks are taken."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int | None]] = []
        self.passed_on: list[tuple[str, list[int]]] = []
        self.ended: list[tuple[str, set[str]]] = []
        self.broken: set[str] = set()
        self.live: set[int] = set()

    def on_knock(self, query_id: QueryId, *, until: float) -> TurnResult:
        return self._note(query_id, None)

    def on_tick(self, query_id: QueryId, number: int, *, until: float) -> TurnResult | None:
        result = self._note(query_id, number)
        return result if number in self.live else None

    def is_late(self, until: float) -> bool:
        return until < NOW

    def pass_on(self, query_id: QueryId, alarms: list[int]) -> None:
        self.passed_on.append((query_id, alarms))

    def on_ended(self, query_id: QueryId, worker_ids: set[WorkerId]) -> None:
        assert not self.asked  # the turn must already see it
        self.ended.append((query_id, set(worker_ids)))

    def _note(self, query_id: str, number: int | None) -> TurnResult:
        self.asked.append((query_id, number))
        if query_id in self.broken:
            raise RuntimeError("the table is not there")
        return TurnResult(query=None)


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def desk(coordinator: Coordinator) -> ControlDesk:
    return ControlDesk(coordinator)  # type: ignore[arg-type]


def record(number: int, message: Knock | str) -> dict[str, Any]:
    body = message if isinstance(message, str) else msgspec.json.encode(message).decode()
    return {"messageId": f"m{number}", "body": body, "eventSource": "aws:sqs"}


def failures(*numbers: int) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": f"m{number}"} for number in numbers]}


def test_a_batch_that_was_served_has_no_failures(desk: ControlDesk) -> None:
    assert desk.handle([record(1, Knock(query="q"))]) == failures()
    assert desk.handle([]) == failures()


def test_knocks_of_one_query_are_one_turn(desk: ControlDesk, coordinator: Coordinator) -> None:
    desk.handle([record(n, Knock(query="q")) for n in range(9)])
    assert coordinator.asked == [("q", None)]


def test_a_live_alarm_does_what_a_knock_asks_for(
    desk: ControlDesk, coordinator: Coordinator
) -> None:
    coordinator.live = {4}
    desk.handle([record(1, Knock(query="q")), record(2, Knock(query="q", tick=4))])
    assert coordinator.asked == [("q", 4)]


def test_a_stale_alarm_does_not_swallow_a_knock(
    desk: ControlDesk, coordinator: Coordinator
) -> None:
    desk.handle([record(1, Knock(query="q")), record(2, Knock(query="q", tick=3))])
    assert coordinator.asked == [("q", 3), ("q", None)]


def test_a_stale_alarm_alone_is_no_turn(desk: ControlDesk, coordinator: Coordinator) -> None:
    desk.handle([record(1, Knock(query="q", tick=3))])
    assert coordinator.asked == [("q", 3)]


def test_only_messages_of_the_query_that_failed_come_again(
    desk: ControlDesk, coordinator: Coordinator
) -> None:
    coordinator.broken = {"bad"}
    messages = [Knock(query="good"), Knock(query="bad"), Knock(query="bad", tick=1)]
    answer = desk.handle([record(n, message) for n, message in enumerate(messages)])
    assert answer == failures(1, 2)
    assert ("good", None) in coordinator.asked


@pytest.mark.parametrize("body", ["", "no json", "[]", "{}", '{"query": 5}', '{"tick": 1}'])
def test_a_message_that_cannot_be_read_goes_the_way_of_dead_letters(
    desk: ControlDesk, coordinator: Coordinator, body: str
) -> None:
    answer = desk.handle([record(1, body), record(2, Knock(query="q"))])
    assert answer == failures(1)
    assert coordinator.asked == [("q", None)]


@pytest.mark.parametrize("condition", ["RetriesExhausted", "EventAgeExceeded"])
def test_word_of_a_failed_invocation_is_written_down_before_the_turn(
    desk: ControlDesk, coordinator: Coordinator, condition: str
) -> None:
    failure = {
        "version": "1.0",
        "timestamp": "2026-11-30T12:00:00.000Z",
        "requestContext": {"condition": condition, "approximateInvokeCount": 1},
        "requestPayload": {"query_id": "q", "worker_id": "w1", "worker_class": "producer"},
        "responsePayload": {"errorMessage": "Task timed out after 3.00 seconds"},
    }
    assert desk.handle([record(1, json.dumps(failure))]) == failures()
    assert coordinator.ended == [("q", {"w1"})]
    assert coordinator.asked == [("q", None)]


def test_what_there_is_no_time_for_is_said_again_and_taken_as_served(
    desk: ControlDesk, coordinator: Coordinator
) -> None:
    batch = [record(1, Knock(query="q")), record(2, Knock(query="q", tick=4))]
    assert desk.handle(batch, until=NOW - 1) == failures()
    assert coordinator.asked == []
    assert coordinator.passed_on == [("q", [4])]
    desk.handle(batch, until=NOW + 1)
    assert coordinator.asked
