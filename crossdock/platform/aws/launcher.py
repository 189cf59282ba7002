"""Workers as asynchronous invocations of Lambda functions."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from crossdock.errors import PlatformUnavailable
from crossdock.platform.aws.errors import translate
from crossdock.platform.aws.parallel import InParallel, in_parallel
from crossdock.platform.ports import Launch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_lambda import LambdaClient

_log = logging.getLogger(__name__)


class LambdaLauncher:
    """Invokes one function per launch and does not wait for it (``ports.Launcher``).

    Each worker class has one or more functions, used in turn: a function gets at most 1,000 new
    environments in 10 s, so several start as many times more workers at once.
    """

    def __init__(
        self,
        client: LambdaClient,
        functions: Mapping[str, Sequence[str]],
        *,
        parallel: InParallel = in_parallel,
    ) -> None:
        """``functions``: names by worker class. ``client`` must not retry (``invoke_config``)."""
        self._client = client
        self._parallel = parallel
        self._turns: dict[str, Iterator[str]] = {
            worker_class: cycle(_from_anywhere(names)) for worker_class, names in functions.items()
        }
        self._lock = threading.Lock()

    def launch(self, launches: Sequence[Launch]) -> Sequence[Launch]:
        """What is throttled, or not answered, is not accepted; its worker id is then refused.

        Raises ``PlatformDenied`` or ``PlatformError`` when a function may not be called, or is not
        there.
        """
        with self._lock:
            targets = [next(self._turns[launch.worker_class]) for launch in launches]
        pairs = list(zip(launches, targets, strict=True))
        accepted = self._parallel(self._invoke, pairs)
        return [launch for launch, taken in zip(launches, accepted, strict=True) if taken]

    def gone(self, worker_ids: Sequence[str]) -> frozenset[str]:
        """None: how an asynchronous invocation ended is told to a queue, not to its caller."""
        return frozenset()

    def _invoke(self, pair: tuple[Launch, str]) -> bool:
        launch, function = pair
        try:
            self._client.invoke(
                FunctionName=function,
                InvocationType="Event",
                Payload=msgspec.json.encode(launch),
            )
        except (BotoCoreError, ClientError) as error:
            known = translate(error, f"function {function}")
            if not isinstance(known, PlatformUnavailable):
                raise known from error
            _log.info("query %s: launch not accepted: %s", launch.query_id, known)
            return False
        return True


def _from_anywhere(names: Sequence[str]) -> Sequence[str]:
    """Starting at a random one: most processes launch few workers each."""
    start = random.randrange(len(names))
    return (*names[start:], *names[:start])
