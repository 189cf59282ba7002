"""A caller's mistake on its way out of the desk."""

from __future__ import annotations

from crossdock.api.messages import Refusal, RefusalKind


class Refused(Exception):
    """Ends an action with an answer; never leaves the desk."""

    def __init__(self, kind: RefusalKind, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.refusal = Refusal(kind=kind, message=message, retry_after=retry_after)
