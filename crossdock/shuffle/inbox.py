"""What one consumer attempt has learned of its inputs: bindings, counts, sections. No I/O.

The table says which attempt of each producer counts; envelopes and trailers only say where that
attempt's sections are. Every fact may come twice, late, or in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from coordinator_state.records import Commit, TaskRecord, TaskStatus
from crossdock.planner.plan import Edge
from crossdock.shuffle.envelope import Data, Envelope, ProducerEnd
from crossdock.shuffle.exchange_object import IndexEntry
from crossdock.shuffle.publish import partition_of
from crossdock.shuffle.spec import AttemptId


class BindingMoved(Exception):
    """The table names another attempt than the one bound: everything read so far is void."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A section to fetch."""

    edge: int
    producer: AttemptId
    sequence: int
    object_key: str
    entry: IndexEntry


@dataclass(slots=True)
class Counts:
    """Messages by what became of them; entries accepted, by the way they came."""

    envelopes: int = 0
    strangers: int = 0  # no envelope of this query, version, edge or partition
    stale: int = 0  # of an attempt the table does not name
    duplicates: int = 0  # entries that were known already
    healed: int = 0  # sections learned from a trailer
    restarts: int = 0


@dataclass(slots=True)
class _Producer:
    attempt: int
    commit: Commit
    #: Per edge: how many DATA entries there are (None: not told yet), and which were accepted.
    counts: dict[int, int | None]
    accepted: dict[int, set[int]]
    rows: int = 0  # in the sections accepted

    @property
    def complete(self) -> bool:
        return all(
            count is not None and len(self.accepted[edge]) == count
            for edge, count in self.counts.items()
        )


