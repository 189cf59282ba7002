"""Every error the engine raises on purpose; the upper part is the tree PEP 249 asks for.

CrossdockError                    PEP 249's Error
|- InterfaceError                 a connection or cursor is used wrongly
|- DatabaseError
   |- DataError  |- IntegrityError
   |- NotSupportedError
   |  |- Unsupported              no distributed form (inside the planner only)
   |  |- CarrierError             a type no exchange section can carry
   |- InternalError
   |  |- ExchangeError
   |     |- ExchangeLost          a committed object is missing (retryable: producer re-runs)
   |     |- ExchangeCorrupt       checksum or format wrong
   |- ProgrammingError
   |  |- InputError               the caller can mend it; CLI exit 1 or 2, HTTP 4xx
   |     |- SettingError          an option or setting is wrong (CLI exit 2)
   |     |- SqlError              the statement is refused, with DuckDB's reason and position
   |     |- TableError            a table cannot be read: missing, corrupt, changed
   |- OperationalError
      |- QueryFailed              the query ended FAILED; carries its ErrorRecord
      |- QueryCancelled           the query ended CANCELLED
      |- PlatformError
         |- ObjectNotFound  |- ObjectExists  |- ObjectChanged
         |- QueueNotFound
         |- PlatformUnavailable   throttled, timed out; retryable
         |- PlatformDenied        permission; never retried
         |- OutOfSpace            the local disk or quota is full
"""

import errno

#: What the system answers when there is no room: the disk, a quota, or the longest file allowed.
FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class CrossdockError(Exception):
    """Base of everything raised on purpose."""


#: PEP 249's name for it.
Error = CrossdockError


class Warning(Exception):
    """Part of PEP 249; nothing is warned of this way."""


class InterfaceError(CrossdockError):
    """A connection or cursor is used in a way it does not offer, such as after ``close``."""


class DatabaseError(CrossdockError):
    """What went wrong is about the query, its data or its platform."""


class DataError(DatabaseError):
    """A value is out of range or cannot be converted."""


class IntegrityError(DatabaseError):
    """Part of PEP 249; a read-only engine has no use for it."""


class NotSupportedError(DatabaseError):
    """The engine does not offer this."""


class InternalError(DatabaseError):
    """The engine met a state it should not have reached."""


class ProgrammingError(DatabaseError):
    """The statement, a table or an option is wrong."""


class OperationalError(DatabaseError):
    """The query ended without an answer, for a reason outside its text."""


class InputError(ProgrammingError):
    """The caller can mend it; nothing was started."""


class SettingError(InputError):
    """A setting or option is wrong."""


class SqlError(InputError):
    """The statement is refused; the message is DuckDB's, with its position."""


class TableError(InputError):
    """A table's files cannot be read: missing, corrupt, or changed since planning."""


class QueryFailed(OperationalError):
    """The query ended FAILED."""

    def __init__(self, message: str, *, kind: str = "", query_id: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.query_id = query_id


class QueryCancelled(OperationalError):
    """The query was cancelled."""


class Unsupported(NotSupportedError):
    """No distributed form, or an unknown plan element; the one-task rule applies."""


class CarrierError(NotSupportedError):
    """A column type that no exchange section can carry."""


class ExchangeError(InternalError):
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


class PlatformError(OperationalError):
    """A platform service did not do what was asked."""


class ObjectNotFound(PlatformError):
    """No object of that key."""


class ObjectExists(PlatformError):
    """Create-only: an object of that key is already there."""


class ObjectChanged(PlatformError):
    """An object was written again since it was looked at."""


class QueueNotFound(PlatformError):
    """No queue of that name; its query has probably ended."""


class PlatformUnavailable(PlatformError):
    """Throttled or timed out; asking again is right."""


class PlatformDenied(PlatformError):
    """Permission refused; asking again is pointless."""


class OutOfSpace(PlatformError):
    """The local disk, or its quota, is full."""
