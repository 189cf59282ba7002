"""What a connection works through: a driver for where queries run, and the runs it begins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from crossdock.planner.plan import ResultColumn, StagePlan
from crossdock.progress import StageProgress
from crossdock.receipt import Receipt

if TYPE_CHECKING:
    from crossdock.client.rows import Rows

Parameters = Sequence[object] | Mapping[str, object]
#: Hears of every stage whenever something changed.
OnProgress = Callable[[Sequence[StageProgress]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the reader of a query wants of its run."""

    on_progress: OnProgress | None = None  # hears of the tasks of a distributed query
    as_text: Callable[[str], bool] | None = None  # types whose values the engine writes as text


class Run(ABC):
    """What a cursor holds while a query is open."""

    query_id: str
    #: Of the result, in order.
    columns: Sequence[ResultColumn]
    #: What each stage does, in words.
    labels: Sequence[str]
    #: None where the plan stays with whoever made it.
    plan: StagePlan | None

    @abstractmethod
    def start(self) -> Rows:
        """Run until rows can be read. Raises ``QueryFailed``, ``QueryCancelled``."""

    @abstractmethod
    def cancel(self) -> None:
        """Ask for an end, from any thread; ``start`` or the next fetch then raises."""

    @property
    @abstractmethod
    def receipt(self) -> Receipt:
        """As far as the query has come."""

    @abstractmethod
    def close(self) -> None:
        """Free what the run holds; its rows cannot be read any more, its receipt can."""


class Tables(Protocol):
    """Named tables, as the connection's user sees them."""

    def names(self) -> Sequence[str]:
        """Sorted."""
        ...

    def sources(self, name: str) -> Sequence[str]:
        """Raises ``TableError``: unknown name."""
        ...

    def remove(self, name: str) -> None:
        """Forget a name; its files stay. Raises ``TableError``: unknown name."""
        ...


class Driver(Protocol):
    """Where queries run."""

    @property
    def tables(self) -> Tables: ...

    def begin(self, sql: str, parameters: Parameters | None, wishes: Wishes) -> Run:
        """Plan and register a query. Raises ``SqlError``, ``SettingError``, ``TableError``."""
        ...

    def explain(self, sql: str, parameters: Parameters | None) -> StagePlan:
        """The plan of a query, which is not run."""
        ...

    def close(self) -> None:
        """After every run was closed."""
        ...
