"""What a state store may refuse.

StateError
|- NotFound            the item does not exist (or was purged)
|- AlreadyExists       carries the item that is there
|- Refused             a condition did not hold; carries the item that came back
|  |- StaleAttempt     a newer attempt, or another claimant, owns the task
|  |- IllegalTransition  the item is in a state this move does not start from
|  |- QueryEnded       the query is not RUNNING any more
|  |- TableMoved       another commit changed the table first; carries the table's record
|- StoreUnavailable    the store could not be asked; retryable
|- StoreDamaged        what the store keeps cannot be read
"""


class StateError(Exception):
    """The state store did not do what was asked."""


class NotFound(StateError):
    """The item does not exist; it may have been purged after its query was closed."""


class AlreadyExists(StateError):
    """An item of that name is already there; ``current`` is that item, if it was read."""

    def __init__(self, message: str, *, current: object = None) -> None:
        super().__init__(message)
        self.current = current


class Refused(StateError):
    """The condition of a write did not hold; ``current`` is the item as it stands."""

    def __init__(self, message: str, *, current: object = None) -> None:
        super().__init__(message)
        self.current = current


class StaleAttempt(Refused):
    """A newer attempt or another claimant owns this task, so this attempt's result is void."""


class IllegalTransition(Refused):
    """The item is in a state from which this move is not allowed."""


class QueryEnded(Refused):
    """The query has ended; nothing of it may start or commit."""


class TableMoved(Refused):
    """The table is not what the commit was made for; ``current`` is its record, or None."""


class StoreUnavailable(StateError):
    """The store did not answer; asking again is safe."""


class StoreDamaged(StateError):
    """What the store keeps is no state, or no longer; asking again is pointless."""