@dataclass(slots=True)
class Inbox:
    """The inputs of consumer task ``index``: ``edges`` are its inbound ones, ``producers`` the
    number of tasks of each upstream stage.

    Of a stage with an entry in ``enough`` the first tasks that have so many rows together are all
    that is wanted. First by number, not by time: which rows are used then depends on nothing else.
    """

    query: str
    index: int
    edges: Sequence[Edge]
    producers: dict[int, int]
    enough: Mapping[int, int] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    _bound: dict[tuple[int, int], _Producer] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Every producer that is wanted has ended and every entry it counted was accepted."""
        return all(self._used(stage) is not None for stage in self.producers)

    @property
    def bound(self) -> tuple[tuple[int, int, int], ...]:
        """(stage, index, attempt) of every producer used, once the inbox is complete."""
        used = {stage: self._used(stage) or 0 for stage in self.producers}
        return tuple(
            (stage, index, self._bound[stage, index].attempt)
            for stage, index in sorted(self._bound)
            if index < used[stage]
        )

    def _used(self, stage: int) -> int | None:
        """How many tasks of ``stage``, from the first one on, are the input; None: not here yet."""
        rows, enough = 0, self.enough.get(stage, 0)
        for index in range(self.producers[stage]):
            producer = self._bound.get((stage, index))
            if producer is None or not producer.complete:
                return None
            rows += producer.rows
            if enough and rows >= enough:
                return index + 1
        return self.producers[stage]

    def knows(self, envelope: Envelope) -> bool:
        """Whether the envelope can be judged without asking the table again."""
        producer = self._bound.get((envelope.stage, envelope.index))
        return producer is not None and producer.attempt >= envelope.attempt

    def concerns(self, envelope: Envelope) -> bool:
        """Whether the envelope is about this task's inputs at all."""
        edge = self._edge(envelope.edge)
        return (
            edge is not None
            and envelope.query == self.query
            and envelope.stage == edge.producer
            and 0 <= envelope.index < self.producers[edge.producer]
            and envelope.partition == partition_of(edge, self.index)
        )

    def bind(self, records: Iterable[TaskRecord]) -> list[AttemptId]:
        """Take the table's word for which attempts count; returns those newly bound.

        Raises ``BindingMoved`` when a bound attempt is no longer the table's.
        """
        new = []
        for record in records:
            key = (int(record.stage), record.index)
            committed = record.status is TaskStatus.COMMITTED and record.commit is not None
            known = self._bound.get(key)
            if known is not None:
                if record.attempt != known.attempt or not committed:
                    raise BindingMoved(f"task {key} is at attempt {record.attempt}")
            elif committed and record.commit is not None:
                self._bound[key] = self._producer(record.attempt, record.commit, key[0])
                new.append(AttemptId(*key, record.attempt))
        return new

    def accept(self, envelope: Envelope) -> list[Wanted]:
        """Sections to fetch because of this envelope; none if it is of another attempt."""
        producer = self._bound.get((envelope.stage, envelope.index))
        if (
            producer is None
            or producer.attempt != envelope.attempt
            or producer.commit.object_key != envelope.object_key
        ):
            self.counts.stale += 1
            return []
        self.counts.envelopes += 1
        return self._take(producer, envelope.producer, envelope.edge, envelope.entries)

    def heal(
        self, attempt: AttemptId, sections: dict[tuple[int, int], list[IndexEntry]]
    ) -> list[Wanted]:
        """The same from the trailer of a committed object, all its edges at once."""
        producer = self._bound[(attempt.stage, attempt.index)]
        wanted: list[Wanted] = []
        for edge in self.edges:
            if edge.producer != attempt.stage:
                continue
            mine = sections.get((edge.edge, partition_of(edge, self.index)), [])
            new = [
                _wanted(producer, attempt, edge.edge, sequence, entry)
                for sequence, entry in enumerate(mine)
                if sequence not in producer.accepted[edge.edge]
            ]
            wanted += new
            producer.rows += sum(each.entry.rows for each in new)
            producer.counts[edge.edge] = len(mine)
            producer.accepted[edge.edge] = set(range(len(mine)))
        self.counts.healed += len(wanted)
        return wanted

    def incomplete(self) -> list[tuple[AttemptId, Commit]]:
        """Bound attempts of which entries are missing."""
        return [
            (AttemptId(*key, producer.attempt), producer.commit)
            for key, producer in sorted(self._bound.items())
            if not producer.complete
        ]

    def unfinished_stages(self) -> list[int]:
        """Upstream stages of which something is missing: a binding, a count or a section."""
        return [stage for stage in sorted(self.producers) if self._used(stage) is None]

    def forget(self) -> None:
        """Start again from nothing."""
        self._bound.clear()
        self.counts.restarts += 1

    def _edge(self, number: int) -> Edge | None:
        return next((edge for edge in self.edges if edge.edge == number), None)

    def _producer(self, attempt: int, commit: Commit, stage: int) -> _Producer:
        mine = [edge.edge for edge in self.edges if edge.producer == stage]
        return _Producer(attempt, commit, dict.fromkeys(mine), {edge: set() for edge in mine})

    def _take(
        self,
        producer: _Producer,
        attempt: AttemptId,
        edge: int,
        entries: Sequence[Data | ProducerEnd],
    ) -> list[Wanted]:
        wanted = []
        for entry in entries:
            if isinstance(entry, ProducerEnd):
                producer.counts[edge] = entry.count
            elif entry.sequence in producer.accepted[edge]:
                self.counts.duplicates += 1
            else:
                producer.accepted[edge].add(entry.sequence)
                producer.rows += entry.rows
                section = IndexEntry(
                    edge=edge,
                    partition=0,
                    offset=entry.offset,
                    length=entry.length,
                    rows=entry.rows,
                    checksum=entry.checksum,
                )
                wanted.append(_wanted(producer, attempt, edge, entry.sequence, section))
        return wanted


def _wanted(
    producer: _Producer, attempt: AttemptId, edge: int, sequence: int, entry: IndexEntry
) -> Wanted:
    return Wanted(edge, attempt, sequence, producer.commit.object_key, entry)
