"""Every error the engine raises on purpose.

    CrossdockError
    |- InputError                  the caller can mend it; CLI exit 1 or 2, HTTP 4xx
    |  |- SettingError             an option or setting is wrong (CLI exit 2)
    |  |- SqlError                 the statement is refused, with DuckDB's reason and position
    |  |- TableError               a table cannot be read: missing, corrupt, changed
    |- QueryFailed                 the query ended FAILED; carries its ErrorRecord
    |- QueryCancelled              the query ended CANCELLED
    |- Unsupported                 the planner has no distributed form (inside the planner only)
    |- CarrierError                a type no exchange section can carry
    |- ExchangeError
    |  |- ExchangeLost             a committed object is missing (retryable: the producer re-runs)
    |  |- ExchangeCorrupt          checksum or format wrong
    |- PlatformError
       |- ObjectNotFound  |- ObjectExists
       |- QueueNotFound
       |- PlatformUnavailable      throttled, timed out; retryable
       |- PlatformDenied           permission; never retried
       |- OutOfSpace               the local disk or quota is full
"""


class CrossdockError(Exception):
    """Base of everything raised on purpose."""


class InputError(CrossdockError):
    """The caller can mend it; nothing was started."""


class SettingError(InputError):
    """A setting or option is wrong."""


class SqlError(InputError):
    """The statement is refused; the message is DuckDB's, with its position."""


class TableError(InputError):
    """A table's files cannot be read: missing, corrupt, or changed since planning."""


class QueryFailed(CrossdockError):
    """The query ended FAILED."""

    def __init__(self, message: str, *, kind: str = "", query_id: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.query_id = query_id


class QueryCancelled(CrossdockError):
    """The query was cancelled."""


class Unsupported(CrossdockError):
    """No distributed form, or an unknown plan element; the one-task rule applies."""


class CarrierError(CrossdockError):
    """A column type that no exchange section can carry."""


class ExchangeError(CrossdockError):
    """An exchange object cannot be used; names the producer attempt that wrote it, when known.

    The coordinator reruns that attempt by compare-and-set; -1 means unknown.
    """

    def __init__(
        self, message: str, *, stage: int = -1, index: int = -1, attempt: int = -1
    ) -> None:
        super().__init__(message)
        self.stage = stage
        self.index = index
        self.attempt = attempt


class ExchangeLost(ExchangeError):
    """A committed exchange object is missing."""


class ExchangeCorrupt(ExchangeError):
    """An exchange object's bytes are not what its commit promised."""


class PlatformError(CrossdockError):
    """A platform service did not do what was asked."""


class ObjectNotFound(PlatformError):
    """No object of that key."""


class ObjectExists(PlatformError):
    """Create-only: an object of that key is already there."""


class QueueNotFound(PlatformError):
    """No queue of that name; its query has probably ended."""


class PlatformUnavailable(PlatformError):
    """Throttled or timed out; asking again is right."""


class PlatformDenied(PlatformError):
    """Permission refused; asking again is pointless."""


class OutOfSpace(PlatformError):
    """The local disk, or its quota, is full."""
