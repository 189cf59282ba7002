"""The shuffle: how rows travel from producer tasks to consumer tasks. See docs/shuffle-protocol.md.

A producer writes one exchange object (``exchange_object``), commits it, then publishes where its
sections are (``publish``). A consumer collects the sections of its partitions (``collect``).
"""

from crossdock.shuffle.collect import Collected, Collector, Event, Step
from crossdock.shuffle.exchange_object import Index, IndexEntry, Written, read_index, write
from crossdock.shuffle.publish import partition_of, publish
from crossdock.shuffle.spec import RESULT_EDGE, AttemptId, SectionFile, ShuffleId

__all__ = [
    "RESULT_EDGE",
    "AttemptId",
    "Collected",
    "Collector",
    "Event",
    "Index",
    "IndexEntry",
    "SectionFile",
    "ShuffleId",
    "Step",
    "Written",
    "partition_of",
    "publish",
    "read_index",
    "write",
]
