"""Runs fragments: one stage's SQL over one task's inputs, in a locked engine of its own.

``carriers`` says how values of every type pass through Parquet; clients use it to read results.
"""

from crossdock.executor.carriers import check_columns, decode, decode_column, encode
from crossdock.executor.engine import Spare
from crossdock.executor.failures import FragmentFailed, FragmentInterrupted, SourceChanged
from crossdock.executor.fragment import Executor, TaskOutput
from crossdock.executor.interrupt import Interrupt
from crossdock.executor.sources import LocalSources, Sources

__all__ = [
    "Executor",
    "FragmentFailed",
    "FragmentInterrupted",
    "Interrupt",
    "LocalSources",
    "SourceChanged",
    "Sources",
    "Spare",
    "TaskOutput",
    "check_columns",
    "decode",
    "decode_column",
    "encode",
]
