"""What the control queue brings: knocks, alarms, and word of worker invocations that failed."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec

from coordinator_state.ids import QueryId, WorkerId
from crossdock.aws.capacity import BudgetedLauncher
from crossdock.coordinator import Coordinator, Terms
from crossdock.platform.aws.control import Knock
from crossdock.platform.aws.parallel import InParallel, in_parallel
from crossdock.platform.ports import Launch
from crossdock.remedies import DEPLOYED
from crossdock.scheduler import Limits

if TYPE_CHECKING:
    from crossdock.aws import Deployment

_log = logging.getLogger(__name__)

#: A launch that has not registered by then is LOST: a cold start, and a wait for a free slot.
LAUNCH_SECONDS = 60.0
#: A function's longest life.
LIFE_SECONDS = 900.0
#: A turn's lease: longer than the longest pause between two writes of a turn.
TURN_SECONDS = 20.0
#: No turn is begun with less time left, in seconds: one that is cut off half way leaves launches
#: that never come, and its messages hidden until their visibility ends.
RESERVE_SECONDS = 30.0
#: Queries of one batch served at once.
_THREADS = 4
_DAY = 86_400.0


#: A batch is small, and its turns share one processor.
_in_few_threads = partial(in_parallel, threads=_THREADS)


class Failure(msgspec.Struct, frozen=True, rename="camel"):
    """What Lambda sends for an asynchronous invocation that failed, or expired, for good."""

    request_payload: Launch


class Item(TypedDict):
    itemIdentifier: str


class BatchAnswer(TypedDict):
    """Which messages of a batch are to be delivered again; Lambda's form."""

    batchItemFailures: list[Item]


@dataclass(slots=True)
class _Mail:
    """Messages about one query."""

    messages: list[str] = field(default_factory=list)
    ticks: set[int] = field(default_factory=set)
    ended: set[WorkerId] = field(default_factory=set)  # workers whose invocations are over


class ControlDesk:
    """Takes the turns that messages ask for."""

    def __init__(self, coordinator: Coordinator, *, parallel: InParallel = _in_few_threads) -> None:
        self.coordinator = coordinator
        self._parallel = parallel

    def handle(
        self, records: Sequence[Mapping[str, Any]], *, until: float = math.inf
    ) -> BatchAnswer:
        """Serve a batch of SQS records: one run of turns per query, however many messages.

        After ``until`` (seconds since the epoch) no turn is begun: what is left is said again at
        once, for another process.

        A message is to come again when its query could not be served. One that cannot be read is
        too: after its last delivery it is set aside among the dead letters, to be looked at.
        """
        failed: list[str] = []
        mail: dict[str, _Mail] = {}
        for record in records:
            if not self._sort(record, mail):
                failed.append(record["messageId"])
        work = [(QueryId(name), letters, until) for name, letters in mail.items()]
        served = self._parallel(self._serve, work)
        for (_, letters), done in zip(mail.items(), served, strict=True):
            if not done:
                failed += letters.messages
        return {"batchItemFailures": [{"itemIdentifier": one} for one in failed]}

    def _sort(self, record: Mapping[str, Any], mail: dict[str, _Mail]) -> bool:
        """Put a message to the others of its query. False: it cannot be read."""
        message = _read(record.get("body", ""))
        if message is None:
            _log.error("control message %s cannot be read", record["messageId"])
            return False
        if isinstance(message, Failure):
            launch = message.request_payload
            _log.warning("query %s worker %s: invocation failed", launch.query_id, launch.worker_id)
            letters = mail.setdefault(launch.query_id, _Mail())
            letters.messages.append(record["messageId"])
            letters.ended.add(WorkerId(launch.worker_id))
            return True
        letters = mail.setdefault(message.query, _Mail())
        letters.messages.append(record["messageId"])
        if message.tick >= 0:
            letters.ticks.add(message.tick)
        return True

    def _serve(self, work: tuple[QueryId, _Mail, float]) -> bool:
        query_id, letters, until = work
        try:
            self._take_turns(query_id, letters, until)
        except Exception:  # noqa: BLE001 - whatever it is, it is recorded; the messages come again
            _log.exception("query %s: its turn failed", query_id)
            return False
        return True

    def _take_turns(self, query_id: QueryId, letters: _Mail, until: float) -> None:
        coordinator = self.coordinator
        if letters.ended:
            # Written down, not kept here: another process may have the turn.
            coordinator.on_ended(query_id, letters.ended)
        if coordinator.is_late(until):
            coordinator.pass_on(query_id, sorted(letters.ticks))
            return
        # An alarm that rings does all that a knock asks for.
        ticks = sorted(letters.ticks)
        rang = [coordinator.on_tick(query_id, tick, until=until) for tick in ticks]
        if not any(rang) and len(letters.messages) > len(letters.ticks):
            coordinator.on_knock(query_id, until=until)


def _read(body: str) -> Knock | Failure | None:
    try:
        return msgspec.json.decode(body, type=Knock)
    except msgspec.MsgspecError:
        pass  # then it is not one of ours
    try:
        return msgspec.json.decode(body, type=Failure)
    except msgspec.MsgspecError:
        return None


def control_desk(deployment: Deployment) -> ControlDesk:
    """The coordinator of a deployment, and what wakes it."""
    config, store = deployment.config, deployment.medium.store
    launcher = BudgetedLauncher(
        deployment.launcher, store, deployment.clock, budget=config.concurrency
    )
    coordinator = Coordinator(
        deployment.medium,
        launcher=launcher,
        control=deployment.control,
        clock=deployment.clock,
        ids=deployment.ids,
        limits=Limits(
            budget=config.query_workers,
            # The clocks of functions are kept within fractions of a second.
            skew=2.0,
            # A query may wait its turn for the deployment's budget; its own timeout bounds that.
            capacity_seconds=_DAY,
            # Events may wait in Lambda for a slot, and then several are late together.
            launch_losses=3 * config.query_workers,
            memory_setting=DEPLOYED.memory,
        ),
        terms=Terms(
            launch_seconds=LAUNCH_SECONDS,
            life_seconds=LIFE_SECONDS,
            retention_seconds=config.result_days * _DAY,
        ),
        meter=deployment.meter,
        turn_seconds=TURN_SECONDS,
        room=launcher.room,
        patience=launcher.patience,
    )
    return ControlDesk(coordinator)
